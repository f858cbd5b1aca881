"""Kernels of the inner product: linear, polynomial, arc-cosine.

Reference for arc-cosine: Cho and Saul, Kernel methods for deep learning, 2009.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.angles import angular
from chainrule.kernels.kernel import Kernel, Points
from chainrule.probability.distributions.parameters import floating, require


def products(x: Array, y: Array) -> Array:
    """`x_i · y_j` of every pair."""
    return jnp.matmul(x, y.T, precision="highest")


def _offset(where: str, value: Any) -> Scalar:
    return require(where, "offset", floating(value), lambda v: (v >= 0) & (v < jnp.inf), "be at least 0")


def held(offset: Scalar) -> Scalar:
    """The offset, zero where a step of an optimiser went below; the slope is still there, and leads back."""
    return offset - jax.lax.stop_gradient(jnp.minimum(offset, 0.0))


@final
class LinearKernel(Kernel):
    """`x · y + offset`."""

    offset: Scalar

    def __init__(self, offset: Any = 0.0) -> None:
        self.offset = _offset("LinearKernel", offset)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return products(x, y) + held(self.offset)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.square(x).sum(axis=1) + held(self.offset)


@final
class Polynomial(Kernel):
    """`(x · y + offset)^degree`.

    >>> float(Polynomial(3)([1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]))
    216.0
    """

    offset: Scalar
    degree: int = eqx.field(static=True)

    def __init__(self, degree: int = 2, offset: Any = 0.0) -> None:
        self.degree = whole("Polynomial", "degree", degree)
        self.offset = _offset("Polynomial", offset)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return (products(x, y) + held(self.offset)) ** self.degree

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return (jnp.square(x).sum(axis=1) + held(self.offset)) ** self.degree


@final
class ArcCosine(Kernel):
    """`|x|^n |y|^n J_n(angle) / pi` of order n = 0, 1 or 2: twice the mean product of a random hidden layer.

    Order 0 belongs to steps that are zero at zero, order 1 to rectifiers, order 2 to squared rectifiers.

    >>> float(ArcCosine(1)([3.0, 4.0], [3.0, 4.0]))
    25.0
    """

    order: int = eqx.field(static=True)

    def __init__(self, order: int = 1) -> None:
        if order not in (0, 1, 2):
            raise ArgumentError(f"ArcCosine(order={order}): order must be 0, 1 or 2")
        self.order = order

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        squares = jnp.square(x).sum(axis=1)[:, None] * jnp.square(y).sum(axis=1)[None, :]
        known = squares > 0
        lengths = jnp.sqrt(jnp.where(known, squares, 1.0))
        cosine = jnp.where(known, products(x, y) / lengths, 0.0)
        # An angle next to zero has half the digits of its cosine: cosines that are one up to rounding are one.
        rounding = 16 * jnp.finfo(cosine.dtype).eps
        cosine = cosine + jax.lax.stop_gradient(
            jnp.where(1 - jnp.abs(cosine) < rounding, jnp.sign(cosine) - cosine, 0.0)
        )
        return jnp.where(known, lengths**self.order * angular(cosine, self.order), 0.0)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        top = {0: 1.0, 1: 1.0, 2: 3.0}[self.order]
        squares = jnp.square(x).sum(axis=1)
        return jnp.where(squares > 0, top * squares**self.order, 0.0)


__all__ = ["ArcCosine", "LinearKernel", "Polynomial", "held", "products"]
