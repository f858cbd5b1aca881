"""Sinkhorn iterations in the log domain: one look at every cost and one exponential of it in each.

For costs that are made anew each time, and for matrices too large for a cache: on processors, allocating a kernel of
that size takes longer than all exponentials of the few iterations it would save.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.probability.transport.entropic.costs import (
    Costs,
    EntropicProblem,
    beginning,
    density,
    earned,
)
from chainrule.probability.transport.entropic.iteration import Earned, StoppingRule, Sweep, SweepState
from chainrule.probability.transport.entropic.stages import solve_in_stages


def solve_by_sweeps(costs: Costs, problem: EntropicProblem, limits: StoppingRule, depth: int) -> SweepState:
    """Potentials of the best plan by sweeps in the log domain."""

    def sweep_at(f: Array, g: Array, eps: Array) -> tuple[Sweep, Callable[[Array, Array], Array]]:
        del f, g
        return log_sweep(costs, problem, eps), lambda f, g: jnp.asarray(True)

    g, mean = beginning(costs)
    f = jnp.zeros(costs.shape[0], costs.dtype)
    return solve_in_stages(problem, limits, depth, sweep_at, f, g, mean)


def log_sweep(costs: Costs, problem: EntropicProblem, eps: Any) -> Sweep:
    """A sweep in the log domain that looks at every pair once and takes one exponential of it.

    Rows are normalised by their largest term; what that leaves is also what columns add up. A column whose terms all
    vanish moves as far as floating-point numbers can tell.
    """
    least, weighted = jnp.finfo(costs.dtype).tiny, problem.b > 0

    def sweep(g: Array) -> tuple[Array, Array, Earned]:
        def block(matrix: Array, rows: tuple[Array, ...], sums: Array) -> tuple[Array, tuple[Array, Array]]:
            (a,) = rows
            # Columns without weight have no say in rows.
            top = (jnp.where(weighted, g, -jnp.inf)[None] - matrix).max(axis=1)
            terms = density(matrix, -top, g, eps)
            sizes = terms @ problem.b
            right = -top - eps * jnp.log(sizes)
            f = problem.marginals.damped(right, eps)
            shares = jnp.where(a > 0, a * jnp.exp((f - right) / eps) / sizes, 0.0)
            return sums + shares @ terms, (right, f)

        sums, (right, f) = costs.by_rows(block, (problem.a,), jnp.zeros_like(g))
        ahead = problem.marginals.damped(g - eps * jnp.log(jnp.maximum(sums, least)), eps)
        return f, ahead, earned(problem, right, f, g, eps)

    return sweep


__all__ = ["log_sweep", "solve_by_sweeps"]
