"""Roles of values in a derivative: primal, tangent, residual, adjoint.

A value is a tangent or an adjoint exactly if it depends on the direction or the seed that was put in. The question is
asked per result, through loops and branches, so the state of a loop that carries both a primal and its tangent is
told apart.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from jax.extend.core import ClosedJaxpr

from chainrule.core.scans import scan_parts
from chainrule.derive.jaxprs import equations as eqs

Role: TypeAlias = Literal["primal", "residual", "tangent", "adjoint"]
ROLES: tuple[Role, ...] = ("primal", "residual", "tangent", "adjoint")


def moving_results(equation: Any, moving: Sequence[bool]) -> list[bool]:
    """Which results of an equation depend on its moving operands."""
    if not any(moving):
        return [False] * len(equation.outvars)
    name = equation.primitive.name
    if name == "scan":
        parts = scan_parts(equation)
        return moving_through_loop(
            eqs.closed(equation.params["jaxpr"]), moving, parts.constants, parts.carried
        )
    if name == "while":
        skip, constants = equation.params["cond_nconsts"], equation.params["body_nconsts"]
        body = eqs.closed(equation.params["body_jaxpr"])
        return moving_through_loop(body, moving[skip:], constants, len(equation.outvars))
    if name == "cond":
        branches = [moving_through(eqs.closed(branch), moving[1:]) for branch in equation.params["branches"]]
        return [moving[0] or any(results) for results in zip(*branches, strict=True)]
    inner = eqs.body(equation)
    return [True] * len(equation.outvars) if inner is None else moving_through(inner, moving)


def moving_through(program: ClosedJaxpr, moving: Sequence[bool]) -> list[bool]:
    """Which results of a program depend on its moving operands."""
    moves = dict(zip(program.jaxpr.invars, moving, strict=True))

    def read(atom: Any) -> bool:
        return not eqs.is_literal(atom) and moves.get(atom, False)

    for equation in program.eqns:
        results = moving_results(equation, [read(atom) for atom in equation.invars])
        moves.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in program.jaxpr.outvars]


def moving_through_loop(
    body: ClosedJaxpr, moving: Sequence[bool], constants: int, carried: int
) -> list[bool]:
    """What moves after any number of steps: repeat until nothing is added."""
    entering = list(moving)
    while True:
        results = moving_through(body, entering)
        state = slice(constants, constants + carried)
        after = [before or now for before, now in zip(entering[state], results[:carried], strict=True)]
        if after == entering[state]:
            return [*after, *results[carried:]]
        entering[state] = after


__all__ = ["ROLES", "Role", "moving_results", "moving_through", "moving_through_loop"]
