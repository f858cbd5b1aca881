"""Von Mises-Fisher distributions: directions in n dimensions around a mean, `p(z) ∝ exp(κ mean·z)` on the unit sphere.

All that is needed of one is an integral over the angle t to the mean, whose density is `exp(κ cos t) sin(t)^(n-2)`. It
is taken by Gauss-Legendre quadrature over the angles that matter, in logarithms and with `1 - cos t = 2 sin²(t/2)`, so
that single precision gives normalisers, moments and divergences for any concentration; Bessel functions of large order
and argument, in which these are usually written, overflow there. Angles are drawn by inverting the distribution
function, not by rejection (Davidson et al., 2018), so that gradients of draws are those of the inverse.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float

_REACH = 9.0
"""Standard deviations around the likeliest angle beyond which nothing is left in single precision."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_CELLS = 256
"""Cells in which the distribution function of the angle is linear where draws are made."""


class Angle(NamedTuple):
    """What the angle to the mean direction tells of a distribution."""

    log_integral: Float[Array, "*batch"]
    """`log ∫ exp(κ (cos t - 1)) sin(t)^(n-2) dt`."""
    below: Float[Array, "*batch"]
    """The mean of `1 - cos t`."""
    variance: Float[Array, "*batch"]
    """The variance of `cos t`."""


def angle(kappa: Float[Array, "*batch"], size: int) -> Angle:
    """The integrals of the angle in `size` dimensions at concentrations `kappa`.

    >>> found = angle(jnp.array(2.0), 3)  # the mean of cos t is coth κ - 1/κ
    >>> round(float(1 - found.below), 5)
    0.53731
    """
    low, high = _range(kappa, size)
    half = (high - low) / 2
    t = low[..., None] + half[..., None] * _beside(1 + _NODES, kappa)
    density = _log_density(kappa[..., None], t, size) + _beside(np.log(_WEIGHTS), kappa)
    shares = jax.nn.softmax(density, axis=-1)
    below = _below(t)
    mean = (shares * below).sum(axis=-1)
    variance = (shares * jnp.square(below - mean[..., None])).sum(axis=-1)
    return Angle(jax.nn.logsumexp(density, axis=-1) + jnp.log(half), mean, variance)


def log_prob(
    mean: Float[Array, "*batch size"], kappa: Float[Array, "*batch"], z: Float[Array, "*batch size"]
) -> Float[Array, "*batch"]:
    """The log-density of directions, with respect to the area of the sphere."""
    size = z.shape[-1]
    apart = jnp.square(z - mean).sum(axis=-1) / 2  # 1 - cos t, without cancellation
    return -kappa * apart - angle(kappa, size).log_integral - log_area(size - 1)


def divergence_from_uniform(kappa: Float[Array, "*batch"], size: int) -> Float[Array, "*batch"]:
    """KL(vMF || all directions alike), which depends on the concentration alone.

    >>> round(float(divergence_from_uniform(jnp.array(2.0), 3)), 5)  # κ coth κ - 1 + log(κ / sinh κ)
    0.47941
    """
    found = angle(kappa, size)
    return -kappa * found.below - found.log_integral - log_area(size - 1) + log_area(size)


def draw(
    mean: Float[Array, "*batch size"], kappa: Float[Array, "*batch"], noise: Float[Array, "*batch size"]
) -> Float[Array, "*batch size"]:
    """The directions that standard normal noise becomes: its first entry gives the angle, the others the side."""
    size = mean.shape[-1]
    t = _quantile(kappa, jax.scipy.stats.norm.cdf(noise[..., 0]), size)
    side = noise[..., 1:]
    side = side / jnp.sqrt(jnp.maximum(jnp.square(side).sum(axis=-1, keepdims=True), 1e-20))
    upright = jnp.concatenate([jnp.cos(t)[..., None], jnp.sin(t)[..., None] * side], axis=-1)
    # The reflection that swaps the first axis and the mean.
    axis = jnp.zeros_like(mean).at[..., 0].set(1.0) - mean
    length = jnp.square(axis).sum(axis=-1, keepdims=True)
    turned = upright - 2 * axis * (axis * upright).sum(axis=-1, keepdims=True) / jnp.maximum(length, 1e-12)
    return jnp.where(length < 1e-10, upright, turned)


def _quantile(
    kappa: Float[Array, "*batch"], uniform: Float[Array, "*batch"], size: int
) -> Float[Array, "*batch"]:
    """The angle below which this share of the distribution lies."""
    low, high = _range(kappa, size)
    width = (high - low) / _CELLS
    edges = low[..., None] + width[..., None] * _beside(np.arange(_CELLS), kappa)
    shares = jax.nn.softmax(_log_density(kappa[..., None], edges + width[..., None] / 2, size), axis=-1)
    upper = jnp.cumsum(shares, axis=-1)
    cell = jnp.minimum((upper < uniform[..., None]).sum(axis=-1), _CELLS - 1)[..., None]
    own = jnp.take_along_axis(shares, cell, axis=-1)[..., 0]
    before = jnp.take_along_axis(upper, cell, axis=-1)[..., 0] - own
    edge = jnp.take_along_axis(edges, cell, axis=-1)[..., 0]
    inside = jnp.clip((uniform - before) / jnp.maximum(own, 1e-12), 0, 1)
    return edge + width * inside


def _range(kappa: Array, size: int) -> tuple[Array, Array]:
    """The angles that matter: some standard deviations around the likeliest, which no gradient passes."""
    kappa = jax.lax.stop_gradient(kappa)
    free = size - 2.0
    cosine = 2 * kappa / (free + jnp.sqrt(free**2 + 4 * jnp.square(kappa)) + 1e-20)
    sine = jnp.sqrt(jnp.maximum(1 - jnp.square(cosine), 1e-12))
    spread = 1 / jnp.sqrt(kappa * cosine + free / jnp.square(sine) + 1e-6)
    middle = jnp.arctan2(sine, cosine)
    return jnp.maximum(middle - _REACH * spread, 0.0), jnp.minimum(middle + _REACH * spread, math.pi)


def _beside(values: np.ndarray, batch: Array) -> Array:
    """The same numbers along a last axis for every entry of a batch."""
    return jnp.asarray(values.reshape((1,) * batch.ndim + values.shape), batch.dtype)


def _below(t: Array) -> Array:
    """`1 - cos t` without cancellation."""
    return 2 * jnp.square(jnp.sin(t / 2))


def _log_density(kappa: Array, t: Array, size: int) -> Array:
    sine = jnp.maximum(jnp.sin(t), 1e-20)
    return -kappa * _below(t) + (size - 2) * jnp.log(sine)


def log_area(size: int) -> float:
    """The logarithm of the area of the unit sphere in so many dimensions; in one, of its two points.

    >>> round(math.exp(log_area(3)) / math.pi, 6)
    4.0
    """
    return math.log(2) + size / 2 * math.log(math.pi) - math.lgamma(size / 2)


__all__ = ["Angle", "angle", "divergence_from_uniform", "draw", "log_area", "log_prob"]
