"""Walk through a program: every equation hands the reach of its operands on to its results.

Detection follows derivatives. What "depends on" means differs between programs:

- *slopes*: through derivatives. Operations with a rule (linear ones, and nonlinear ones that work element by element)
  are handed on directly; any other is differentiated by JAX itself, alone, and the linear program that comes out is
  walked in its turn. So custom rules, stopped gradients and whatever JAX defines for an operation are exactly what is
  analysed.
- *linear*: the program is linear in what is followed.
- *any*: in any way whatever. Custom reverse rules need not be linear in their cotangents.

An operation without a rule makes every result depend on everything its operands depend on, and is named in a warning.
"""

import enum
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import jax
import numpy as np
from jax.extend.core import Literal

from chainrule.core.errors import ChainruleError
from chainrule.derive.jaxprs.local import function_of
from chainrule.derive.sparse.detection import values as values_of
from chainrule.derive.sparse.detection.kinds import is_inexact
from chainrule.derive.sparse.detection.reach import Reach, union
from chainrule.derive.sparse.detection.tables import TooLarge
from chainrule.derive.sparse.detection.values import TrackedValue

Reaches: TypeAlias = list[Reach | None]

_TO_THE_CALLER = (ChainruleError, TooLarge, MemoryError)
"""What the rules of others say, and what is answered by following less at once."""
_OURS = ("chainrule.", "jaxtyping.")
"""Modules whose frames a warning does not point at: our own, and what checks types on the way in."""
_REFERENCES = {"new_ref", "empty_ref", "get", "swap", "addupdate", "freeze", "run_state", "accum_grad_in_ref"}


class Tracked(NamedTuple):
    """A variable: its numbers, and what they depend on."""

    value: TrackedValue
    reach: Reach | None


class DenseDetectionWarning(UserWarning):
    """A part of a program could not be looked into, so everything in it counts as depending on everything."""


class Dependence(enum.Enum):
    """What it means that a result depends on an operand."""

    SLOPES = "through its derivative"
    LINEAR = "linearly"
    ANY = "in any way"


@final
class NotCovered(Exception):
    """A rule does not cover this case."""


@final
class Analysis:
    """One walk: the sense it is done in and what it noticed on the way."""

    def __init__(self, width: int, sense: Dependence, notes: "Notes") -> None:
        self.width = width
        self.sense = sense
        self.slopes = sense is Dependence.SLOPES
        self.smooth = sense is not Dependence.ANY
        """Whole numbers and truth values depend on nothing."""
        self.notes = notes

    def walk(self, program: Any, operands: Sequence[Tracked]) -> list[Tracked]:
        """The results of a closed program."""
        constants = [
            Tracked(values_of.constant(variable.aval, number), None)
            for variable, number in zip(program.jaxpr.constvars, program.consts, strict=True)
        ]
        return self.walk_open(program.jaxpr, constants, operands)

    def walk_open(
        self, program: Any, constants: Sequence[Tracked], operands: Sequence[Tracked]
    ) -> list[Tracked]:
        """The results of a program whose constants are given as cells."""
        if any(equation.primitive.name in _REFERENCES for equation in program.eqns):
            return self._opaque(program, [*constants, *operands])
        cells: dict[Any, Tracked] = dict(zip(program.constvars, constants, strict=True))
        cells.update(zip(program.invars, operands, strict=True))

        def read(atom: Any) -> Tracked:
            if isinstance(atom, Literal):
                return Tracked(values_of.constant(atom.aval, atom.val), None)
            return cells[atom]

        for equation in program.eqns:
            found = self.step(equation, [read(atom) for atom in equation.invars])
            cells.update(zip(equation.outvars, found, strict=True))
        return [read(atom) for atom in program.outvars]

    def step(self, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
        """The results of one equation."""
        structure = STRUCTURES.get(equation.primitive.name)
        if structure is not None:
            return self._guarded(structure, equation, operands)
        values = values_of.results(equation, [cell.value for cell in operands])
        if all(cell.reach is None for cell in operands):
            return [Tracked(value, None) for value in values]
        if self.smooth and not any(is_inexact(variable.aval) for variable in equation.outvars):
            return [Tracked(value, None) for value in values]
        return [
            Tracked(value, self._possible(variable, reach))
            for value, variable, reach in zip(
                values, equation.outvars, self._reach(equation, operands), strict=True
            )
        ]

    def _guarded(self, structure: "Structure", equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
        try:
            return structure(self, equation, operands)
        except _TO_THE_CALLER:
            raise
        except Exception as error:  # a pattern comes out whatever JAX changes; the warning says what happened
            values = values_of.results(equation, [cell.value for cell in operands])
            reaches = self.dense(equation, operands, f"could not be looked into ({_first_line(error)})")
            return [Tracked(value, reach) for value, reach in zip(values, reaches, strict=True)]

    def _reach(self, equation: Any, operands: Sequence[Tracked]) -> Reaches:
        try:
            return self.reach(equation, operands)
        except _TO_THE_CALLER:
            raise
        except Exception as error:  # as above
            return self.dense(equation, operands, f"could not be looked into ({_first_line(error)})")

    def reach(self, equation: Any, operands: Sequence[Tracked]) -> Reaches:
        """What the results of an operation depend on."""
        name = equation.primitive.name
        custom = CUSTOM.get(name)
        if custom is not None:
            return custom(self, equation, operands)
        if self.slopes and name in FLAT:
            return [None] * len(equation.outvars)
        rule = RULES.get(name)
        if rule is not None:
            try:
                return rule(self, equation, operands)
            except NotCovered:
                pass  # the general way below covers every case
        return self.slopes_of(equation, operands) if self.slopes else self.opened(equation, operands)

    def slopes_of(self, equation: Any, operands: Sequence[Tracked]) -> Reaches:
        """Differentiate one equation with JAX and walk the linear program."""
        moving = [cell.reach is not None for cell in operands]
        try:
            program = self.notes.tangent_program(equation, moving)
        except (NotImplementedError, TypeError, ValueError) as error:
            return self.dense(equation, operands, f"has no forward derivative ({_first_line(error)})")
        tangents = [
            Tracked(values_of.unknown(cell.value.aval), cell.reach)
            for cell in operands
            if cell.reach is not None
        ]
        inner = Analysis(self.width, Dependence.LINEAR, self.notes)
        found = inner.walk(program, [*(Tracked(cell.value, None) for cell in operands), *tangents])
        remaining = iter(found)
        return [next(remaining).reach if is_inexact(v.aval) else None for v in equation.outvars]

    def opened(self, equation: Any, operands: Sequence[Tracked]) -> Reaches:
        """Walk the definition of an operation that is made of others, if it has one."""
        program = self.notes.definition(equation)
        if program is None:
            return self.dense(equation, operands, "has no rule")
        return [cell.reach for cell in self.walk(program, operands)]

    def dense(self, equation: Any, operands: Sequence[Tracked], why: str) -> Reaches:
        """Every result depends on everything any operand depends on."""
        self.notes.warn(equation.primitive.name, why)
        return self.everything(equation.outvars, operands)

    def everything(self, variables: Sequence[Any], operands: Sequence[Tracked]) -> Reaches:
        """The same without a warning, for operations that do mix everything."""
        total = union((), [summed(cell.reach) for cell in operands])
        return [
            None if total is None or not variable.aval.size else total.spread(tuple(variable.aval.shape))
            for variable in variables
        ]

    def _opaque(self, program: Any, operands: Sequence[Tracked]) -> list[Tracked]:
        """A program that writes into memory it has set aside, which is not followed."""
        self.notes.warn("new_ref", "writes into an array reference")
        variables = program.outvars
        reaches = self.everything(variables, operands)
        return [
            Tracked(values_of.unknown(variable.aval), self._possible(variable, reach))
            for variable, reach in zip(variables, reaches, strict=True)
        ]

    def _possible(self, variable: Any, reach: Reach | None) -> Reach | None:
        return reach if not self.smooth or is_inexact(variable.aval) else None


@final
class Notes:
    """What a detection keeps for all its walks: programs it has made, and operations it has warned about."""

    def __init__(self) -> None:
        self.dense: dict[str, str] = {}
        self._programs: dict[tuple[int, tuple[bool, ...]], tuple[Any, Any]] = {}
        self._definitions: dict[int, tuple[Any, Any]] = {}
        self._transposed: dict[int, tuple[Any, Any]] = {}

    def warn(self, name: str, why: str) -> None:
        """Say once that an operation was treated as dense."""
        if name not in self.dense:
            self.dense[name] = why

    def tangent_program(self, equation: Any, moving: Sequence[bool]) -> Any:
        """The program from operands and tangents (of the moving ones) to tangents of the inexact results."""
        key = (id(equation), tuple(moving))
        if key not in self._programs:
            # The equation is kept with its program, so that its identity is not given to another.
            self._programs[key] = (equation, _tangent_program(equation, moving))
        return self._programs[key][1]

    def definition(self, equation: Any) -> Any:
        """The program an operation is defined by, or `None`."""
        if id(equation) not in self._definitions:
            self._definitions[id(equation)] = (equation, _definition(equation))
        return self._definitions[id(equation)][1]

    def transposed(self, equation: Any, kept: int) -> Any:
        """The program from the first operands and cotangents of the results to cotangents of the other operands."""
        if id(equation) not in self._transposed:
            self._transposed[id(equation)] = (equation, _transposed(equation, kept))
        return self._transposed[id(equation)][1]

    def emit(self, where: str) -> None:
        """Give the warnings that were collected, as coming from the line that asked for the pattern."""
        frame, level = sys._getframe(), 1
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_OURS):
            frame, level = frame.f_back, level + 1
        for name, why in self.dense.items():
            warnings.warn(
                f"{where}: the operation {name!r} {why}; every result of it counts as depending on all of its "
                f"operands. Register a rule to get a smaller pattern: sparse.register({name!r}, rule)",
                DenseDetectionWarning,
                stacklevel=level,
            )


def summed(reach: Reach | None) -> Reach | None:
    """The union over all elements."""
    return None if reach is None else reach.reduce(range(len(reach.shape)))


def _tangent_program(equation: Any, moving: Sequence[bool]) -> Any:
    run = function_of(equation)
    kept = [is_inexact(variable.aval) for variable in equation.outvars]

    def push(operands: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        def moved(*some: Any) -> list[Any]:
            remaining = iter(some)
            full = [next(remaining) if m else one for one, m in zip(operands, moving, strict=True)]
            return [out for out, keep in zip(run(*full), kept, strict=True) if keep]

        primals = [one for one, m in zip(operands, moving, strict=True) if m]
        return list(jax.jvp(moved, tuple(primals), tuple(tangents))[1])

    shapes = [_struct(atom.aval) for atom in equation.invars]
    return jax.make_jaxpr(push)(shapes, [one for one, m in zip(shapes, moving, strict=True) if m])


def _transposed(equation: Any, kept: int) -> Any:
    run = function_of(equation)
    shapes = [_struct(atom.aval) for atom in equation.invars]
    moving = [is_inexact(variable.aval) for variable in equation.outvars]

    def pull(operands: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        remaining = iter(cotangents)
        full = [
            next(remaining) if moves else np.zeros(variable.aval.shape, jax.dtypes.float0)
            for variable, moves in zip(equation.outvars, moving, strict=True)
        ]
        return list(jax.linear_transpose(lambda *some: run(*operands, *some), *shapes[kept:])(full))

    outs = [_struct(v.aval) for v, moves in zip(equation.outvars, moving, strict=True) if moves]
    return jax.make_jaxpr(pull)(shapes[:kept], outs)


def _definition(equation: Any) -> Any:
    primitive, params = equation.primitive, equation.params
    try:
        program = jax.make_jaxpr(lambda *operands: primitive.impl(*operands, **params))(
            *[_struct(atom.aval) for atom in equation.invars]
        )
    except Exception:  # whatever an implementation raises when it is given shapes instead of numbers
        return None
    shapes = [tuple(variable.aval.shape) for variable in equation.outvars]
    if [tuple(atom.aval.shape) for atom in program.jaxpr.outvars] != shapes or _mentions(
        program.jaxpr, primitive
    ):
        return None
    return program


def _mentions(program: Any, primitive: Any) -> bool:
    for equation in program.eqns:
        if equation.primitive is primitive:
            return True
        for value in equation.params.values():
            for one in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(one, "jaxpr", one)
                if hasattr(inner, "eqns") and _mentions(inner, primitive):
                    return True
    return False


def _struct(aval: Any) -> Any:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


Rule: TypeAlias = Callable[[Analysis, Any, Sequence[Tracked]], Reaches]
Structure: TypeAlias = Callable[[Analysis, Any, Sequence[Tracked]], list[Tracked]]

RULES: dict[str, Rule] = {}
"""What operations hand on, in either sense."""
CUSTOM: dict[str, Rule] = {}
"""Rules people registered; they come first."""
FLAT: set[str] = set()
"""Operations whose derivative is zero."""
STRUCTURES: dict[str, Structure] = {}
"""Calls, loops and branches: equations that hold programs."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of some operations."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def structure(*names: str) -> Callable[[Structure], Structure]:
    """Enter a function for equations that hold programs."""

    def enter(function: Structure) -> Structure:
        STRUCTURES.update(dict.fromkeys(names, function))
        return function

    return enter


__all__ = [
    "CUSTOM",
    "FLAT",
    "RULES",
    "STRUCTURES",
    "Analysis",
    "DenseDetectionWarning",
    "Dependence",
    "NotCovered",
    "Notes",
    "Reaches",
    "Tracked",
    "rule",
    "structure",
    "summed",
]
