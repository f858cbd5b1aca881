"""Monotone rational-quadratic splines between the corners of a box (Durkan, Bekasov, Murray and Papamakarios, 2019).

Between two knots the spline is a quotient of quadratics, increasing with the slopes that knots prescribe, so that its
inverse is the root of a quadratic. Widths, heights and slopes come along a leading axis, so that every step is one pass
over contiguous values.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int

MINIMUM = 1e-3
"""Least width and height of a bin, as a share of the box, and least slope at a knot."""

_Values = Float[Array, "*shape"]
_Knots = Float[Array, "knots *shape"]


class Knots(NamedTuple):
    """The knots of a spline for each of some values: positions, values and slopes, from left to right."""

    x: _Knots
    y: _Knots
    slopes: _Knots


class _Bin(NamedTuple):
    """What a spline is between two of its knots."""

    left: Array
    bottom: Array
    width: Array
    height: Array
    slope: Array
    """At the left knot."""
    next_slope: Array


def knots(
    widths: Float[Array, "bins *shape"],
    heights: Float[Array, "bins *shape"],
    slopes: Float[Array, "inner *shape"],
    bound: float,
) -> Knots:
    """The knots that unconstrained numbers stand for, in a box from `-bound` to `bound`; slopes at its ends are one.

    Zeros give the identity.

    >>> found = knots(jnp.zeros((2, 1)), jnp.zeros((2, 1)), jnp.zeros((1, 1)), 3.0)
    >>> found.x[:, 0].round(4).tolist(), round(float(found.slopes[1, 0]), 4)
    ([-3.0, 0.0, 3.0], 1.0)
    """
    one = jnp.ones((1, *widths.shape[1:]), widths.dtype)
    ends = jnp.concatenate([one, positive_slope(slopes), one])
    return Knots(_ladder(widths, bound), _ladder(heights, bound), ends)


def positive_slope(raw: _Values) -> _Values:
    """A slope above the least one; zero stands for a slope of one."""
    return MINIMUM + jax.nn.softplus(raw + math.log(math.expm1(1 - MINIMUM)))


def _ladder(raw: Float[Array, "bins *shape"], bound: float) -> _Knots:
    bins = len(raw)
    shares = MINIMUM + (1 - MINIMUM * bins) * jax.nn.softmax(raw, axis=0)
    # A product with ones below the diagonal: XLA's CPU backend sums along an axis one value at a time.
    inner = jnp.tensordot(jnp.asarray(np.tri(bins - 1, bins), raw.dtype), shares, axes=1)
    end = jnp.full((1, *raw.shape[1:]), bound, raw.dtype)
    return jnp.concatenate([-end, 2 * bound * inner - bound, end])


def spline(x: _Values, at: Knots) -> tuple[_Values, _Values]:
    """The spline and the logarithm of its slope, for values between the first knot and the last.

    >>> at = Knots(jnp.array([-3., -1., .5, 3.]), jnp.array([-3., -2., 1.5, 3.]), jnp.array([1., .5, 3., 1.]))
    >>> y, log_slope = spline(jnp.array(-2.0), at)
    >>> round(float(y), 6), round(float(jnp.exp(log_slope)), 6)
    (-2.4, 0.4)
    """
    found = _bin_of(x, at.x, at)
    share = (x - found.left) / found.width
    s = found.height / found.width
    across = share * (1 - share)
    below = s + (found.next_slope + found.slope - 2 * s) * across
    y = found.bottom + found.height * (s * jnp.square(share) + found.slope * across) / below
    return y, _log_slope(found, share, s, across, below)


def inverse_spline(y: _Values, at: Knots) -> tuple[_Values, _Values]:
    """The inverse of the spline and the logarithm of its slope, for values between the first knot and the last.

    >>> at = Knots(jnp.array([-3., -1., .5, 3.]), jnp.array([-3., -2., 1.5, 3.]), jnp.array([1., .5, 3., 1.]))
    >>> round(float(inverse_spline(jnp.array(-2.4), at)[0]), 5)
    -2.0
    """
    found = _bin_of(y, at.y, at)
    s = found.height / found.width
    rise = y - found.bottom
    bend = found.next_slope + found.slope - 2 * s
    a = found.height * (s - found.slope) + rise * bend
    b = found.height * found.slope - rise * bend
    c = -s * rise
    # Of the two forms of the root, the one without cancellation; rounding may take the discriminant below zero.
    share = 2 * c / (-b - jnp.sqrt(jnp.maximum(jnp.square(b) - 4 * a * c, 0)))
    across = share * (1 - share)
    x = found.left + share * found.width
    return x, -_log_slope(found, share, s, across, s + bend * across)


def _bin_of(value: _Values, edges: _Knots, at: Knots) -> _Bin:
    """The bin of each value, whose edges are among its knots."""
    number = (value[None] >= edges[1:-1]).sum(axis=0)
    left, bottom, slope = (_picked(one, number) for one in at)
    right, top, next_slope = (_picked(one, number + 1) for one in at)
    return _Bin(left, bottom, right - left, top - bottom, slope, next_slope)


def _picked(numbers: _Knots, position: Int[Array, "*shape"]) -> _Values:
    return jnp.take_along_axis(numbers, position[None], axis=0, mode="promise_in_bounds")[0]


def _log_slope(found: _Bin, share: Array, s: Array, across: Array, below: Array) -> Array:
    above = found.next_slope * jnp.square(share) + 2 * s * across + found.slope * jnp.square(1 - share)
    return 2 * jnp.log(s) + jnp.log(above) - 2 * jnp.log(below)


__all__ = ["MINIMUM", "Knots", "inverse_spline", "knots", "positive_slope", "spline"]
