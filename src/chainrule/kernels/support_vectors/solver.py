"""A working-set solver of the dual of support vector machines: many small problems, each solved pair by pair.

A step takes the examples that violate the conditions of the optimum most, together with some of the step before, and
moves their coefficients alone: two at a time, chosen by how much the pair gains (second-order selection), which touches
a small matrix only. Then the gradient of all examples follows from the rows of those that moved. Steps end when the
duality gap and the violation are within the tolerance. It is one compiled program, in double precision; kernel rows may
be kept in single precision, in which case the caller judges the result anew (`optimum`).

References: Joachims, Making large-scale support vector machine learning practical, 1999; Fan, Chen and Lin, Working set
selection using second order information for training support vector machines, 2005; Wen et al., ThunderSVM, 2018.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.kernels.kernel import Kernel, Points
from chainrule.kernels.support_vectors.problem import (
    DualProblem,
    DualProgress,
    extremes,
    good_enough,
    progress,
    slopes,
)
from chainrule.kernels.support_vectors.rows import KernelRows, added, empty, fetched

WORKING = 256
"""Examples whose coefficients move in one step."""
PAIRS = 16
"""Pairs that move in one step, at most so many for each of its examples."""
CLOSER = 0.2
"""Share of the violation that a step leaves among its own examples."""


@final
class Working(NamedTuple):
    """The examples of a step: those that came last time first."""

    examples: Int[Array, " working"]
    real: Bool[Array, " working"]
    """Whether an entry counts; others stand in where there are too few examples, and never move."""


@final
class DualState(NamedTuple):
    """Where the solver is."""

    b: Float[Array, " rows"]
    gradient: Float[Array, " rows"]
    working: Working
    rows: KernelRows
    step: Int[Array, ""]
    pairs: Int[Array, ""]
    at: DualProgress


def chosen(problem: DualProblem, state: DualState, groups: int) -> tuple[Working, Scalar]:
    """The next working set, and the violation now.

    It has the newer half of the last one, and the worst violators of both directions.
    """
    at = slopes(problem, state.b, state.gradient)
    least, greatest = extremes(at, problem.group, groups)
    half, quarter = len(state.working.examples) // 2, len(state.working.examples) // 4
    before = Working(state.working.examples[:half], state.working.real[:half])
    taken = (
        jnp.zeros(len(state.b), bool)
        .at[jnp.where(before.real, before.examples, len(state.b))]
        .set(True, mode="drop")
    )
    rising = jnp.where(taken, -jnp.inf, greatest[problem.group] - at.up)
    value, first = _most(rising, quarter)
    taken = taken.at[jnp.where(value > 0, first, len(state.b))].set(True, mode="drop")
    falling = jnp.where(taken, -jnp.inf, at.down - least[problem.group])
    other, second = _most(falling, half - quarter)
    index = jnp.concatenate([first, second, before.examples])
    return Working(index, jnp.concatenate([value > 0, other > 0, before.real])), (greatest - least).max()


def _most(score: Array, count: int) -> tuple[Array, Array]:
    """The highest scores and where they are, by single precision: which of two equal ones is no matter."""
    value, index = jax.lax.top_k(score.astype(jnp.float32), count)
    return value, index.astype(jnp.int32)


def solved_pairwise(
    matrix: Float[Array, "working working"],
    part: DualProblem,
    b: Array,
    gradient: Array,
    goal: Scalar,
    groups: int,
) -> tuple[Array, Int[Array, ""]]:
    """Coefficients of a small problem when the violation among them has fallen to the goal, and the pairs moved."""
    own = jnp.diagonal(matrix)
    mine = [part.group == number for number in range(groups)]

    def going(carry: tuple[Array, Array, Array, Array]) -> Array:
        return (carry[3] > goal) & (carry[2] < PAIRS * len(b))

    def move(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        b, gradient, count, _ = carry
        at = slopes(part, b, gradient)
        rising = [jnp.argmin(jnp.where(one, at.up, jnp.inf)) for one in mine]
        row, low, start = matrix[rising[0]], at.up[rising[0]], own[rising[0]]
        if groups == 2:
            row = jnp.where(mine[0], row, matrix[rising[1]])
            low = jnp.where(mine[0], low, at.up[rising[1]])
            start = jnp.where(mine[0], start, own[rising[1]])
        excess = at.down - low
        curvature = jnp.maximum(own + start - 2 * row, 1e-12 * (own + start) + 1e-300)
        violation = excess.max()
        j = jnp.argmax(jnp.where(excess > 0, jnp.square(excess) / curvature, -jnp.inf))
        i = rising[0] if groups == 1 else jnp.where(mine[0][j], rising[0], rising[1])
        # A coefficient that passes zero meets another slope there, so a move ends at zero.
        room_up = jnp.where(b[i] < 0, -b[i], part.upper[i] - b[i])
        room_down = jnp.where(b[j] > 0, b[j], b[j] - part.lower[j])
        far = jnp.minimum(excess[j] / curvature[j], jnp.minimum(room_up, room_down))
        far = jnp.where(violation > goal, far, 0.0)
        # At a bound exactly, whatever rounding says.
        up = jnp.where(far == room_up, jnp.where(b[i] < 0, 0.0, part.upper[i]), b[i] + far)
        down = jnp.where(far == room_down, jnp.where(b[j] > 0, 0.0, part.lower[j]), b[j] - far)
        up, down = jnp.where(far > 0, up, b[i]), jnp.where(far > 0, down, b[j])
        gradient = gradient + far * (matrix[i] - matrix[j])
        return b.at[i].set(up).at[j].set(down), gradient, count + 1, violation

    first = (b, gradient, jnp.zeros((), jnp.int32), jnp.full((), jnp.inf, b.dtype))
    found = jax.lax.while_loop(going, move, first)
    return found[0], found[2]


@eqx.filter_jit
def minimised(
    kernel: Kernel,
    points: Points,
    problem: DualProblem,
    b: Float[Array, " rows"],
    gradient: Float[Array, " rows"],
    tolerance: Scalar,
    unit: Scalar,
    most: Int[Array, ""],
    slots: int,
    groups: int,
) -> tuple[Array, Array, Array, Array]:
    """Coefficients from b on, their gradient, and the steps and pairs it took.

    Rows are kept in the precision of the points; everything else is computed in that of b.
    """
    size = min(WORKING, max(4, -(-len(b) // 4) * 4))

    def going(state: DualState) -> Array:
        return ~good_enough(state.at, tolerance, unit) & (state.step < most)

    def step(state: DualState) -> DualState:
        working, violation = chosen(problem, state, groups)
        index = working.examples
        rows = fetched(kernel, points, state.rows, index, working.real, state.step)
        matrix = rows.kept[rows.slot[index][:, None], index[None, :]].astype(b.dtype)
        old = state.b[index]
        part = DualProblem(
            problem.linear[index],
            jnp.where(working.real, problem.lower[index], old),
            jnp.where(working.real, problem.upper[index], old),
            problem.width,
            problem.group[index],
        )
        # Below the tolerance it is the gap that is not there yet, so the violation has to fall further.
        enough = tolerance * unit * state.at.unit
        goal = jnp.maximum(CLOSER * violation, jnp.where(violation > enough, 0.5 * enough, 0.0))
        new, pairs = solved_pairwise(matrix, part, old, state.gradient[index], goal, groups)
        moved = jnp.where(working.real, new - old, 0.0)
        gradient = added(rows, state.gradient, index, moved)
        where = jnp.where(working.real, index, len(state.b))
        b_new = state.b.at[where].set(new, mode="drop")
        return DualState(
            b_new,
            gradient,
            working,
            rows,
            state.step + 1,
            state.pairs + pairs,
            progress(problem, b_new, gradient, groups),
        )

    nothing = Working(jnp.zeros(size, jnp.int32), jnp.zeros(size, bool))
    zero = jnp.zeros((), jnp.int32)
    far = jnp.full((), jnp.inf, b.dtype)
    unknown = DualProgress(jnp.zeros((), b.dtype), far, far, jnp.zeros(groups, b.dtype))
    first = DualState(b, gradient, nothing, empty(points, slots), zero, zero, unknown)
    last = jax.lax.while_loop(going, step, first)
    return last.b, last.gradient, last.step, last.pairs


__all__ = ["WORKING", "DualState", "Working", "chosen", "minimised", "solved_pairwise"]
