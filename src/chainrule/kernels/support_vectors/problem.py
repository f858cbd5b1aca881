"""The quadratic program behind every support vector machine, its gradients, and how far a point is from its optimum.

All four machines (classes with C or with nu, values, one class) are one problem in signed coefficients b:

    minimise  ½ b'Kb + p'b + e |b|₁   where  lower ≤ b ≤ upper  and the sums of b over groups stay as they begin.

Lower bounds are at most zero and upper ones at least zero. At the optimum every coefficient that can rise has a slope
of at least the threshold of its group, and every one that can fall a slope of at most that. The duality gap adds up,
over the examples, what each could still gain if the gradient stayed as it is; it bounds the distance to the optimum.

References: Chang and Lin, LIBSVM: a library for support vector machines, 2011; Schölkopf, Smola, Williamson and
Bartlett, New support vector algorithms, 2000; Schölkopf et al., Estimating the support of a high-dimensional
distribution, 2001.
"""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int, Scalar


@final
class DualProblem(NamedTuple):
    """What is minimised, but for the kernel."""

    linear: Float[Array, " rows"]
    """p."""
    lower: Float[Array, " rows"]
    upper: Float[Array, " rows"]
    """Bounds of the coefficients."""
    width: Scalar
    """e: the price of a coefficient of either sign, half the width of the tube of regression."""
    group: Int[Array, " rows"]
    """Which sum a coefficient belongs to: 0, or 0 and 1."""


def posed(
    linear: Float[np.ndarray, " rows"],
    lower: Float[np.ndarray, " rows"],
    upper: Float[np.ndarray, " rows"],
    *,
    width: float = 0.0,
    group: Int[np.ndarray, " rows"] | None = None,
) -> DualProblem:
    """The problem in double precision; without groups all coefficients belong to one sum."""
    groups = np.zeros(len(linear), np.int32) if group is None else group.astype(np.int32)
    with jax.enable_x64(True):
        bounds = jnp.asarray(lower, jnp.float64), jnp.asarray(upper, jnp.float64)
        ends = jnp.asarray(width, jnp.float64), jnp.asarray(groups)
        return DualProblem(jnp.asarray(linear, jnp.float64), *bounds, *ends)


@final
class Slopes(NamedTuple):
    """Directional derivatives of the objective."""

    up: Float[Array, " rows"]
    """By a coefficient that rises; infinite where it cannot."""
    down: Float[Array, " rows"]
    """By a coefficient that falls, with the sign of a rise; minus infinite where it cannot."""


def slopes(problem: DualProblem, b: Float[Array, " rows"], gradient: Float[Array, " rows"]) -> Slopes:
    """The slopes at b, whose smooth part `Kb + p` has this gradient."""
    up = gradient + jnp.where(b >= 0, problem.width, -problem.width)
    down = gradient + jnp.where(b > 0, problem.width, -problem.width)
    return Slopes(
        jnp.where(b < problem.upper, up, jnp.inf),
        jnp.where(b > problem.lower, down, -jnp.inf),
    )


def extremes(at: Slopes, group: Int[Array, " rows"], groups: int) -> tuple[Array, Array]:
    """The least slope up and the greatest slope down of each group."""
    own = [group == number for number in range(groups)]
    return (
        jnp.stack([jnp.where(mine, at.up, jnp.inf).min() for mine in own]),
        jnp.stack([jnp.where(mine, at.down, -jnp.inf).max() for mine in own]),
    )


def thresholds(problem: DualProblem, at: Slopes, groups: int) -> Float[Array, " groups"]:
    """The threshold of each group: the mean slope of coefficients inside their bounds, else the middle of the rest."""
    least, greatest = extremes(at, problem.group, groups)
    ends = jnp.isfinite(least), jnp.isfinite(greatest)
    middle = jnp.where(
        ends[0] & ends[1],
        0.5 * (jnp.where(ends[0], least, 0.0) + jnp.where(ends[1], greatest, 0.0)),
        jnp.where(ends[0], least, jnp.where(ends[1], greatest, 0.0)),
    )
    free = (at.up == at.down)[None, :] & (problem.group[None, :] == jnp.arange(groups)[:, None])
    count = free.sum(axis=1)
    total = jnp.where(free, jnp.where(at.up == at.down, at.up, 0.0)[None, :], 0.0).sum(axis=1)
    return jnp.where(count > 0, total / jnp.maximum(count, 1), middle)


@final
class DualProgress(NamedTuple):
    """How far a point is from the optimum."""

    objective: Scalar
    gap: Scalar
    """Duality gap: the objective is at most this much above the least there is."""
    violation: Scalar
    """By how much the worst slope down exceeds the least slope up of its group."""
    thresholds: Float[Array, " groups"]

    @property
    def unit(self) -> Scalar:
        """What violations are measured in: with two groups half their distance, which becomes the margin."""
        if len(self.thresholds) == 2:
            return 0.5 * jnp.abs(self.thresholds[0] - self.thresholds[1])
        return jnp.ones((), self.objective.dtype)


def progress(problem: DualProblem, b: Array, gradient: Array, groups: int) -> DualProgress:
    """Objective, duality gap, violation and thresholds at b."""
    at = slopes(problem, b, gradient)
    least, greatest = extremes(at, problem.group, groups)
    levels = thresholds(problem, at, groups)
    price = problem.width * jnp.abs(b)
    objective = 0.5 * (b * (gradient + problem.linear)).sum() + price.sum()
    gap = duality_gap(problem, b, gradient - levels[problem.group])
    violation = jnp.maximum((greatest - least).max(), 0.0)
    return DualProgress(objective, gap, violation, levels)


def duality_gap(problem: DualProblem, b: Array, tilt: Array) -> Scalar:
    """The duality gap at b, where the smooth part of the objective has this slope less the threshold of the group."""
    best = jnp.minimum(
        0.0,
        jnp.minimum(
            problem.upper * (tilt + problem.width),
            problem.lower * (tilt - problem.width),
        ),
    )
    return (b * tilt + problem.width * jnp.abs(b) - best).sum()


def good_enough(at: DualProgress, tolerance: Scalar, unit: Scalar) -> Array:
    """Whether gap and violation are within the tolerance: of the objective, and of the unit of decision values."""
    scale = jnp.maximum(jnp.abs(at.objective), jnp.abs(at.objective - at.gap))
    rounding = 1e-12 * unit * unit
    return (at.gap <= tolerance * scale + rounding) & (at.violation <= tolerance * unit * at.unit)


__all__ = [
    "DualProblem",
    "DualProgress",
    "Slopes",
    "duality_gap",
    "extremes",
    "good_enough",
    "posed",
    "progress",
    "slopes",
    "thresholds",
]
