"""Sinkhorn's iteration seen as alternating projections, every one of them to look at.

The entropic plan is the coupling nearest to `K = exp(-C / eps)` in Kullback-Leibler divergence. Plans with right rows
form one affine set, plans with right columns another; projecting on them in turn, each time from the last plan, ends at
the one plan in both. What the divergence from that plan loses in a step is the divergence between two steps, a theorem
of Pythagoras (Bregman, 1967; Benamou et al., 2015).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import finite
from chainrule.probability.transport.entropic.costs import EntropicProblem
from chainrule.probability.transport.entropic.marginals import Balanced
from chainrule.probability.transport.sinkhorn import as_costs, checked_weights, strength


class Projections(NamedTuple):
    """Plans in the order in which projections make them, beginning with the normalised kernel."""

    plans: Float[Array, "steps some others"]
    errors: Float[Array, " steps"]
    """Mass in wrong rows and in wrong columns, of each plan."""
    values: Float[Array, " steps"]
    """What the potentials of each plan achieve in the dual problem: never falling, up to the entropic cost."""


def alternating_projections(a: Any, b: Any, cost: Any, eps: Any = None, steps: int = 20) -> Projections:
    """The normalised kernel and the plans after so many projections, on right rows first, then on right columns.

    Columns are scaled from the right: `P diag(b / P'1)`. Computed in logarithms, so that any `eps` will do.

    >>> found = alternating_projections([0.5, 0.5], [0.25, 0.75], [[0.0, 1.0], [1.0, 0.0]], 0.5, steps=6)
    >>> found.plans.shape, bool((found.errors[1:] <= found.errors[:-1]).all())
    ((7, 2, 2), True)
    """
    costs = as_costs("alternating_projections", cost)
    rows, columns = checked_weights("alternating_projections", a, b, costs)
    problem = EntropicProblem(rows, columns, strength("alternating_projections", eps, costs), Balanced())
    matrix = finite("alternating_projections", "cost", costs.matrix_of("alternating_projections"))
    return _projected(matrix, problem, whole("alternating_projections", "steps", steps))


@partial(jax.jit, static_argnums=2)
def _projected(matrix: Array, problem: EntropicProblem, steps: int) -> Projections:
    a, b, eps = problem.a, problem.b, problem.eps
    log_a, log_b = (jnp.log(weights) for weights in (a, b))
    kernel = -matrix / eps
    kernel = kernel - jax.nn.logsumexp(kernel)

    def described(log_plan: Array) -> tuple[Array, Array, Array]:
        plan = jnp.exp(log_plan)
        error = jnp.abs(plan.sum(axis=1) - a).sum() + jnp.abs(plan.sum(axis=0) - b).sum()
        # f + g of a plan, as a matrix: its mean under a b' is what the potentials achieve.
        potentials = matrix + eps * (log_plan - jnp.where(a > 0, log_a, 0.0)[:, None])
        potentials = potentials - eps * jnp.where(b > 0, log_b, 0.0)[None]
        weights = a[:, None] * b[None]
        gains = jnp.where(weights > 0, weights * jnp.where(weights > 0, potentials, 0.0), 0.0).sum()
        return plan, error, gains - eps * (plan.sum() - 1)

    def step(log_plan: Array, number: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        # What has no weight has no mass, whatever it is divided by.
        in_rows = log_plan + (log_a - jax.nn.logsumexp(log_plan, axis=1))[:, None]
        in_columns = log_plan + (log_b - jax.nn.logsumexp(log_plan, axis=0))[None]
        right_rows = jnp.where((a > 0)[:, None], in_rows, -jnp.inf)
        right_columns = jnp.where((b > 0)[None], in_columns, -jnp.inf)
        moved = jnp.where(number % 2 == 0, right_rows, right_columns)
        return moved, described(moved)

    _, found = jax.lax.scan(step, kernel, jnp.arange(steps))
    first = described(kernel)
    plans, errors, values = (
        jnp.concatenate([one[None], more]) for one, more in zip(first, found, strict=True)
    )
    return Projections(plans, errors, values)


__all__ = ["Projections", "alternating_projections"]
