"""The implicit function theorem as a differentiation rule: exact derivatives of a solution, however it was found.

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
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from chainrule.core.types import Array, Scalar, Tree
from chainrule.derive.implicit import conditions as checks
from chainrule.derive.implicit.conditions import Diagnosis
from chainrule.derive.implicit.linear.dense import LU
from chainrule.derive.implicit.linear.linear_solver import Factor, LinearSolver, Product, factorise
from chainrule.derive.implicit.problem import ImplicitProblem, Values, formulate, pose, root_of
from chainrule.derive.implicit.tolerances import Conditions


def attach(
    F: Callable[..., Any],
    w_star: Tree,
    params: tuple[Any, ...],
    linear: LinearSolver = LU(),  # noqa: B008 (immutable)
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
    equations, x, values = formulate(name, F, root_of, w_star, params)
    problem = pose(equations, x, values, linear, conditions, on_failure)
    return equations.unknowns.tree(solution(problem, x, values))


def solution(problem: ImplicitProblem, x: Array, values: Values, factor: Factor | None = None) -> Array:
    """The vector `x`, checked to be a solution, as a function of the parameters; `factor` saves factorising there."""
    x, factor = jax.lax.stop_gradient((x, factor))
    x = x * checks.gate(problem, examine(problem, x, values.held()))
    return _solution(problem, x, factor, values)


@final
class Handle(eqx.Module):
    """A factor, and the number its solutions are multiplied by: 1, or NaN where the theorem does not hold."""

    factor: Factor
    valid: Scalar


examine = jax.jit(checks.of_solution, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def factored(
    problem: ImplicitProblem, x: Array, values: Values, inherited: Factor | None = None
) -> tuple[Factor, Diagnosis]:
    """The factor of A at a solution, unless one is at hand, and whether the theorem holds there."""
    factor = inherited
    if factor is None:
        factor = factorise(problem.linear, problem.equations.system(x, values))
    return factor, checks.of_factor(problem, factor, x, values)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solution(_problem: ImplicitProblem, x: Array, _factor: Factor | None, _values: Values) -> Array:
    """w* before any derivative was asked for: no factor yet, or one of the solver's."""
    return x


@partial(_solution.defjvp, symbolic_zeros=True)
def _first_derivative(problem: ImplicitProblem, primals: Any, tangents: Any) -> tuple[Array, Array]:
    x, inherited, values = primals
    x0, inherited = jax.lax.stop_gradient((x, inherited))
    factor, found = factored(problem, x0, values.held(), inherited)
    kept = Handle(factor, checks.gate(problem, found))
    return _derivative(problem, (x, kept, values), tangents[2])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _factored(_problem: ImplicitProblem, x: Array, _kept: Handle, _values: Values) -> Array:
    """w* with the factor that all its derivatives share."""
    return x


@partial(_factored.defjvp, symbolic_zeros=True)
def _next_derivative(problem: ImplicitProblem, primals: Any, tangents: Any) -> tuple[Array, Array]:
    return _derivative(problem, primals, tangents[2])


def _derivative(problem: ImplicitProblem, primals: Any, tangents: Values) -> tuple[Array, Array]:
    x, kept, values = primals
    moved = tuple(i for i, dq in enumerate(tangents.moving) if not isinstance(dq, SymbolicZero))
    directions = tuple(tangents.moving[i] for i in moved)
    return _tangent(problem, moved, x, kept, values, directions)


@partial(jax.jit, static_argnums=(0, 1))
def _tangent(
    problem: ImplicitProblem,
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
        for index, leaf in zip(moved, some, strict=True):
            moving[index] = leaf
        return problem.equations.evaluate(at, values._replace(moving=tuple(moving)))

    _, change = jax.jvp(equations, tuple(values.moving[i] for i in moved), directions)
    return at, solve_with(problem, kept, at, values, -change)


def solve_with(problem: ImplicitProblem, kept: Handle, x: Array, values: Values, b: Array) -> Array:
    """A⁻¹ b, differentiable in everything A and b depend on; the factor itself is never differentiated."""

    def solve(matvec: Product, b: Array) -> Array:
        return _checked(problem, lambda c: kept.factor.solve(matvec, c), matvec, b) * kept.valid

    def solve_transposed(vecmat: Product, b: Array) -> Array:
        return _checked(problem, lambda c: kept.factor.solve_transposed(vecmat, c), vecmat, b) * kept.valid

    product = problem.equations.system(x, values).matvec

    def matvec(v: Array) -> Array:
        # Where A is constant, its change is a symbolic zero, which JAX's rule for linear solves cannot pass on. So it
        # gets a part that is never chosen, but changes with x.
        return jnp.where(False, x * v, product(v))

    return jax.lax.custom_linear_solve(matvec, b, solve=solve, transpose_solve=solve_transposed)


def _checked(problem: ImplicitProblem, solve: Product, matvec: Product, b: Array) -> Array:
    """A solve under the name by which programs are searched for solves; where it iterates, its residual is checked."""

    def implicit_solve(c: Array) -> Array:
        return solve(c)

    found = jax.jit(implicit_solve)(b)
    limit = problem.linear.tolerance(b.dtype)
    return found if limit is None else found * checks.gate(problem, checks.of_solve(found, matvec, b, limit))


__all__ = ["Handle", "attach", "examine", "factored", "solution", "solve_with"]
