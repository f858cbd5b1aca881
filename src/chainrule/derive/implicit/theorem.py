"""The implicit function theorem as a rule of differentiation: exact derivatives of a solution, whoever found it.

From F(w*(q), q) = 0 follows A dw = -B dq with A = dF/dw and B = dF/dq at the solution. That equation is the whole rule.
It is differentiable itself: w* inside A and B is again the solution with its rule, and where A changes, the change
moves to the right-hand side, A dt = db - dA t. So every product of every order solves with the same A, and one
factorisation, made when the first derivative is asked for, serves them all.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
from jax.custom_derivatives import SymbolicZero

from chainrule.core.types import Array, Scalar, Tree
from chainrule.derive.implicit import conditions
from chainrule.derive.implicit.conditions import Conditions, Diagnosis
from chainrule.derive.implicit.linear.base import Factor, Linear, Product
from chainrule.derive.implicit.linear.dense import LU
from chainrule.derive.implicit.problem import Problem, Values, pose


def attach(
    F: Callable[..., Any],
    w_star: Tree,
    params: tuple[Any, ...],
    linear: Linear = LU(),  # noqa: B008 (immutable)
    conditions: Conditions = Conditions(),  # noqa: B008 (immutable)
    on_failure: str = "raise",
    *,
    name: str = "attach",
) -> Tree:
    """`w_star`, with the derivatives in `params` that F(w_star, *params) = 0 gives it.

    Values that F closes over may carry derivatives too. Derivatives that `w_star` brings along are dropped.

    >>> import jax.numpy as jnp
    >>> root = lambda a: attach(lambda w, a: w**2 - a, jnp.sqrt(a), (a,))
    >>> float(jax.grad(root)(4.0)), float(jax.grad(jax.grad(root))(4.0))
    (0.25, -0.03125)
    """
    problem, x, values = pose(name, F, w_star, params, linear)
    return problem.unknowns.tree(solution(problem, x, values, conditions, on_failure))


def solution(problem: Problem, x: Array, values: Values, limits: Conditions, on_failure: str) -> Array:
    """The vector `x`, checked to be a solution, as a function of the parameters."""
    x, held = jax.lax.stop_gradient(x), values.held()
    found = _examine_solution(problem, limits, x, held)
    x = x * conditions.gate(problem, limits, on_failure, found)
    return _solution((problem, limits, on_failure), x, values)


@final
class Handle(eqx.Module):
    """A factor, and the number its solutions are multiplied by: 1, or NaN where the theorem does not hold."""

    factor: Factor
    valid: Scalar


def handle(
    problem: Problem, x: Array, values: Values, limits: Conditions, on_failure: str
) -> tuple[Handle, Diagnosis]:
    """Factorise A at a solution and check the theorem."""
    factor, found = implicit_factorise(problem, limits, x, values)
    return Handle(factor, conditions.gate(problem, limits, on_failure, found)), found


@partial(jax.jit, static_argnums=(0, 1))
def implicit_factorise(
    problem: Problem, limits: Conditions, x: Array, values: Values
) -> tuple[Factor, Diagnosis]:
    """The one place where derivatives factorise; programs are searched for its name to count."""
    factor = problem.linear.factorise(problem.system(x, values))
    return factor, conditions.of_factor(problem, limits, factor, x, values)


_examine_solution = jax.jit(conditions.of_solution, static_argnums=(0, 1))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solution(_task: tuple[Problem, Conditions, str], x: Array, _values: Values) -> Array:
    """w* before any derivative was asked for: no factor yet."""
    return x


@partial(_solution.defjvp, symbolic_zeros=True)
def _first_derivative(task: Any, primals: Any, tangents: Any) -> tuple[Array, Array]:
    problem, limits, on_failure = task
    x, values = primals
    kept, _ = handle(problem, jax.lax.stop_gradient(x), values.held(), limits, on_failure)
    return _derivative(problem, (x, kept, values), tangents[1])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _factored(_problem: Problem, x: Array, _kept: Handle, _values: Values) -> Array:
    """w* with the factor that all its derivatives share."""
    return x


@partial(_factored.defjvp, symbolic_zeros=True)
def _next_derivative(problem: Problem, primals: Any, tangents: Any) -> tuple[Array, Array]:
    return _derivative(problem, primals, tangents[2])


def _derivative(problem: Problem, primals: Any, tangents: Values) -> tuple[Array, Array]:
    x, kept, values = primals
    moved = tuple(i for i, dq in enumerate(tangents.moving) if not isinstance(dq, SymbolicZero))
    directions = tuple(tangents.moving[i] for i in moved)
    return _tangent(problem, moved, x, kept, values, directions)


@partial(jax.jit, static_argnums=(0, 1))
def _tangent(
    problem: Problem,
    moved: tuple[int, ...],
    x: Array,
    kept: Handle,
    values: Values,
    directions: tuple[Array, ...],
) -> tuple[Array, Array]:
    """w* and its change t along a direction of some of the parameters: A t = -B dq."""
    at = _factored(problem, x, kept, values)

    def equations(*some: Array) -> Array:
        moving = list(values.moving)
        for place, leaf in zip(moved, some, strict=True):
            moving[place] = leaf
        return problem.evaluate(at, values._replace(moving=tuple(moving)))

    _, change = jax.jvp(equations, tuple(values.moving[i] for i in moved), directions)
    return at, solve_with(problem, kept, at, values, -change)


def solve_with(problem: Problem, kept: Handle, x: Array, values: Values, b: Array) -> Array:
    """A⁻¹ b, differentiable in everything A and b depend on; the factor itself is never differentiated."""

    def solve(matvec: Product, b: Array) -> Array:
        return _counted(lambda c: kept.factor.solve(matvec, c) * kept.valid)(b)

    def solve_transposed(vecmat: Product, b: Array) -> Array:
        return _counted(lambda c: kept.factor.solve_transposed(vecmat, c) * kept.valid)(b)

    matvec = problem.system(x, values).matvec
    return jax.lax.custom_linear_solve(matvec, b, solve=solve, transpose_solve=solve_transposed)


def _counted(solve: Product) -> Product:
    """The same under a name by which programs are searched for solves."""

    def implicit_solve(b: Array) -> Array:
        return solve(b)

    return jax.jit(implicit_solve)


__all__ = ["Handle", "attach", "handle", "solution", "solve_with"]
