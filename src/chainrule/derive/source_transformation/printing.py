"""Pseudo-code of a program: one line per operation, loops and branches indented."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar

from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.formula import formula, literal
from chainrule.derive.jaxprs.source import of_equation
from chainrule.derive.source_transformation.simplifying import uniform

_INDENT = "  "


def pseudo_code(program: ClosedJaxpr, inputs: Sequence[str], title: str) -> str:
    """The whole program; each line says the operation, the type of its result and the source line."""
    namer = _Namer(set(inputs))
    parameters = []
    for variable, name in zip(program.jaxpr.invars, inputs, strict=True):
        namer.names[variable] = name
        parameters.append(f"{name}: {variable.aval.str_short()}")
    lines = [f"{title}({', '.join(parameters)}):"]
    for variable, value in zip(program.jaxpr.constvars, program.consts, strict=True):
        known = uniform(value) if np.asarray(value).dtype.kind in "biufc" else None
        shown = "constant" if known is None else f"{literal(known)} in every entry"
        lines.append(f"{_INDENT}{namer.new(variable)} = {shown:<41} # {variable.aval.str_short()}")
    lines += _body(program, namer, 1)
    return "\n".join(lines)


def _body(program: ClosedJaxpr, namer: "_Namer", depth: int) -> Iterator[str]:
    pad = _INDENT * depth
    for equation in program.eqns:
        operands = [namer.read(atom) for atom in equation.invars]
        kept = [variable for variable in equation.outvars if not isinstance(variable, DropVar)]
        left = ", ".join(namer.new(variable) for variable in kept) or "_"
        types = ", ".join(variable.aval.str_short() for variable in kept)
        source = of_equation(equation)
        line = f"{pad}{left} = {formula(equation, operands)}"
        about = "  ".join(part for part in (types, str(source or "")) if part)
        yield f"{line:<46} # {about}" if about else line
        yield from _inside(equation, namer, depth + 1)
    results = ", ".join(namer.read(atom) for atom in program.jaxpr.outvars)
    yield f"{pad}return {results}"


def _inside(equation: Any, namer: "_Namer", depth: int) -> Iterator[str]:
    pad = _INDENT * (depth - 1)
    name = equation.primitive.name
    inner = eqs.body(equation)
    parts: list[tuple[str, ClosedJaxpr]] = []
    if name == "scan":
        parts = [("each step", eqs.closed(equation.params["jaxpr"]))]
    elif name == "while":
        parts = [
            ("while", eqs.closed(equation.params["cond_jaxpr"])),
            ("do", eqs.closed(equation.params["body_jaxpr"])),
        ]
    elif name == "cond":
        parts = [(f"case {i}", eqs.closed(one)) for i, one in enumerate(equation.params["branches"])]
    elif inner is not None:
        parts = [(eqs.label(equation), inner)]
    for title, part in parts:
        names = [namer.new(variable) for variable in [*part.jaxpr.constvars, *part.jaxpr.invars]]
        yield f"{pad}{_INDENT}{title}({', '.join(names)}):"
        yield from _body(part, namer, depth + 1)


@final
class _Namer:
    """Short names in the order of appearance: a, b, ..., z, aa, ab, ..."""

    def __init__(self, taken: set[str]) -> None:
        self.names: dict[Any, str] = {}
        self._taken = taken
        self._count = 0

    def new(self, variable: Any) -> str:
        """A fresh name for a variable."""
        while (name := _letters(self._count)) in self._taken:
            self._count += 1
        self._count += 1
        self.names[variable] = name
        return name

    def read(self, atom: Any) -> str:
        """The name of a variable, or a number as it is."""
        return literal(atom.val) if eqs.is_literal(atom) else self.names[atom]


def _letters(count: int) -> str:
    name = ""
    count += 1
    while count:
        count, letter = divmod(count - 1, 26)
        name = chr(ord("a") + letter) + name
    return name


__all__ = ["pseudo_code"]
