"""Entropic optimal transport between two point sets (Cuturi, 2013).

    OT(x, y) = min over plans P of <C, P> + epsilon KL(P || uniform),   C = squared distances

Solved for its two potentials in the log domain, which neither overflows nor underflows. The smoothed cost of a set from
itself is not zero; the Sinkhorn divergence takes that away (Feydy et al., 2019):

    S(x, y) = OT(x, y) - OT(x, x)/2 - OT(y, y)/2

It is zero for equal sets and positive otherwise. Gradients do not pass: the loop runs until it has converged.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.core.types import Array, Float
from chainrule.probability.distances import squared_distances

_EVERY = 10
"""Iterations between two checks of the error."""
_MOST = 2000
_FALL = 0.5
"""Factor by which epsilon falls to its value, every time the error would be looked at."""
_SHARE = 0.05
"""The usual epsilon, beside the mean cost."""


class TransportPlan(NamedTuple):
    """A solution: its cost, both potentials, and how much of its mass is not where it should be."""

    cost: Float[Array, ""]
    f: Float[Array, " some"]
    g: Float[Array, " others"]
    error: Float[Array, ""]


class Divergence(NamedTuple):
    """A Sinkhorn divergence in squared units of the points, and the epsilon it was computed with."""

    value: float
    epsilon: float


def sinkhorn_divergence(x: Any, y: Any, epsilon: float | None = None) -> Divergence:
    """How far two sets of points are apart; `epsilon` is a twentieth of their mean squared distance by default.

    A set moved as a whole is as far away as it was moved, squared:

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> round(sinkhorn_divergence(x, x + np.array([[3.0, 4.0]])).value, 3)
    25.0
    """
    one, other = (np.asarray(points) for points in (x, y))
    for name, points in (("x", one), ("y", other)):
        if points.ndim != 2 or not len(points) or points.shape[1] != one.shape[1]:
            raise ArgumentError(
                f"sinkhorn_divergence: {name} of shape {points.shape}",
                remedy="give rows of equally many numbers",
            )
        if not np.isfinite(points).all():
            raise ArgumentError(f"sinkhorn_divergence: {name} has entries that are not finite")
    first, second = jnp.asarray(one), jnp.asarray(other)
    if epsilon is None:
        epsilon = usual_epsilon(one, other)
    if not epsilon > 0:
        raise ArgumentError(f"epsilon={epsilon}: the weight of the entropy is positive")
    plans = (entropic(first, second, epsilon), *(entropic_to_itself(a, epsilon) for a in (first, second)))
    worst = max(float(plan.error) for plan in plans)
    if not worst <= _tolerance(first.dtype):
        raise DivergedError(
            f"sinkhorn_divergence: {worst:.2g} of the mass is misplaced after {_MOST} iterations "
            f"with epsilon={epsilon:.3g}",
            remedy="use a larger epsilon",
        )
    cost, own, others = (float(plan.cost) for plan in plans)
    return Divergence(cost - own / 2 - others / 2, epsilon)


def _mean_cost(x: np.ndarray, y: np.ndarray) -> float:
    """The mean squared distance of all pairs, by the moments of both sets: no array of all differences."""
    first, second = (np.asarray(points, np.float64) for points in (x, y))
    spread = first.var(axis=0).sum() + second.var(axis=0).sum()
    return float(spread + np.square(first.mean(axis=0) - second.mean(axis=0)).sum())


def usual_epsilon(x: Float[np.ndarray, "some dim"], y: Float[np.ndarray, "others dim"]) -> float:
    """A twentieth of the mean squared distance, and never zero."""
    return max(_SHARE * _mean_cost(x, y), float(np.finfo(np.float32).tiny))


@jax.jit
def entropic(x: Float[Array, "some dim"], y: Float[Array, "others dim"], epsilon: Any) -> TransportPlan:
    """The smoothed transport of one set to another: potentials that make columns and rows uniform, in turn."""
    cost = squared_distances(x, y)

    def turn(f: Array, g: Array, epsilon: Array) -> tuple[Array, Array]:
        g = best(cost.T, f, epsilon)
        return best(cost, g, epsilon), g

    # Rows are uniform after each turn: what is left of the error is in the columns.
    f, g, error = _until(turn, lambda f, g: g - best(cost.T, f, epsilon), cost, epsilon)
    return TransportPlan(f.mean() + g.mean(), f, g, error)


@jax.jit
def entropic_to_itself(x: Float[Array, "some dim"], epsilon: Any) -> TransportPlan:
    """The same for one set and itself: one potential, which moves halfway each time and converges in a few moves."""
    cost = squared_distances(x, x)

    def half(f: Array, g: Array, epsilon: Array) -> tuple[Array, Array]:
        del g
        f = (f + best(cost, f, epsilon)) / 2
        return f, f

    f, _, error = _until(half, lambda f, g: f - best(cost, f, epsilon), cost, epsilon)
    return TransportPlan(2 * f.mean(), f, f, error)


def best(
    cost: Float[Array, "some others"], potential: Float[Array, " others"], epsilon: Any
) -> Float[Array, " some"]:
    """The potential that makes rows uniform, given that of the columns."""
    return -epsilon * (jax.nn.logsumexp((potential[None] - cost) / epsilon, axis=1) - math.log(cost.shape[1]))


def _until(
    move: Callable[[Array, Array, Array], tuple[Array, Array]],
    missing: Callable[[Array, Array], Array],
    cost: Array,
    epsilon: Any,
) -> tuple[Array, Array, Array]:
    """Potentials moved until all mass is where it should be, and the error that is left.

    Epsilon falls to its value from the largest cost: between far groups of points, mass moves fast only while it is
    large.
    """
    wanted = jnp.asarray(epsilon, cost.dtype)

    def several(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        f, g, now, _, count = carry
        f, g = jax.lax.fori_loop(0, _EVERY, lambda _, pair: move(pair[0], pair[1], now), (f, g))
        error = jnp.where(now > wanted, jnp.inf, jnp.abs(jnp.expm1(missing(f, g) / wanted)).mean())
        return f, g, jnp.maximum(_FALL * now, wanted), error, count + _EVERY

    def unfinished(carry: tuple[Array, ...]) -> Array:
        return (carry[3] > _tolerance(cost.dtype)) & (carry[4] < _MOST)

    nothing = (jnp.zeros(count, cost.dtype) for count in cost.shape)
    start = (*nothing, jnp.maximum(cost.max(), wanted), jnp.asarray(jnp.inf, cost.dtype), jnp.zeros((), int))
    f, g, _, error, _ = jax.lax.while_loop(unfinished, several, start)
    return f, g, error


def _tolerance(dtype: Any) -> float:
    return 1e-3 if dtype == jnp.float32 else 1e-6


__all__ = [
    "Divergence",
    "TransportPlan",
    "best",
    "entropic",
    "entropic_to_itself",
    "sinkhorn_divergence",
    "usual_epsilon",
]
