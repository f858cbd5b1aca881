"""Counts of factorisations and solves in a program, read off the program itself.

Factorisations and solves run under names of their own. The program of a function, with what nothing depends on left
out, is searched for these names, inside loops as often as they run. So the numbers hold for compiled code, cost
nothing at run time, and cannot miss a factorisation hidden by a transformation.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import Literal

from chainrule.derive.jaxprs import equations as eqs

_FACTORISE, _SOLVE = "implicit_factorise", "implicit_solve"


class Count(NamedTuple):
    """What running a function once takes."""

    factorisations: int
    """Outside of solvers' own loops: those that derivatives share."""
    solves: int
    """With these factors, each with one or many right-hand sides."""
    per_step: int
    """Factorisations in each step of loops whose number of steps is not known beforehand: Newton's."""


def count(f: Callable[..., Any], *args: Any) -> Count:
    """The factorisations and solves that `f(*args)` performs; `f` may take derivatives in any way.

    >>> import chainrule.derive.implicit as implicit
    >>> solve = implicit.root(lambda w, a: w**2 - a)
    >>> count(jax.grad(jax.grad(lambda a: solve(1.0, a))), 2.0).factorisations
    1
    """
    program = jax.make_jaxpr(f)(*args)
    return _in_program(program.jaxpr, [True] * len(program.jaxpr.outvars))[0]


def _in_program(jaxpr: Any, wanted: Sequence[bool]) -> tuple[Count, list[bool]]:
    """What it takes to compute the wanted results, and which inputs they depend on."""
    needed = {v for v, used in zip(jaxpr.outvars, wanted, strict=True) if used and not isinstance(v, Literal)}
    total = Count(0, 0, 0)
    for equation in reversed(jaxpr.eqns):
        used = [v in needed for v in equation.outvars]
        if any(used) or equation.effects:
            found, inputs = _in_equation(equation, used)
            total = _sum([total, found])
            needed |= {
                v
                for v, read in zip(equation.invars, inputs, strict=True)
                if read and not isinstance(v, Literal)
            }
    return total, [v in needed for v in jaxpr.invars]


def _in_equation(equation: Any, wanted: Sequence[bool]) -> tuple[Count, list[bool]]:
    name, label = equation.primitive.name, str(equation.params.get("name", ""))
    everything = [True] * len(equation.invars)
    if label == _FACTORISE:
        return Count(1, 0, 0), everything
    if label == _SOLVE:
        return Count(0, 1, 0), everything
    called = eqs.body(equation)
    if called is not None:
        return _in_program(called.jaxpr, wanted)
    if name == "custom_linear_solve":
        return _whole(equation.params["jaxprs"].solve), everything
    inner = [_whole(program) for program in eqs.inner_programs(equation)]
    if name == "cond":
        return Count(*(max(kind) for kind in zip(*inner, strict=True))), everything
    total = _sum(inner)
    if name == "scan":
        total = Count(*(equation.params["length"] * number for number in total))
    elif name == "while":
        total = Count(0, 0, total.factorisations + total.per_step)
    return total, everything


def _whole(program: Any) -> Count:
    return _in_program(program.jaxpr, [True] * len(program.jaxpr.outvars))[0]


def _sum(counts: Sequence[Count]) -> Count:
    return Count(*(sum(kind) for kind in zip(Count(0, 0, 0), *counts, strict=True)))


__all__ = ["Count", "count"]
