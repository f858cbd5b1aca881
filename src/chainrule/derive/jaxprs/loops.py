"""Loops step by step: the number of steps, and the state, tangent and adjoint that enter each.

A `while` loop that ran T times has, at this point, the derivative of its body applied T times: its condition decides
only T. Written with that fixed T it can be differentiated in reverse, which JAX refuses for the loop itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.scans import scan_parts
from chainrule.derive.jaxprs import equations as eqs


@final
@dataclass(frozen=True)
class Loop:
    """A loop as `length` runs of a body: (constants, state, slice) -> (state, slice)."""

    body: ClosedJaxpr
    length: int
    constants: tuple[Any, ...]
    state: tuple[Any, ...]
    slices: tuple[Any, ...]
    """Arrays whose leading axis is consumed step by step."""
    reverse: bool
    """Whether the steps consume the slices from the last to the first."""

    def slice_index(self, iteration: int) -> int:
        """Which slice a step consumes."""
        return self.length - 1 - iteration if self.reverse else iteration


def of_equation(equation: Any, operands: Sequence[Any]) -> Loop:
    """The loop of a `scan` or `while` equation at concrete operands."""
    if equation.primitive.name == "scan":
        parts = scan_parts(equation)
        ends = parts.constants, parts.constants + parts.carried
        return Loop(
            body=eqs.closed(equation.params["jaxpr"]),
            length=parts.length,
            constants=tuple(operands[: ends[0]]),
            state=tuple(operands[ends[0] : ends[1]]),
            slices=tuple(operands[ends[1] :]),
            reverse=parts.reverse,
        )
    of_condition, of_body = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    return Loop(
        body=eqs.closed(equation.params["body_jaxpr"]),
        length=count_steps(equation, operands),
        constants=tuple(operands[of_condition : of_condition + of_body]),
        state=tuple(operands[of_condition + of_body :]),
        slices=(),
        reverse=False,
    )


def count_steps(equation: Any, operands: Sequence[Any]) -> int:
    """How often a `while` loop runs at these operands."""
    of_condition, of_body = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    condition = jaxpr_as_fun(eqs.closed(equation.params["cond_jaxpr"]))
    step = jaxpr_as_fun(eqs.closed(equation.params["body_jaxpr"]))
    for_condition, for_body = operands[:of_condition], operands[of_condition : of_condition + of_body]
    count, _ = jax.lax.while_loop(
        lambda carry: condition(*for_condition, *carry[1])[0],
        lambda carry: (carry[0] + 1, tuple(step(*for_body, *carry[1]))),
        (0, tuple(operands[of_condition + of_body :])),
    )
    return int(count)


def bounded(equation: Any, length: int) -> Callable[..., Sequence[Any]]:
    """A `while` equation as a function of its operands with a fixed number of steps."""
    of_condition, of_body = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    step = jaxpr_as_fun(eqs.closed(equation.params["body_jaxpr"]))

    def run(*operands: Any) -> Sequence[Any]:
        constants = operands[of_condition : of_condition + of_body]
        state = tuple(operands[of_condition + of_body :])
        final_state, _ = jax.lax.scan(
            lambda carry, _: (tuple(step(*constants, *carry)), None), state, None, length=length
        )
        return list(final_state)

    return run


def states(loop: Loop) -> Callable[..., list[Any]]:
    """The state entering every step, stacked, as a function of (constants, state, slices, nudges).

    `nudges`, stacked like the result, are added to the differentiable part of the state before each step: the
    function's derivative with respect to them at zero is the adjoint of the state at every step.
    """
    step = jaxpr_as_fun(loop.body)

    def run(constants: Any, state: Any, slices: Any, nudges: Any) -> list[Any]:
        def one(carry: Any, entering: Any) -> Any:
            part, nudge = entering
            moved = [
                value if extra is None else value + extra for value, extra in zip(carry, nudge, strict=True)
            ]
            results = step(*constants, *moved, *part)
            return tuple(results[: len(carry)]), (tuple(moved), tuple(results[len(carry) :]))

        last, (entered, produced) = jax.lax.scan(
            one, tuple(state), (tuple(slices), nudges), length=loop.length, reverse=loop.reverse
        )
        return [list(last), list(entered), list(produced)]

    return run


def no_nudges(loop: Loop) -> tuple[Any, ...]:
    """Zeros to add to the differentiable part of the state at every step."""
    return tuple(
        jnp.zeros((loop.length, *jnp.shape(value)), jnp.result_type(value))
        if jnp.issubdtype(jnp.result_type(value), jnp.inexact)
        else None
        for value in loop.state
    )


__all__ = ["Loop", "bounded", "count_steps", "no_nudges", "of_equation", "states"]
