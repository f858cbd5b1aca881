"""F(w, q) = 0 between PyTrees, seen as n equations in n unknowns.

The unknowns become one vector and the parameters a list of arrays that may carry derivatives, beside everything that
may not (whole numbers, functions, names). Values F closes over and that are being differentiated or batched count as
parameters, so that `root(lambda w: w**2 - a)(w0)` has derivatives in `a`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.derive import validate
from chainrule.derive.implicit.linear.base import Linear, System

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
class Layout:
    """Structure, shapes and types of a tree of arrays."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], Any], ...]

    @classmethod
    def of(cls, tree: Tree) -> "Layout":
        """That of a tree."""
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))

    @property
    def size(self) -> int:
        """Numbers in all."""
        return sum(math.prod(shape) for shape, _ in self.leaves)

    @property
    def dtype(self) -> Any:
        """Of the tree as one vector."""
        return jnp.result_type(*(dtype for _, dtype in self.leaves))

    def tree(self, vector: Array) -> Tree:
        """A vector in this layout."""
        parts, start = [], 0
        for shape, dtype in self.leaves:
            stop = start + math.prod(shape)
            parts.append(vector[start:stop].reshape(shape).astype(dtype))
            start = stop
        return jax.tree.unflatten(self.structure, parts)


@final
@dataclass(frozen=True)
class Problem:
    """F with the layout of its arguments, and how to solve with its Jacobian. Everything here is fixed at tracing."""

    name: str
    """The public function it comes from, for messages."""
    F: Callable[..., Any]
    unknowns: Layout
    parameters: Any
    """Structure of the parameters."""
    fixed: tuple[Any, ...]
    """Per leaf of the parameters: `_MOVING`, `_STILL`, or the leaf itself where it is not an array."""
    linear: Linear
    symmetric: bool = False
    """Whether F is a gradient."""
    captured: Any = None
    """The program of F, where it closes over values that became parameters."""

    def evaluate(self, x: Array, values: Values) -> Array:
        """F as a vector."""
        if self.captured is not None:
            return self.captured(x, values)
        return self.equations(x, values)

    def equations(self, x: Array, values: Values) -> Array:
        """F as the user wrote it, as a vector."""
        return ravel_pytree(self.F(self.unknowns.tree(x), *self.arguments(values)))[0]

    def arguments(self, values: Values) -> tuple[Any, ...]:
        """The parameters as F expects them."""
        moving, still = iter(values.moving), iter(values.still)
        leaves = [
            next(moving) if leaf is _MOVING else next(still) if leaf is _STILL else leaf
            for leaf in self.fixed
        ]
        return tuple(jax.tree.unflatten(self.parameters, leaves))

    def system(self, x: Array, values: Values) -> System:
        """The equations at fixed parameters."""
        return System(lambda z: self.evaluate(z, values), x)


@final
@dataclass(frozen=True)
class _Captured:
    """The program of F with some of its constants among the parameters. Compares by identity."""

    program: Any
    places: tuple[int, ...]
    """Of the constants that became moving values, which stand behind those of the user."""
    rest: tuple[int, ...]
    """Of those that became still values."""
    moving: int
    still: int

    def __call__(self, x: Array, values: Values) -> Array:
        constants = list(self.program.consts)
        for place, value in zip(self.places, values.moving[self.moving :], strict=True):
            constants[place] = value
        for place, value in zip(self.rest, values.still[self.still :], strict=True):
            constants[place] = value
        given = [x, *values.moving[: self.moving], *values.still[: self.still]]
        (found,) = jax.core.eval_jaxpr(self.program.jaxpr, constants, *given)
        return found

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def pose(
    name: str,
    F: Callable[..., Any],
    w: Tree,
    params: tuple[Any, ...],
    linear: Linear,
    *,
    symmetric: bool = False,
) -> tuple[Problem, Array, Values]:
    """The problem, the unknowns as a vector, and the values of the parameters."""
    validate.function(name, F)
    w = validate.point(name, w, name="w")
    unknowns = Layout.of(w)
    if not unknowns.size:
        raise ArgumentError(f"{name}: there are no unknowns; w holds no numbers")
    fixed, values, structure = _split(params)
    problem = Problem(name, F, unknowns, structure, fixed, linear, symmetric)
    x = ravel_pytree(w)[0]
    problem, values = _capture(problem, x, values)
    structure_of = Structure(problem, jax.typeof(x), jax.tree.map(jax.typeof, values))
    return replace(problem, linear=linear.prepare(structure_of)), x, values


@final
@dataclass(frozen=True)
class Structure:
    """A problem and the shapes it is posed in: all that the places of the nonzeros of A depend on."""

    problem: Problem
    x: Any
    values: Any


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


def _capture(problem: Problem, x: Array, values: Values) -> tuple[Problem, Values]:
    """Check what F returns, and make parameters of the traced values it closes over."""

    def flat(z: Array, *arrays: Array) -> Array:
        count = len(values.moving)
        return problem.equations(z, Values(arrays[:count], arrays[count:]))

    program, shape = jax.make_jaxpr(flat, return_shape=True)(x, *values.moving, *values.still)
    _check(problem, shape)
    traced = [i for i, constant in enumerate(program.consts) if isinstance(constant, jax.core.Tracer)]
    if not traced:
        return problem, values
    is_moving = [jnp.issubdtype(program.consts[i].dtype, jnp.inexact) for i in traced]
    places = tuple(i for i, moves in zip(traced, is_moving, strict=True) if moves)
    rest = tuple(i for i, moves in zip(traced, is_moving, strict=True) if not moves)
    captured = _Captured(program, places, rest, len(values.moving), len(values.still))
    extended = Values(
        (*values.moving, *(program.consts[i] for i in places)),
        (*values.still, *(program.consts[i] for i in rest)),
    )
    return replace(problem, captured=captured), extended


def _check(problem: Problem, result: Any) -> None:
    n, m = problem.unknowns.size, math.prod(result.shape)
    if m != n:
        raise ArgumentError(
            f"{problem.name}: there are {n} unknowns in w, but F returns {m} numbers",
            remedy="as many equations as unknowns are needed",
        )
    if not jnp.issubdtype(result.dtype, jnp.floating):
        raise ArgumentError(f"{problem.name}: F returns numbers of type {result.dtype}; floats are needed")


@final
class _Mark:
    """Stands for an array among the leaves of the parameters."""


_MOVING, _STILL = _Mark(), _Mark()

__all__ = ["Layout", "Problem", "Structure", "Values", "pose"]
