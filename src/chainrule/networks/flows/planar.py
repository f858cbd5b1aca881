"""Planar and radial layers: they bend space along one direction or around one point (Rezende and Mohamed, 2015).

Few parameters and a cheap volume on the way from codes to data; the way back has no closed form and is found by
bisection along the one number that both of them move. They suit draws whose own density is asked for, as of
approximate posteriors, more than densities of given data.
"""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped

_HALVINGS = {4: 40, 8: 80}
"""By bytes of a number, how often an interval is halved before it is one of neighbours."""


def bisected(
    f: Callable[[Array], tuple[Array, Array]],
    target: Float[Array, " batch"],
    low: Float[Array, " batch"],
    high: Float[Array, " batch"],
) -> Float[Array, " batch"]:
    """Where an increasing function, which gives value and slope, has the values of `target`.

    A step of Newton's method from the middle found makes it exact, and carries the derivatives in everything that the
    function depends on.

    >>> bisected(lambda t: (t**3, 3 * t**2), jnp.array([8.0]), jnp.array([0.0]), jnp.array([5.0])).tolist()
    [2.0]
    """
    still = jax.lax.stop_gradient(target)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        below, above = ends
        middle = (below + above) / 2
        short = f(middle)[0] < still
        return jnp.where(short, middle, below), jnp.where(short, above, middle)

    ends = jax.lax.stop_gradient((low, high))
    below, above = jax.lax.fori_loop(0, _HALVINGS[target.dtype.itemsize], halve, ends)
    at = jax.lax.stop_gradient((below + above) / 2)
    value, slope = f(at)
    return at - (value - target) / slope


@final
class Planar(Bijection):
    """`x = z + u' tanh(w.z + b)`, with u' the nearest to u along w for which `w.u' > -1`: there it is invertible."""

    w: Float[Array, " features"]
    u: Float[Array, " features"]
    b: Float[Array, ""]
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, size: int, key: Key) -> None:
        size = whole("Planar", "size", size)
        for_w, for_u = jax.random.split(key)
        self.w = jax.random.normal(for_w, (size,)) / jnp.sqrt(size)
        self.u = 0.1 * jax.random.normal(for_u, (size,))
        self.b, self.shape = jnp.zeros(()), (size,)

    @property
    def direction(self) -> Float[Array, " features"]:
        """u', for which `w.u' = -1 + softplus(w.u)`."""
        along = self.w @ self.u
        return self.u + (jax.nn.softplus(along) - 1 - along) * self.w / (self.w @ self.w)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """The volume is `1 + w.u' (1 - tanh²)`."""
        del condition
        u = self.direction
        bent = jnp.tanh(z @ self.w + self.b)
        log_det = jnp.log1p((self.w @ u) * (1 - jnp.square(bent)))
        return Mapped(z + bent[:, None] * u[None], log_det)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By bisection for w.z."""
        del condition
        u = self.direction
        slope = self.w @ u

        def moved(along: Array) -> tuple[Array, Array]:
            bent = jnp.tanh(along + self.b)
            return along + slope * bent, 1 + slope * (1 - jnp.square(bent))

        target = x @ self.w
        along = bisected(moved, target, target - jnp.abs(slope), target + jnp.abs(slope))
        z = x - jnp.tanh(along + self.b)[:, None] * u[None]
        return Mapped(z, -jnp.log(moved(along)[1]))


@final
class Radial(Bijection):
    """`x = z + beta (z - center) / (alpha + r)`, r the distance from the centre; `alpha > 0` and `beta > -alpha`."""

    center: Float[Array, " features"]
    raw_alpha: Float[Array, ""]
    raw_beta: Float[Array, ""]
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, size: int, key: Key) -> None:
        size = whole("Radial", "size", size)
        self.center = jax.random.normal(key, (size,))
        # alpha = beta's own softplus: the layer begins as the identity.
        self.raw_alpha, self.raw_beta, self.shape = jnp.zeros(()), jnp.zeros(()), (size,)

    @property
    def _alpha_beta(self) -> tuple[Array, Array]:
        alpha = jax.nn.softplus(self.raw_alpha)
        return alpha, jax.nn.softplus(self.raw_beta) - alpha

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """Around the centre the volume is `(1 + beta h)^(D-1)`, along the radius `1 + beta h - beta r h²`."""
        del condition
        alpha, beta = self._alpha_beta
        offset = z - self.center[None]
        r = _lengths(offset)
        return Mapped(z + (beta / (alpha + r))[:, None] * offset, self._log_det(r))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By bisection for r."""
        del condition
        alpha, beta = self._alpha_beta

        def moved(r: Array) -> tuple[Array, Array]:
            return r + beta * r / (alpha + r), 1 + beta * alpha / jnp.square(alpha + r)

        offset = x - self.center[None]
        target = _lengths(offset)
        r = bisected(moved, target, jnp.maximum(target - jnp.abs(beta), 0), target + jnp.abs(beta))
        return Mapped(self.center[None] + offset / (1 + beta / (alpha + r))[:, None], -self._log_det(r))

    def _log_det(self, r: Float[Array, " batch"]) -> Float[Array, " batch"]:
        alpha, beta = self._alpha_beta
        h = 1 / (alpha + r)
        return (self.shape[0] - 1) * jnp.log1p(beta * h) + jnp.log1p(beta * h - beta * r * jnp.square(h))


def _lengths(offset: Events) -> Float[Array, " batch"]:
    """With a derivative of zero, not of no number, at the centre."""
    squares = jnp.square(offset).sum(axis=1)
    return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


__all__ = ["Planar", "Radial", "bisected"]
