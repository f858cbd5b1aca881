"""Nonlinear programs: a local minimum under constraints, with derivatives in all parameters of all functions.

A regular local minimum x has multipliers y, z >= 0 with grad f + y grad e + z grad i = 0, e = 0 and z i = 0 (the
conditions of Karush, Kuhn and Tucker). They are equations for (x, y, z), and the implicit function theorem applies.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

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
        self._measure = jax.jit(self._units)
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
        units = self._measure(jax.lax.stop_gradient(start), held)
        if self._solver is not None:
            start = _like(self._solver(start, *held), start)
        outcome, units, finer = self._search(jax.lax.stop_gradient(start), held, units)
        valid = failures.gate(_WHERE, outcome, self._on_failure)
        w, scale, doubt = _judged(outcome.point, finer, valid)
        if self._strict:
            params = failures.guard(_WHERE, params, doubt, self._on_failure)
        u, y, z = attach(
            self._equations, w, (params, scale, units), self._way, on_failure=self._on_failure, name=_WHERE
        )
        x = _times(u, units.length)
        y, z = y * units.slope / units.equalities, z * units.slope / units.inequalities
        return NonlinearSolution(x, y, z, self._value(x, *params), outcome.stats)

    def _scaled(self, params: tuple[Any, ...], units: "_Units", like: Array) -> list[Callable[[Tree], Any]]:
        """Objective, equalities and inequalities of x in units of length, each in its own units."""
        sizes = units.slope, units.equalities, units.inequalities
        functions = (self._objective, *self._constraints)
        flat = lambda values: _flat(values, like)  # noqa: E731
        shaped = (lambda value: value, flat, flat)

        def scaled(function: Any, shape: Any, size: Array) -> Callable[[Tree], Any]:
            return lambda u: shape(function(_times(u, units.length), *params)) / (size * units.length)

        return [scaled(*parts) for parts in zip(functions, shaped, sizes, strict=True)]

    def _units(self, start: Tree, params: tuple[Any, ...]) -> "_Units":
        """Sizes at the starting point, of what is smaller than one there."""
        flat, back = ravel_pytree(start)
        one = jnp.ones((), flat.dtype)
        functions = self._scaled(params, _Units(one, one, one, one), flat)
        slope, *rows = (jax.jacobian(lambda x, f=f: f(back(x)))(flat) for f in functions)
        return _Units(
            _size(norm(flat)), _size(norm(slope)), *(_size(jnp.max(jnp.abs(row), axis=1)) for row in rows)
        )

    def _conditions(
        self, w: tuple[Tree, Array, Array], params: tuple[Any, ...], scale: Array, units: "_Units"
    ) -> Any:
        """Stationarity, equalities and complementarity, the last with rows of similar size."""
        u, y, z = w
        objective, equalities, inequalities = self._scaled(params, units, z)

        def lagrangian(u: Tree) -> Array:
            return objective(u) + jnp.vdot(y, equalities(u)) + jnp.vdot(z, inequalities(u))

        return jax.grad(lagrangian)(u), equalities(u), scale * z * inequalities(u)

    def _found(
        self, start: Tree, params: tuple[Any, ...], units: "_Units"
    ) -> tuple[ConvexOutcome, "_Units", "_Units"]:
        """The search on vectors, and its verdict, in these units; those at the solution, and how they differ."""
        flat, back = ravel_pytree(_times(start, 1.0 / units.length))
        scaled = self._scaled(params, units, flat)
        functions = ProgramFunctions(*(lambda x, f=f: f(back(x)) for f in scaled))
        state = sequential.solve(functions, flat, self._max_steps)
        x, y, z = state.x, state.y, state.z
        slack = -functions.inequalities(x)
        errors = functions.errors(x, y, z)
        solved = errors.worst <= accepted(x.dtype)
        status = jnp.where(solved, int(Status.SOLVED), int(Status.STUCK))
        none = Ray(*(jnp.zeros_like(part) for part in (x, y, z)))
        polished = errors.worst <= math.sqrt(jnp.finfo(x.dtype).eps) * accepted(x.dtype)
        stats = ProgramStats(status, state.steps, state.inner, *errors, polished, z > slack, none)
        point = PrimalDualPoint(back(x), y, z, slack)
        outcome = ConvexOutcome(point, stats, jnp.asarray(0), jnp.zeros((), x.dtype))
        bend = jax.hessian(functions.lagrangian)(x, y, z)
        rows = (jax.jacobian(one)(x) for one in (functions.equalities, functions.inequalities))
        finer = _Units(jnp.ones((), x.dtype), _largest(bend, None), *(_largest(one, 1) for one in rows))
        return outcome, jax.tree.map(jnp.multiply, units, finer), finer


@jax.jit
def _judged(
    point: PrimalDualPoint, finer: "_Units", valid: Scalar
) -> tuple[tuple[Tree, Array, Array], Array, Doubt]:
    """The solution (NaN where it is not valid) in finer units, the size of its products, and whether it is smooth."""
    x, y, z = jax.tree.map(lambda part: part * valid, (point.x, point.y, point.z))
    doubt = _doubt(x, y, z, point.t)
    y, z = y * finer.equalities / finer.slope, z * finer.inequalities / finer.slope
    size = z + jnp.abs(point.t / finer.inequalities)
    scale = jax.lax.stop_gradient(1.0 / jnp.where(size > 0.0, size, 1.0))
    return (x, y, z), scale, doubt


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


class _Units(NamedTuple):
    """What is one in a program whose numbers may all be small: of x, of the slopes of its functions.

    A program in metres is the same as in picometres, so what counts as zero in it depends on them.
    """

    length: Scalar
    slope: Scalar
    """Of the objective."""
    equalities: Array
    inequalities: Array


def _size(size: Array) -> Array:
    """A size as a unit: one where it is larger (nothing is to be found less exactly), or says nothing."""
    least = float(jnp.finfo(size.dtype).tiny) ** 0.25
    return jnp.where((size > least) & (size < 1.0), size, 1.0)


def _largest(matrix: Array, axis: int | None) -> Array:
    """The largest entry, in all or of every row; one where all are zero."""
    size = jnp.max(jnp.abs(matrix), axis=axis, initial=0.0)
    return jnp.where((size > 0.0) & jnp.isfinite(size), size, 1.0)


def _times(x: Tree, factor: Array) -> Tree:
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), x)


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
