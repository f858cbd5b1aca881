"""Equations of a jaxpr: plain operations, calls, loops and branches, and the programs inside them.

Kinds are told by name for the three control-flow primitives and by structure for calls (one inner program with the
same operands and results), so call-like primitives of future JAX versions open without a new rule here.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, gensym
from jax.extend.core import Literal as LiteralAtom

from chainrule.derive.jaxprs.source import of_equation

Kind: TypeAlias = Literal["operation", "call", "loop", "branch"]

_INLINED = ("jit", "pjit", "closed_call", "core_call")
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def kind(equation: Any) -> Kind:
    """Which of the four an equation is."""
    name = equation.primitive.name
    if name in ("scan", "while"):
        return "loop"
    if name == "cond":
        return "branch"
    return "operation" if body(equation) is None else "call"


def body(equation: Any) -> ClosedJaxpr | None:
    """The program a call-like equation runs on its operands; none for anything else."""
    if equation.primitive.name in ("scan", "while", "cond"):
        return None
    for key in _BODIES:
        if isinstance(equation.params.get(key), (Jaxpr, ClosedJaxpr)):
            inner = closed(equation.params[key])
            if _same_types(inner.jaxpr.invars, equation.invars) and _same_types(
                inner.jaxpr.outvars, equation.outvars
            ):
                return inner
    return None


def label(equation: Any) -> str:
    """What a person calls the operation: the function's name for a call, the primitive's otherwise."""
    name = str(equation.primitive.name)
    inner = body(equation)
    if inner is None:
        return name
    called = str(equation.params.get("name") or inner.jaxpr.debug_info.func_src_info.split(" ")[0])
    return called.strip("_<>") or name


def is_custom(equation: Any) -> bool:
    """Whether the operation carries a derivative rule written by a person."""
    return str(equation.primitive.name).startswith(("custom_jvp", "custom_vjp", "custom_lin"))


def is_plain_call(equation: Any) -> bool:
    """Whether the equation only calls another program, with nothing of its own (`jax.jit`)."""
    return equation.primitive.name in _INLINED and body(equation) is not None


def inner_programs(equation: Any) -> Iterator[ClosedJaxpr]:
    """Every program in an equation's parameters."""
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, (Jaxpr, ClosedJaxpr)):
                yield closed(one)


def closed(program: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """A program together with its constants."""
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def is_literal(atom: Any) -> bool:
    """Whether an operand is a number written into the program rather than a variable."""
    return isinstance(atom, LiteralAtom)


def program_of(
    constvars: Sequence[Any],
    consts: Sequence[Any],
    invars: Sequence[Any],
    outvars: Sequence[Any],
    equations: Sequence[Any],
) -> ClosedJaxpr:
    """A program from its parts."""
    effects = frozenset().union(*(equation.effects for equation in equations))
    debug = DebugInfo("chainrule", "program", None, None)
    open_program = Jaxpr(
        constvars=constvars, invars=invars, outvars=outvars, eqns=equations, effects=effects, debug_info=debug
    )
    return ClosedJaxpr(open_program, tuple(consts))


def inline(program: ClosedJaxpr, when: Callable[[Any], bool]) -> ClosedJaxpr:
    """The same program with the bodies of some calls written out in their place.

    `when` picks the calls; it is asked again inside the bodies. Variables of a body get fresh names at every call.
    """
    outer = program.jaxpr
    constvars, consts = list(outer.constvars), list(program.consts)
    equations: list[Any] = []
    fresh = gensym()

    def walk(inner: Any, names: dict[Any, Any], caller: Any) -> list[Any]:
        def read(atom: Any) -> Any:
            return atom if is_literal(atom) else names.get(atom, atom)

        for equation in inner.eqns:
            operands = [read(atom) for atom in equation.invars]
            callee = body(equation) if when(equation) else None
            if callee is not None:
                entry = dict(zip(callee.jaxpr.invars, operands, strict=True))
                for variable, value in zip(callee.jaxpr.constvars, callee.consts, strict=True):
                    entry[variable] = fresh(variable.aval)
                    constvars.append(entry[variable])
                    consts.append(value)
                results = walk(callee.jaxpr, entry, equation if caller is None else caller)
                names.update(zip(equation.outvars, results, strict=True))
                continue
            if caller is not None:
                names.update((variable, fresh(variable.aval)) for variable in equation.outvars)
                if of_equation(equation) is None:  # library code is shown where the user called it
                    equation = equation.replace(source_info=caller.source_info)
            results = [names.get(variable, variable) for variable in equation.outvars]
            equations.append(equation.replace(invars=operands, outvars=results))
        return [read(atom) for atom in inner.outvars]

    outvars = walk(outer, {}, None)
    return program_of(constvars, consts, outer.invars, outvars, equations)


def without_dead_code(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without operations and constants that are not used; effects such as printing stay."""
    needed = {atom for atom in program.jaxpr.outvars if not is_literal(atom)}
    kept = []
    for equation in reversed(program.eqns):
        if equation.effects or any(variable in needed for variable in equation.outvars):
            needed.update(atom for atom in equation.invars if not is_literal(atom))
            kept.append(equation)
    inner = program.jaxpr
    pairs = [pair for pair in zip(inner.constvars, program.consts, strict=True) if pair[0] in needed]
    constvars, consts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return program_of(constvars, consts, inner.invars, inner.outvars, kept[::-1])


def open_trivial_calls(program: ClosedJaxpr) -> ClosedJaxpr:
    """Write out calls that only hide something: a program that is one call, and calls of a single operation."""
    while len(program.eqns) == 1 and is_plain_call(program.eqns[0]):
        program = inline(program, functools.partial(operator.is_, program.eqns[0]))

    def trivial(equation: Any) -> bool:
        inner = body(equation)
        return is_plain_call(equation) and inner is not None and len(inner.eqns) <= 1

    return inline(program, trivial)


def _same_types(inner: Sequence[Any], outer: Sequence[Any]) -> bool:
    return len(inner) == len(outer) and all(
        getattr(a.aval, "shape", None) == getattr(b.aval, "shape", None)
        and getattr(a.aval, "dtype", None) == getattr(b.aval, "dtype", None)
        for a, b in zip(inner, outer, strict=True)
    )


__all__ = [
    "Kind",
    "body",
    "closed",
    "inline",
    "inner_programs",
    "is_custom",
    "is_literal",
    "is_plain_call",
    "kind",
    "label",
    "open_trivial_calls",
    "program_of",
    "without_dead_code",
]
