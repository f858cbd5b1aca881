"""How many factorisations and solves a program performs, read off the program itself.

Factorisations and solves run under names of their own. The program of a function, with what nothing depends on left
out, is searched for these names, inside loops as often as they run. So the numbers hold for compiled code, cost
nothing at run time, and cannot miss a factorisation hidden by a transformation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.interpreters import partial_eval

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
    jaxpr, _ = partial_eval.dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))
    return _in_program(jaxpr)


def _in_program(jaxpr: Any) -> Count:
    total = Count(0, 0, 0)
    for equation in jaxpr.eqns:
        total = Count(*(a + b for a, b in zip(total, _in_equation(equation), strict=True)))
    return total


def _in_equation(equation: Any) -> Count:
    name, label = equation.primitive.name, str(equation.params.get("name", ""))
    if label == _FACTORISE:
        return Count(1, 0, 0)
    if label == _SOLVE:
        return Count(0, 1, 0)
    if name == "custom_linear_solve":
        return _in_program(equation.params["jaxprs"].solve.jaxpr)
    inner = [_in_program(program.jaxpr) for program in eqs.inner_programs(equation)]
    if name == "cond":
        return Count(*(max(kind) for kind in zip(*inner, strict=True)))
    total = Count(*(sum(kind) for kind in zip(*inner, strict=True))) if inner else Count(0, 0, 0)
    if name == "scan":
        return Count(*(equation.params["length"] * number for number in total))
    if name == "while":
        return Count(0, 0, total.factorisations + total.per_step)
    return total


__all__ = ["Count", "count"]
