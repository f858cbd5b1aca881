"""Optimal transport on the line, where it has a closed form: mass keeps its order.

Reference: Santambrogio, Optimal Transport for Applied Mathematicians, 2015, section 2.1.
"""

import math
from typing import Any

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.probability.distributions.parameters import finite, floating, probabilities


def wasserstein_1d(x: Any, y: Any, p: float = 1, a: Any = None, b: Any = None) -> Scalar:
    """p-Wasserstein distance of points on the line, `(∫ |F⁻¹(u) - G⁻¹(u)|^p du)^(1/p)`, exactly.

    The points may differ in number and carry weights `a` and `b` (default: equal ones). `p=math.inf` gives the largest
    distance that any mass moves. Of samples it is the distance of the samples: that of the distributions they come from
    is finite only where these have a p-th moment.

    >>> float(wasserstein_1d([0.0, 1.0], [3.0, 2.0])), float(wasserstein_1d([0.0], [1.0, 3.0], p=2))
    (2.0, 2.2360...)
    """
    if not p >= 1:
        raise ArgumentError(
            f"wasserstein_1d(p={p}): below 1 the triangle inequality fails", remedy="use p >= 1"
        )
    first, first_levels = _ordered("x", x, "a", a)
    second, second_levels = _ordered("y", y, "b", b)
    levels = jnp.sort(jnp.concatenate([first_levels, second_levels]))
    below = jnp.concatenate([jnp.zeros_like(levels[:1]), levels[:-1]])
    # Between two levels both quantile functions are constant: look them up in the middle.
    middle = (levels + below) / 2
    apart = jnp.abs(_quantile(first, first_levels, middle) - _quantile(second, second_levels, middle))
    mass = levels - below
    if math.isinf(p):
        return jnp.where(mass > 0, apart, 0.0).max()
    total = (mass * apart**p).sum()
    return jnp.where(total > 0, jnp.where(total > 0, total, 1.0) ** (1 / p), 0.0)


def _ordered(name: str, values: Any, weight_name: str, weights: Any) -> tuple[Array, Array]:
    """Points in increasing order, and the mass up to each of them."""
    points = finite("wasserstein_1d", name, floating(values))
    if points.ndim != 1 or not len(points):
        raise ArgumentError(
            f"wasserstein_1d({name}): needs one axis of points, not shape {points.shape}",
            remedy="points in several dimensions: sinkhorn_divergence" if points.ndim == 2 else "",
        )
    if weights is None:
        return jnp.sort(points), (jnp.arange(len(points), dtype=points.dtype) + 1) / len(points)
    mass = probabilities(f"wasserstein_1d: {weight_name}", weights).astype(points.dtype)
    if mass.shape != points.shape:
        raise ArgumentError(
            f"wasserstein_1d({weight_name}): shape {mass.shape} does not fit {len(points)} points",
            remedy=f"give one weight for each point of {name}",
        )
    order = jnp.argsort(points)
    levels = jnp.cumsum(mass[order])
    return points[order], levels / levels[-1]  # rounding would leave the last level beside one


def _quantile(points: Array, levels: Array, at: Array) -> Array:
    index = jnp.searchsorted(levels, at, side="left")
    return points[jnp.minimum(index, len(points) - 1)]


__all__ = ["wasserstein_1d"]
