"""Entropic transport solved and differentiated: between two sets, and of one set with itself."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.transport.entropic.costs import (
    Costs,
    EntropicProblem,
    dual_value,
    soft_minimum,
    totals,
)
from chainrule.probability.transport.entropic.derivatives import unrolled, value_at
from chainrule.probability.transport.entropic.iteration import StoppingRule, SweepState
from chainrule.probability.transport.entropic.log_domain import solve_by_sweeps
from chainrule.probability.transport.entropic.marginals import Balanced

_ROUNDED = 0.1
"""Share of the tolerance that rounding of potentials may take before the error is that of the plan they say."""


class EntropicSolution(NamedTuple):
    """The value with its derivatives, potentials without, the error of the marginals, and the sweeps it took."""

    value: Scalar
    f: Float[Array, " some"]
    g: Float[Array, " others"]
    error: Scalar
    sweeps: Array


def tolerance_of(dtype: Any) -> float:
    """The usual error of marginals: what floating-point numbers of the type reach easily.

    >>> tolerance_of(jnp.float32)
    0.001
    """
    return 1e-3 if jnp.finfo(dtype).bits <= 32 else 1e-6


@partial(jax.jit, static_argnames=("depth", "form"))
def found(
    costs: Costs, problem: EntropicProblem, limits: StoppingRule, depth: int, form: str = "auto"
) -> SweepState:
    """Potentials of the best plan between two sets, by kernels where costs have them or in the log domain."""
    state = (
        solve_by_sweeps(costs, problem, limits, depth)
        if form == "log"
        else costs.solve(problem, limits, depth)
    )

    def extended() -> Array:
        left = soft_minimum(costs.transposed(), state.f, problem.a, problem.eps)
        return jnp.where(problem.b > 0, state.g, problem.marginals.damped(left, problem.eps))

    # Points without weight get the potential that those with weight leave to them.
    state = state._replace(g=jax.lax.cond((problem.b > 0).all(), lambda: state.g, extended))
    if not isinstance(problem.marginals, Balanced):
        return state

    def of_the_plan() -> Array:
        found = totals(costs, problem, state.f, state.g)
        rows, columns = (found.rows - problem.a, found.columns - problem.b)
        return jnp.maximum(jnp.abs(rows).sum(), jnp.abs(columns).sum())

    coarse = rounding(problem, state.f, state.g) > _ROUNDED * limits.tolerance * problem.eps
    return state._replace(error=jax.lax.cond(coarse, of_the_plan, lambda: state.error))


def rounding(problem: EntropicProblem, f: Float[Array, " some"], g: Float[Array, " others"]) -> Scalar:
    """What floating-point numbers do not keep of potentials where there is mass: beside eps, a change of the plan."""
    sizes = [jnp.where(w > 0, jnp.abs(own), 0.0).max() for w, own in ((problem.a, f), (problem.b, g))]
    return jnp.finfo(f.dtype).eps * jnp.maximum(*sizes)


@partial(jax.jit, static_argnames=("depth", "form"))
def solved(
    costs: Costs, problem: EntropicProblem, limits: StoppingRule, depth: int, form: str = "auto"
) -> EntropicSolution:
    """The entropic cost between two sets, differentiable; iterations are not looked at by derivatives."""
    state = found(*jax.lax.stop_gradient((costs, problem, limits)), depth, form)
    return EntropicSolution(value_at(costs, problem, state.f, state.g), *state)


@partial(jax.jit, static_argnames=("count",))
def solved_by_unrolling(costs: Costs, problem: EntropicProblem, count: int) -> EntropicSolution:
    """The same after a number of iterations, whose derivatives go through each of them."""
    f, g = unrolled(costs, problem, count)
    error = jnp.abs(totals(costs, problem, f, g).columns - problem.b).sum()
    return EntropicSolution(
        dual_value(costs, problem, f, g), f, g, jax.lax.stop_gradient(error), jnp.asarray(count)
    )


@jax.jit
def solved_with_itself(costs: Costs, problem: EntropicProblem, limits: StoppingRule) -> EntropicSolution:
    """The entropic cost of a set with itself: one potential, moved halfway each time, which halves its error."""
    held, own, ends = jax.lax.stop_gradient((costs, problem, limits))
    begin, turn = held.turn(own)

    def move(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        _, f, _, count = carry
        right = turn(f)
        error = jnp.where(own.a > 0, own.a * jnp.abs(jnp.expm1((f - right) / own.eps)), 0.0).sum()
        return f, (f + right) / 2, error, count + 1

    def unfinished(carry: tuple[Array, Array, Array, Array]) -> Array:
        return (carry[2] > ends.tolerance) & (carry[3] < ends.most)

    start = (begin, begin, jnp.asarray(jnp.inf, begin.dtype), jnp.zeros((), int))
    f, half, error, count = jax.lax.while_loop(unfinished, move, start)
    right = 2 * half - f  # rows are right for the pair of the two
    weighted = own.a > 0

    def extended() -> tuple[Array, Array]:
        left = soft_minimum(held, f, own.a, own.eps)
        return jnp.where(weighted, right, left), jnp.where(weighted, f, left)

    right, f = jax.lax.cond(weighted.all(), lambda: (right, f), extended)
    return EntropicSolution(value_at(costs, problem, right, f), right, f, error, count)


__all__ = [
    "EntropicSolution",
    "found",
    "rounding",
    "solved",
    "solved_by_unrolling",
    "solved_with_itself",
    "tolerance_of",
]
