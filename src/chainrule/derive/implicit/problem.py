"""Implicit problems: a root, fixed point or minimum between PyTrees as n equations F(x, q) = 0 in n unknowns.

The unknowns become one vector and the parameters a list of arrays that may carry derivatives, beside everything that
may not (whole numbers, functions, names). Values F closes over and that are being differentiated or batched count as
parameters, so that `root(lambda w: w**2 - a)(w0)` has derivatives in `a`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar, Tree
from chainrule.derive import validation
from chainrule.derive.implicit.linear.linear_solver import LinearSolver, PreparedSolver, System
from chainrule.derive.implicit.tolerances import Conditions
from chainrule.derive.jaxprs.refusals import NEEDS_VALUES

_NUMBERS = (jax.Array, np.ndarray, np.generic, float, int, complex, bool)


class Values(NamedTuple):
    """What a problem is evaluated at besides the unknowns."""

    moving: tuple[Array, ...]
    """Floating leaves of the parameters: derivatives are taken in these."""
    still: tuple[Array, ...]
    """The other arrays."""

    def held(self) -> "Values":
        """The same, without derivatives."""
        return jax.tree.map(jax.lax.stop_gradient, self)


@final
@dataclass(frozen=True)
class ProblemLayout:
    """Structure, shapes and types of a tree of arrays."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], Any], ...]
    dtype: Any
    """Of the tree as one vector. Found once: on threads of host callbacks JAX would promote to single precision."""

    @classmethod
    def of(cls, tree: Tree) -> "ProblemLayout":
        """That of a tree."""
        leaves, structure = jax.tree.flatten(tree)
        kinds = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        return cls(structure, kinds, jnp.result_type(*leaves) if leaves else jnp.result_type(float))

    @property
    def size(self) -> int:
        """Numbers in all."""
        return sum(math.prod(shape) for shape, _ in self.leaves)

    def __str__(self) -> str:
        return f"shapes {jax.tree.unflatten(self.structure, [shape for shape, _ in self.leaves])}"

    def vector(self, tree: Tree) -> Array:
        """A tree of this layout as one vector."""
        return jax.tree.leaves(tree)[0] if self._is_vector else _raveled(tree)

    def tree(self, vector: Array) -> Tree:
        """A vector in this layout."""
        parts = (vector,) if self._is_vector else _cut(self.leaves, vector)
        return jax.tree.unflatten(self.structure, parts)

    @property
    def _is_vector(self) -> bool:
        return len(self.leaves) == 1 and len(self.leaves[0][0]) == 1


@jax.jit
def _raveled(tree: Tree) -> Array:
    return ravel_pytree(tree)[0]


@partial(jax.jit, static_argnums=0)
def _cut(leaves: tuple[tuple[tuple[int, ...], Any], ...], vector: Array) -> tuple[Array, ...]:
    parts, start = [], 0
    for shape, dtype in leaves:
        stop = start + math.prod(shape)
        parts.append(vector[start:stop].reshape(shape).astype(dtype))
        start = stop
    return tuple(parts)


Flat: TypeAlias = Callable[[Array, Values], Array]


Form: TypeAlias = Callable[[Flat], Flat]
"""From what the user wrote, as a function of vectors, to the equations."""


def root_of(given: Flat, /) -> Flat:
    """The function is F itself."""
    return given


def fixed_point_of(given: Flat, /) -> Flat:
    """The function is g, and F(x) = x - g(x)."""
    return lambda x, values: x - given(x, values)


def minimum_of(given: Flat, /) -> Flat:
    """The function is an objective, and F its gradient."""
    return jax.grad(given)


def least_squares_of(given: Flat, /) -> Flat:
    """The function gives residuals, and F is the gradient of half the sum of their squares."""
    return jax.grad(half_squares(given))


def half_squares(residuals: Callable[..., Array]) -> Callable[..., Scalar]:
    """Half the sum of the squares of what a function returns."""
    return lambda *args: jnp.sum(residuals(*args) ** 2) / 2


@final
@dataclass(frozen=True)
class Equations:
    """The user's function and the layout of its arguments: all of a problem that is not a number."""

    name: str
    """The public function it comes from, for messages."""
    function: Callable[..., Any]
    form: Form
    unknowns: ProblemLayout
    parameters: Any
    """Structure of the parameters."""
    fixed: tuple[Any, ...]
    """Per leaf of the parameters: `_MOVING`, `_STILL`, or the leaf itself where it is not an array."""
    captured: "_Captured | None" = None
    """The program of the function, where it closes over values that became parameters."""

    def evaluate(self, x: Array, values: Values) -> Array:
        """The left-hand sides of the equations."""
        return self.form(self.given)(x, values)

    def given(self, x: Array, values: Values) -> Array:
        """The user's function as a vector, or as one number if it is to be minimised."""
        found = ravel_pytree(self.call(self.unknowns.tree(x), values))[0]
        return found[0] if self.is_minimum else found

    def call(self, w: Tree, values: Values) -> Tree:
        """The user's function."""
        if self.captured is not None:
            return self.captured(w, values)
        return self.function(w, *self.arguments(values))

    def arguments(self, values: Values) -> tuple[Any, ...]:
        """The parameters as the user's function expects them."""
        moving, still = iter(values.moving), iter(values.still)
        leaves = [
            next(moving) if leaf is _MOVING else next(still) if leaf is _STILL else leaf
            for leaf in self.fixed
        ]
        return tuple(jax.tree.unflatten(self.parameters, leaves))

    @property
    def is_minimum(self) -> bool:
        """Whether the function is to be minimised."""
        return self.form is minimum_of

    @property
    def is_fit(self) -> bool:
        """Whether the function gives residuals whose squares are to be minimised."""
        return self.form is least_squares_of

    @property
    def is_symmetric(self) -> bool:
        """Whether A is a Hessian."""
        return self.is_minimum or self.is_fit

    def system(self, x: Array, values: Values) -> System:
        """The equations at fixed parameters."""
        return System(lambda z: self.evaluate(z, values), x, self, values)


@final
@dataclass(frozen=True, eq=False)
class _Captured:
    """The program of the user's function with some of its constants among the parameters."""

    program: Any
    outputs: Any
    """Structure of what it returns."""
    moving: tuple[int, ...]
    """Indices of the constants that became moving values, which stand behind those of the user."""
    still: tuple[int, ...]
    own: tuple[int, int]
    """Numbers of the user's own moving and still values."""

    def __call__(self, w: Tree, values: Values) -> Tree:
        constants = list(self.program.consts)
        for index, value in zip(self.moving, values.moving[self.own[0] :], strict=True):
            constants[index] = value
        for index, value in zip(self.still, values.still[self.own[1] :], strict=True):
            constants[index] = value
        given = (*jax.tree.leaves(w), *values.moving[: self.own[0]], *values.still[: self.own[1]])
        return jax.tree.unflatten(self.outputs, jax.core.eval_jaxpr(self.program.jaxpr, constants, *given))


@final
@dataclass(frozen=True)
class Structure:
    """Equations and the shapes they are posed in: all that the positions of the nonzeros of A depend on."""

    equations: Equations
    x: Any
    values: Any


@final
@dataclass(frozen=True)
class ImplicitProblem:
    """Equations, how to solve with their Jacobian, and what to do where the theorem does not hold."""

    equations: Equations
    linear: PreparedSolver
    limits: Conditions
    on_failure: str


def pose(
    equations: Equations,
    x: Array,
    values: Values,
    linear: LinearSolver,
    limits: Conditions,
    on_failure: str,
) -> ImplicitProblem:
    """The whole problem, with what `linear` has to find out about the equations found out."""
    structure = Structure(equations, jax.typeof(x), jax.tree.map(jax.typeof, values))
    prepared = linear.prepare(structure)
    if prepared.factorises and jnp.finfo(x.dtype).bits < 32:
        raise ArgumentError(
            f"{equations.name}: w has type {x.dtype}, and matrices are factorised in float32 or float64",
            remedy='cast the first guess and the parameters (w0.astype("float32")); the solution can be cast back',
        )
    return ImplicitProblem(equations, prepared, limits, on_failure)


def formulate(
    name: str, function: Callable[..., Any], form: Form, w: Tree, params: tuple[Any, ...]
) -> tuple[Equations, Array, Values]:
    """The equations, the unknowns as a vector, and the values of the parameters.

    The unknowns have the precision of what the function returns, if that is higher than that of the first guess.
    """
    validation.function(name, function)
    w = validation.point(name, w, name="w")
    unknowns = ProblemLayout.of(w)
    if not unknowns.size:
        raise ArgumentError(f"{name}: there are no unknowns; w holds no numbers")
    fixed, values, structure = _split(params)
    equations, extended, precision = _capture(
        Equations(name, function, form, unknowns, structure, fixed), w, values
    )
    if jnp.promote_types(unknowns.dtype, precision) != unknowns.dtype:
        wider = jax.tree.map(lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, precision)), w)
        return formulate(name, function, form, wider, params)
    return equations, unknowns.vector(w), extended


def _split(params: tuple[Any, ...]) -> tuple[tuple[Any, ...], Values, Any]:
    leaves, structure = jax.tree.flatten(params)
    fixed: list[Any] = []
    moving: list[Array] = []
    still: list[Array] = []
    for leaf in leaves:
        if not isinstance(leaf, _NUMBERS):
            fixed.append(leaf)
        elif jnp.issubdtype(jnp.result_type(leaf), jnp.inexact):
            fixed.append(_MOVING)
            moving.append(jnp.asarray(leaf))
        else:
            fixed.append(_STILL)
            still.append(jnp.asarray(leaf))
    return tuple(fixed), Values(tuple(moving), tuple(still)), structure


def _capture(equations: Equations, w: Tree, values: Values) -> tuple[Equations, Values, Any]:
    """Check what the function returns, and make parameters of the traced values it closes over.

    The last that is returned is the type of the numbers that the function returns.
    """

    def plain(z: Tree, given: Values) -> Tree:
        return equations.call(z, given)

    try:
        program, shapes = jax.make_jaxpr(plain, return_shape=True)(w, values)
    except NEEDS_VALUES as error:
        raise ArgumentError(
            f"{equations.name}: the function branches in Python on a value it computes, so it is not one program",
            remedy="use jnp.where or jax.lax.cond; whole numbers and texts that it branches on are no arrays:\n"
            "close over them",
        ) from error
    _check(equations, shapes)
    precision = jnp.result_type(*jax.tree.leaves(shapes))
    traced = [i for i, constant in enumerate(program.consts) if isinstance(constant, jax.core.Tracer)]
    if not traced:
        return equations, values, precision
    moves = {i: jnp.issubdtype(program.consts[i].dtype, jnp.inexact) for i in traced}
    moving, still = (tuple(i for i in traced if moves[i] is kind) for kind in (True, False))
    own = (len(values.moving), len(values.still))
    captured = _Captured(program, jax.tree.structure(shapes), moving, still, own)
    extended = Values(
        (*values.moving, *(program.consts[i] for i in moving)),
        (*values.still, *(program.consts[i] for i in still)),
    )
    return replace(equations, captured=captured), extended, precision


def _check(equations: Equations, shapes: Tree) -> None:
    if equations.is_minimum:
        validation.scalar_output(equations.name, shapes)
        return
    leaves = jax.tree.leaves(shapes)
    n, m = equations.unknowns.size, sum(math.prod(leaf.shape) for leaf in leaves)
    if equations.is_fit and m < n:
        raise ArgumentError(
            f"{equations.name}: {m} residuals do not determine the {n} unknowns in w",
            remedy="return as many residuals as there are unknowns, or more: a penalty counts (sqrt(weight) * w)",
        )
    if m != n and not equations.is_fit:
        raise ArgumentError(
            f"{equations.name}: there are {n} unknowns in w, but the function returns {m} numbers",
            remedy="as many equations as unknowns are needed",
        )
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ArgumentError(
                f"{equations.name}: the function returns numbers of type {leaf.dtype}; floats are needed"
            )


@final
class _Mark:
    """Stands for an array among the leaves of the parameters."""


_MOVING, _STILL = _Mark(), _Mark()

__all__ = [
    "Equations",
    "Form",
    "ImplicitProblem",
    "ProblemLayout",
    "Structure",
    "Values",
    "fixed_point_of",
    "formulate",
    "half_squares",
    "least_squares_of",
    "minimum_of",
    "pose",
    "root_of",
]
