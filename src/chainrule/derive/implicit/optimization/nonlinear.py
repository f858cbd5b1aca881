"""Nonlinear programs: a local minimum under constraints, with derivatives in all parameters of all functions.

A regular local minimum x has multipliers y, z >= 0 with grad f + y grad e + z grad i = 0, e = 0 and z i = 0 (the
conditions of Karush, Kuhn and Tucker). They are equations for (x, y, z), and the implicit function theorem applies.
"""

import math
from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Scalar, Tree
from chainrule.derive import validation
from chainrule.derive.implicit.linear.linear_solver import LinearSolver
from chainrule.derive.implicit.optimization import arguments, failures, sequential
from chainrule.derive.implicit.optimization.convex_solver import ConvexOutcome, accepted
from chainrule.derive.implicit.optimization.failures import Doubt
from chainrule.derive.implicit.optimization.forms import PrimalDualPoint
from chainrule.derive.implicit.optimization.primal_dual import norm
from chainrule.derive.implicit.optimization.results import NonlinearSolution, ProgramStats, Ray, Status
from chainrule.derive.implicit.optimization.sequential import ProgramFunctions
from chainrule.derive.implicit.theorem import attach

_WHERE = "nonlinear_program"


def nonlinear_program(
    objective: Callable[..., Any],
    equalities: Callable[..., Any] | None = None,
    inequalities: Callable[..., Any] | None = None,
    *,
    solver: Callable[..., Any] | None = None,
    linear: Any = "lu",
    on_failure: str = "raise",
    on_singular: str = "raise",
    max_steps: int = 100,
) -> "NonlinearProgram":
    """Minimise objective(x, *params) subject to equalities = 0 and inequalities <= 0: returns `solve(x0, *params)`.

    The point of a circle of radius r that is nearest to (3, 4):

    >>> solve = nonlinear_program(lambda x, r: jnp.sum((x - jnp.array([3.0, 4.0])) ** 2), lambda x, r: x @ x - r**2)
    >>> [round(float(x), 3) for x in solve(jnp.array([1.0, 0.0]), 2.0).x]
    [1.2, 1.6]
    >>> [round(float(d), 3) for d in jax.jacobian(lambda r: solve(jnp.array([1.0, 0.0]), r).x)(2.0)]
    [0.6, 0.8]

    x may be a PyTree; constraints return arrays or PyTrees of them. `x0` decides which local solution is found and has
    no derivative. A `solver` (x0, *params) -> x may be given; its answer is then refined here, and the multipliers are
    found. Derivatives, `linear`, `on_failure` and `on_singular` are those of `linear_program`.
    """
    for name, function in (
        ("objective", objective),
        ("equalities", equalities),
        ("inequalities", inequalities),
    ):
        if function is not None or name == "objective":
            validation.function(f"{_WHERE}, {name}", function)
    way = arguments.policies(_WHERE, linear, on_failure, on_singular, max_steps)
    functions = (objective, equalities, inequalities)
    return NonlinearProgram(functions, solver, way, on_failure, on_singular, max_steps)


@final
class NonlinearProgram:
    """A nonlinear program, to be solved for a starting point and parameters; made by `nonlinear_program`."""

    def __init__(
        self,
        functions: tuple[Any, Any, Any],
        solver: Any,
        way: LinearSolver,
        on_failure: str,
        on_singular: str,
        max_steps: int,
    ) -> None:
        self._objective = functions[0]
        self._constraints = tuple(one or _nothing for one in functions[1:])
        self._solver = solver
        self._way = way
        self._on_failure = on_failure
        self._strict = on_singular == "raise"
        self._max_steps = max_steps
        self._search = jax.jit(self._found)
        self._value = jax.jit(self._objective)
        self._equations = self._conditions  # one object, so that what is compiled for it is found again

    def __call__(self, x0: Tree, *params: Any) -> NonlinearSolution:
        """A local solution near x0."""
        start = validation.point(_WHERE, jax.tree.map(_floating, x0), name="x0")
        params = jax.tree.map(
            lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float | int) else leaf, params
        )
        validation.scalar_output(_WHERE, jax.eval_shape(self._objective, start, *params))
        held = jax.tree.map(jax.lax.stop_gradient, params)
        if self._solver is not None:
            start = _like(self._solver(start, *held), start)
        outcome = self._search(jax.lax.stop_gradient(start), held)
        valid = failures.gate(_WHERE, outcome, self._on_failure)
        w, scale, doubt = _judged(outcome.point, valid)
        if self._strict:
            params = failures.guard(_WHERE, params, doubt, self._on_failure)
        x, y, z = attach(
            self._equations, w, (params, scale), self._way, on_failure=self._on_failure, name=_WHERE
        )
        return NonlinearSolution(x, y, z, self._value(x, *params), outcome.stats)

    def _conditions(self, w: tuple[Tree, Array, Array], params: tuple[Any, ...], scale: Array) -> Any:
        """Stationarity, equalities and complementarity, the last with rows of similar size."""
        x, y, z = w

        def lagrangian(x: Tree) -> Array:
            e, i = (_flat(one(x, *params), z) for one in self._constraints)
            return self._objective(x, *params) + jnp.vdot(y, e) + jnp.vdot(z, i)

        e, i = (_flat(one(x, *params), z) for one in self._constraints)
        return jax.grad(lagrangian)(x), e, scale * z * i

    def _found(self, start: Tree, params: tuple[Any, ...]) -> ConvexOutcome:
        """The search on vectors, and its verdict."""
        flat, back = ravel_pytree(start)
        e, i = self._constraints
        functions = ProgramFunctions(
            lambda x: self._objective(back(x), *params),
            lambda x: _flat(e(back(x), *params), x),
            lambda x: _flat(i(back(x), *params), x),
        )
        state = sequential.solve(functions, flat, self._max_steps)
        x, y, z = state.x, state.y, state.z
        slack = -functions.inequalities(x)
        errors = functions.errors(x, y, z)
        solved = errors.worst <= accepted(x.dtype)
        status = jnp.where(solved, int(Status.SOLVED), int(Status.STUCK))
        none = Ray(*(jnp.zeros_like(part) for part in (x, y, z)))
        polished = errors.worst <= math.sqrt(jnp.finfo(x.dtype).eps) * accepted(x.dtype)
        stats = ProgramStats(status, state.steps, state.inner, *errors, polished, z > slack, none)
        return ConvexOutcome(
            PrimalDualPoint(back(x), y, z, slack), stats, jnp.asarray(0), jnp.zeros((), x.dtype)
        )


@jax.jit
def _judged(point: PrimalDualPoint, valid: Scalar) -> tuple[tuple[Tree, Array, Array], Array, Doubt]:
    """The solution (NaN where it is not valid), the size of its products, and whether it has derivatives."""
    x, y, z = jax.tree.map(lambda part: part * valid, (point.x, point.y, point.z))
    size = z + jnp.abs(point.t)
    scale = jax.lax.stop_gradient(1.0 / jnp.where(size > 0.0, size, 1.0))
    return (x, y, z), scale, _doubt(x, y, z, point.t)


def _doubt(x: Tree, y: Array, z: Array, slack: Array) -> Doubt:
    """Whether every inequality is either slack or pressed against, and no more of them are active than can be."""
    flat = ravel_pytree(x)[0]
    tiny = math.sqrt(jnp.finfo(flat.dtype).eps)
    loose = slack > tiny * (1.0 + norm(flat))
    pressed = z > tiny * jnp.maximum(1.0, jnp.maximum(norm(z), norm(y)))
    neither = ~loose & ~pressed
    n, count = flat.size, jnp.sum(~loose) + len(y)
    code = jnp.select([jnp.any(neither), count > n], [1, 2], 0)
    padded = jnp.concatenate([neither, jnp.ones(1, bool)])  # there may be no inequality at all
    index = jnp.argmax(padded)
    pick = lambda vector: jnp.concatenate([vector, jnp.zeros(1, vector.dtype)])[index]  # noqa: E731
    return Doubt(code, index, count, jnp.asarray(n), pick(slack), pick(z))


def _nothing(*_: Any) -> tuple[()]:
    return ()


def _flat(values: Any, like: Array) -> Array:
    """The values of constraints as one vector, empty where there are none."""
    return ravel_pytree(values)[0].astype(like.dtype)


def _floating(leaf: Any) -> Array:
    array = jnp.asarray(leaf)
    return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(float)


def _like(x: Tree, start: Tree) -> Tree:
    """What a solver returned, in the structure and types of the starting point."""
    if jax.tree.structure(x) != jax.tree.structure(start):  # type: ignore[operator]  # JAX leaves this type open
        raise ArgumentError(
            f"{_WHERE}: the solver returned structure {jax.tree.structure(x)}, x0 has {jax.tree.structure(start)}"
        )
    return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype).reshape(old.shape), x, start)


__all__ = ["NonlinearProgram", "nonlinear_program"]
