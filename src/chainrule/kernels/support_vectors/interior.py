"""The problems of support vector machines on explicit features, by an interior-point method.

With m features of every example the matrix of the problem is `F F'`, and a Newton step is a system of size m: `I + F' D
F` with a diagonal D. Its time grows with the number of examples and the square of m, where a kernel has a row for every
example; some twenty steps are enough for any number of examples. Bounds are kept at a distance by logarithms that fade
out; where coefficients have a price of their own (the tube of regression) each is the sum of one that is positive and
one that is negative.

References: Fine and Scheinberg, Efficient SVM training using low-rank kernel representations, 2001; Mehrotra, On the
implementation of a primal-dual interior point method, 1992.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.support_vectors.optimum import DualOptimum, Limits, filled, warn_of_gap, with_zeros
from chainrule.kernels.support_vectors.problem import DualProblem, duality_gap

MOST = 200
"""Newton steps at most."""
CLOSER = 1e-5
"""Share of the tolerance that is aimed at, because near the end every step gains a digit or more."""
_NEARLY = 0.995
"""Share of the way to the nearest bound that a step takes."""
_STEP = 64
"""Small problems are filled up to a multiple of this."""
_NOTHING = 1e-5
"""Share of the way between the bounds of a coefficient below which it is none."""

Sides = Float[Array, "sides rows"]


class _Box(NamedTuple):
    """A problem between bounds that leave room: one side, or a positive and a negative one, of every example."""

    features: Float[Array, "rows features"]
    linear: Sides
    lower: Sides
    upper: Sides
    member: Float[Array, "rows groups"]
    totals: Float[Array, " groups"]
    """What the coefficients of each group add up to."""


class _Inside(NamedTuple):
    """A point between the bounds, and how far it is from the optimum."""

    at: Sides
    low: Sides
    high: Sides
    """Multipliers of the two bounds."""
    levels: Float[Array, " groups"]
    """Thresholds."""
    objective: Scalar
    gap: Scalar
    missing: Scalar
    """By how much the sums of groups are off at most."""
    steps: Array


class _Move(NamedTuple):
    at: Sides
    low: Sides
    high: Sides
    levels: Float[Array, " groups"]


def feature_optimum(
    features: Float[np.ndarray, "rows features"],
    problem: DualProblem,
    start: Float[np.ndarray, " rows"],
    limits: Limits,
    *,
    groups: int = 1,
    unit: float = 1.0,
) -> DualOptimum:
    """The optimum of a problem whose kernel is the inner product of features.

    Of the start only its sums over groups count. `unit` is the size of decision values.
    """
    rows = len(features)
    # Programs are compiled for shapes, of which there are to be few; but time grows with the cube of small ones.
    size = _STEP * -(-rows // _STEP) if rows <= 16 * _STEP else filled(rows)
    if size < features.shape[1]:  # the same inner products, of as many features as rows
        features = with_zeros(scipy.linalg.qr(features.T, mode="r")[0][:rows].T, size, axis=1)
    with jax.enable_x64(True):
        whole = DualProblem(*(jnp.asarray(with_zeros(np.asarray(part), size)) for part in problem))
        group = np.asarray(problem.group)
        totals = np.array([start[group == number].sum() for number in range(groups)])
        psi, there = jnp.asarray(with_zeros(features, size)), jnp.arange(size) < rows
        goal = jnp.asarray(limits.tolerance), jnp.asarray(1e-12 * unit**2)
        most = jnp.asarray(min(limits.steps, MOST))
        split = float(problem.width) > 0
        found, done = _minimised(psi, whole, jnp.asarray(totals), there, *goal, most, split)
        b = np.asarray(found.at.sum(axis=0))[:rows]
    between = np.asarray(problem.upper) - np.asarray(problem.lower)
    optimum = DualOptimum(
        np.where(np.abs(b) > _NOTHING * between, b, 0.0),
        np.asarray(found.levels),
        float(found.objective),
        float(found.gap),
        float(found.missing),
        int(found.steps),
        0,
        bool(done),
    )
    if not done:
        warn_of_gap(optimum, limits)
    return optimum


@eqx.filter_jit
def _minimised(
    features: Array,
    problem: DualProblem,
    totals: Array,
    there: Array,
    tolerance: Array,
    rounding: Array,
    most: Array,
    split: bool,
) -> tuple[_Inside, Array]:
    box = _boxed(features, problem, totals, there, split)

    def within(point: _Inside, share: Any) -> Array:
        scale = jnp.maximum(jnp.abs(point.objective), jnp.abs(point.objective - point.gap))
        size = jnp.abs(point.at).sum() + jnp.abs(totals).sum()
        return (point.gap <= share * scale + rounding) & (point.missing <= 1e-9 * size)

    def ahead(state: tuple[_Inside, Array]) -> Array:
        point, stuck = state
        return ~within(point, CLOSER * tolerance) & ~stuck & (point.steps < most)

    def step(state: tuple[_Inside, Array]) -> tuple[_Inside, Array]:
        point, _ = state
        new = _stepped(box, problem, point)
        stuck = ~(jnp.isfinite(new.at).all() & jnp.isfinite(new.gap))
        return jax.tree.map(lambda a, b: jnp.where(stuck, a, b), point, new), stuck

    found, _ = jax.lax.while_loop(ahead, step, (_begun(box, problem), jnp.zeros((), bool)))
    return found, within(found, tolerance)


def _boxed(features: Array, problem: DualProblem, totals: Array, there: Array, split: bool) -> _Box:
    """Examples that fill up have room to either side, no features and no group, so that they stay in the middle."""
    nothing = jnp.zeros_like(problem.linear)
    lower = jnp.where(there, problem.lower, -1.0)
    upper = jnp.where(there, problem.upper, 1.0)
    member = (problem.group[:, None] == jnp.arange(len(totals))[None]) & there[:, None]
    parts = [(problem.linear, lower, upper)]
    if split:
        parts = [
            (problem.linear + problem.width, nothing, upper),
            (problem.linear - problem.width, lower, nothing),
        ]
    linear, low, high = (jnp.stack(part) for part in zip(*parts, strict=True))
    return _Box(features, linear, low, high, member.astype(features.dtype), totals)


def _begun(box: _Box, problem: DualProblem) -> _Inside:
    """The middle between the bounds, with multipliers as large as the slopes there."""
    middle = 0.5 * (box.lower + box.upper)
    size = jnp.maximum(jnp.abs(_slope(box, middle)).max(), 1e-300)
    high = jnp.full_like(middle, size)
    levels = jnp.zeros_like(box.totals)
    return _judged(box, problem, _Move(middle, high, high, levels), jnp.zeros((), jnp.int32))


def _slope(box: _Box, at: Sides) -> Sides:
    return (box.features @ (box.features.T @ at.sum(axis=0)))[None] + box.linear


def _judged(box: _Box, problem: DualProblem, point: _Move, steps: Array) -> _Inside:
    b = point.at.sum(axis=0)
    gradient = box.features @ (box.features.T @ b) + problem.linear
    tilt = gradient - box.member @ point.levels
    price = problem.width * jnp.abs(b)
    objective = 0.5 * (b * (gradient + problem.linear)).sum() + price.sum()
    missing = jnp.abs(box.member.T @ b - box.totals).max()
    return _Inside(*point, objective, duality_gap(problem, b, tilt), missing, steps)


def _stepped(box: _Box, problem: DualProblem, point: _Inside) -> _Inside:
    """Newton's step towards the middle of what is left, corrected for its own curvature (Mehrotra)."""
    below, above = point.at - box.lower, box.upper - point.at
    loose = 1 / (point.low / below + point.high / above)
    psi = box.features
    inner = (psi * loose.sum(axis=0)[:, None]).T @ psi
    eye = jnp.eye(len(inner), dtype=inner.dtype)
    # The inverse factor, because few columns at a time are solved for several times.
    whitening = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(inner + eye), eye, lower=True)

    def solved(right: Float[Array, "sides rows columns"]) -> Float[Array, "sides rows columns"]:
        pulled = psi.T @ (loose[:, :, None] * right).sum(axis=0)
        along = psi @ (whitening.T @ (whitening @ pulled))
        return loose[:, :, None] * (right - along[None])

    of_groups = solved(jnp.broadcast_to(box.member[None], (*point.at.shape, len(box.totals))))
    between = box.member.T @ of_groups.sum(axis=0)
    slope = _slope(box, point.at) - (box.member @ point.levels)[None]
    missing = box.member.T @ point.at.sum(axis=0) - box.totals

    def direction(near: Any, far: Any) -> _Move:
        plain = solved((near / below - far / above - slope)[:, :, None])[:, :, 0]
        levels = jnp.linalg.solve(between, -missing - box.member.T @ plain.sum(axis=0))
        at = plain + of_groups @ levels
        low = near / below - point.low - point.low / below * at
        high = far / above - point.high + point.high / above * at
        return _Move(at, low, high, levels)

    def after(move: _Move, reach: Array) -> Array:
        """The mean product of distances to bounds and their multipliers."""
        lower = (below + reach * move.at) * (point.low + reach * move.low)
        upper = (above - reach * move.at) * (point.high + reach * move.high)
        return 0.5 * (lower + upper).mean()

    straight = direction(0.0, 0.0)
    now = 0.5 * (below * point.low + above * point.high).mean()
    target = now * (after(straight, _reach(point, straight, below, above)) / now) ** 3
    move = direction(target - straight.at * straight.low, target + straight.at * straight.high)
    reach = _NEARLY * _reach(point, move, below, above)
    moved = _Move(*(old + reach * change for old, change in zip(point[:4], move, strict=True)))
    return _judged(box, problem, moved, point.steps + 1)


def _reach(point: _Inside, move: _Move, below: Sides, above: Sides) -> Scalar:
    """The longest step, of one at most, that crosses no bound."""
    pairs = (below, move.at), (above, -move.at), (point.low, move.low), (point.high, move.high)
    ends = [
        jnp.where(change < 0, -left / jnp.where(change < 0, change, -1.0), jnp.inf) for left, change in pairs
    ]
    return jnp.minimum(1.0, jnp.stack([end.min() for end in ends]).min())


__all__ = ["feature_optimum"]
