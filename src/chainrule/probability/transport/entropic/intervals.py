"""The interval that potentials and a nearly right plan prove for the cost of the best plan, by sums over rows.

The same as `duality.bounds`, for costs that are never all there.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Scalar
from chainrule.probability.transport.entropic.costs import Costs, EntropicProblem, density


def interval(costs: Costs, problem: EntropicProblem, f: Array, g: Array) -> tuple[Scalar, Scalar]:
    """A lower bound by c-transforms of `f`, and an upper one by rounding the plan to a coupling."""
    return _lower(costs, problem, f), _upper(costs, problem, f, g)


def _lower(costs: Costs, problem: EntropicProblem, f: Array) -> Scalar:
    def to_columns(matrix: Array, rows: tuple[Array, ...], least: Array) -> tuple[Array, None]:
        inside, f = rows
        return jnp.minimum(
            least, jnp.where(inside[:, None] > 0, matrix - f[:, None], jnp.inf).min(axis=0)
        ), None

    ones = jnp.ones_like(problem.a)
    g, _ = costs.by_rows(to_columns, (ones, f), jnp.full(costs.shape[1], jnp.inf, costs.dtype))
    _, f = costs.by_rows(lambda matrix, rows, sums: (sums, (matrix - g[None]).min(axis=1)), (ones,), ())
    return problem.a @ f + problem.b @ g


def _upper(costs: Costs, problem: EntropicProblem, f: Array, g: Array) -> Scalar:
    def plan_of(matrix: Array, a: Array, f: Array) -> Array:
        return a[:, None] * problem.b[None] * density(matrix, f, g, problem.eps)

    def narrow_rows(matrix: Array, rows: tuple[Array, ...], columns: Array) -> tuple[Array, Array]:
        a, f = rows
        plan = plan_of(matrix, a, f)
        factor = _no_more(a, plan.sum(axis=1))
        return columns + factor @ plan, factor

    columns, of_rows = costs.by_rows(narrow_rows, (problem.a, f), jnp.zeros_like(problem.b))
    of_columns = _no_more(problem.b, columns)
    lack = jnp.maximum(problem.b - columns * of_columns, 0.0)
    share = lack / jnp.where(lack.sum() > 0, lack.sum(), 1.0)

    def add(matrix: Array, rows: tuple[Array, ...], total: Any) -> tuple[Any, None]:
        a, f, factor = rows
        plan = factor[:, None] * plan_of(matrix, a, f) * of_columns[None]
        missing = jnp.maximum(a - plan.sum(axis=1), 0.0)
        return total + (plan * matrix).sum() + missing @ (matrix @ share), None

    start = jnp.zeros((), costs.dtype)
    total, _ = costs.by_rows(add, (problem.a, f, of_rows), start)
    return total


def _no_more(wanted: Array, found: Array) -> Array:
    return jnp.minimum(1.0, wanted / jnp.where(found > 0, found, 1.0))


compiled_interval = jax.jit(interval)

__all__ = ["compiled_interval", "interval"]
