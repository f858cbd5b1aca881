"""Invertible 1x1 convolutions: the channels of every pixel, multiplied by one matrix that is learned.

Between couplings, which leave half of the channels as they are, they take the place of a fixed permutation. Kept as
`W = P L (U + diag s)`, the matrix has its determinant on a diagonal, and is inverted by two triangular solves. Products
are taken in full precision also where a GPU would round factors to fewer digits: what goes one way has to come back.

Reference: Kingma and Dhariwal, Glow: generative flow with invertible 1x1 convolutions, NeurIPS 2018.
"""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import lu, solve_triangular
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key
from chainrule.networks.flows.base import Conditions, Elementary, Events, LogDets, Mapped
from chainrule.networks.flows.elementwise import event_shape


@final
class OneByOne(Elementary):
    """`z = x W` with `W = P L (U + diag s)`, at first a random rotation; features are along the last axis of an event.

    The order of rows in P and the signs of s stay as they were drawn.

    >>> layer = OneByOne((4, 4, 2), key=jax.random.key(0))
    >>> x = jnp.ones((1, 4, 4, 2))
    >>> bool(jnp.allclose(layer.forward(layer.inverse(x).value).value, x, atol=1e-5))
    True
    """

    below: Float[Array, "channels channels"]
    """What lies below the diagonal is that of L; ones are on it."""
    above: Float[Array, "channels channels"]
    """What lies above the diagonal is U."""
    log_scale: Float[Array, " channels"]
    """log |s|."""
    negative: Bool[Array, " channels"]
    """Where s is."""
    rows: Int[Array, " channels"]
    """Which row of `L (U + diag s)` each row of W is."""
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], *, key: Key) -> None:
        self.shape = event_shape("OneByOne", shape)
        order, self.below, upper = lu(rotation(key, shape[-1]))
        scale = jnp.diagonal(upper)
        self.above, self.log_scale, self.negative = upper, jnp.log(jnp.abs(scale)), scale < 0
        self.rows = order.argmax(axis=1).astype(jnp.int32)

    @property
    def weight(self) -> Float[Array, "channels channels"]:
        """W."""
        lower, upper = self._triangles()
        return _product(lower, upper)[self.rows]

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the inverse of W, from two triangular solves."""
        del condition
        lower, upper = self._triangles()
        right = solve_triangular(upper, jnp.eye(len(upper), dtype=upper.dtype))
        back = solve_triangular(lower.T, right.T, lower=False).T  # right L⁻¹
        return Mapped(_product(z, back[:, self.rows]), -self._log_det(z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By W."""
        del condition
        return Mapped(_product(x, self.weight), self._log_det(x))

    def _triangles(self) -> tuple[Float[Array, "channels channels"], Float[Array, "channels channels"]]:
        scale = jnp.where(self.negative, -1, 1) * jnp.exp(self.log_scale)
        lower = jnp.tril(self.below, -1) + jnp.eye(len(scale), dtype=self.below.dtype)
        return lower, jnp.triu(self.above, 1) + jnp.diag(scale)

    def _log_det(self, like: Events) -> LogDets:
        return _for_each(like, self.log_scale.sum())


@final
class DenseOneByOne(Elementary):
    """`z = x W` with every entry of W learned: its determinant and inverse take a factorisation each time."""

    weight: Float[Array, "channels channels"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], *, key: Key) -> None:
        self.shape = event_shape("DenseOneByOne", shape)
        self.weight = rotation(key, shape[-1])

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the inverse of W."""
        del condition
        return Mapped(_product(z, jnp.linalg.inv(self.weight)), -self._log_det(z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By W."""
        del condition
        return Mapped(_product(x, self.weight), self._log_det(x))

    def _log_det(self, like: Events) -> LogDets:
        return _for_each(like, jnp.linalg.slogdet(self.weight).logabsdet)


def rotation(key: Key, size: int) -> Float[Array, "size size"]:
    """A random orthogonal matrix, none likelier than another.

    >>> w = rotation(jax.random.key(0), 3)
    >>> bool(jnp.allclose(w @ w.T, jnp.eye(3), atol=1e-5))
    True
    """
    q, r = jnp.linalg.qr(jax.random.normal(key, (size, size)))
    return q * jnp.sign(jnp.diagonal(r))[None, :]


def _product(x: Array, w: Array) -> Array:
    rows = x.reshape(-1, x.shape[-1])
    return jnp.matmul(rows, w.astype(x.dtype), precision=jax.lax.Precision.HIGHEST).reshape(x.shape)


def _for_each(like: Events, log_det: Array) -> LogDets:
    """The change of volume of one pixel, at every pixel of every example."""
    return jnp.broadcast_to((math.prod(like.shape[1:-1]) * log_det).astype(like.dtype), (len(like),))


__all__ = ["DenseOneByOne", "OneByOne", "rotation"]
