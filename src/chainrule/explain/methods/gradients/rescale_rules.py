"""Rules that send shares of a finite change back through one operation, where gradients send slopes.

Going from a baseline to an input, an operation changes its result by a finite amount. Each rule gives every operand a
multiplier such that multipliers times changes of the operands are the change of the result exactly. Of linear
operations that is the derivative; of an elementwise one the difference quotient (the rescale rule of DeepLIFT,
Shrikumar et al., 2017, arXiv:1704.02685); of a product the derivative halfway; of a maximum the rise goes to where the
maximum is, the fall to where it was.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.types import Array

Operation: TypeAlias = Callable[..., Array]
_CLOSE = 1e-6
"""Relative change of an operand below which the derivative takes the part of the quotient of two roundings."""


def rescaled(operation: Operation, x: Array, start: Array) -> Array:
    """An elementwise operation whose multiplier is the difference quotient."""

    @jax.custom_vjp
    def run(x: Array, start: Array) -> Array:
        del start
        return operation(x)

    def forward(x: Array, start: Array) -> tuple[Array, tuple[Array, Array]]:
        return operation(x), (x, start)

    def backward(kept: tuple[Array, Array], signal: Array) -> tuple[Array, Array]:
        x, start = kept
        value, back = jax.vjp(operation, x)
        gap = _gap(x, start)
        close = _near(x, gap)
        quotient = _gap(value, operation(start)) / jnp.where(close, 1, gap)
        multiplier = jnp.where(close, back(jnp.ones_like(value))[0], quotient)
        return signal * multiplier, jnp.zeros_like(start)

    run.defvjp(forward, backward)
    return run(x, start)


def halfway(operation: Operation, operands: Sequence[Array], starts: Sequence[Array]) -> Array:
    """An operation that is linear in each of its operands: the multiplier is the derivative halfway."""

    @jax.custom_vjp
    def run(operands: Any, starts: Any) -> Array:
        del starts
        return operation(*operands)

    def forward(operands: Any, starts: Any) -> tuple[Array, Any]:
        return operation(*operands), (operands, starts)

    def backward(kept: Any, signal: Array) -> tuple[Any, Any]:
        operands, starts = kept
        middle = [(a + b) / 2 for a, b in zip(operands, starts, strict=True)]
        return tuple(jax.vjp(operation, *middle)[1](signal)), jax.tree.map(jnp.zeros_like, starts)

    run.defvjp(forward, backward)
    return run(tuple(operands), tuple(starts))


def largest(operation: Operation, operands: Sequence[Array], starts: Sequence[Array]) -> Array:
    """A maximum over operands or their entries: its rise goes to its new position, its fall to its old one."""

    @jax.custom_vjp
    def run(operands: Any, starts: Any) -> Array:
        del starts
        return operation(*operands)

    def forward(operands: Any, starts: Any) -> tuple[Array, Any]:
        return operation(*operands), (operands, starts)

    def backward(kept: Any, signal: Array) -> tuple[Any, Any]:
        operands, starts = kept
        now, new = jax.vjp(operation, *operands)
        then, old = jax.vjp(operation, *starts)
        risen = new(signal * jnp.maximum(now - then, 0))
        fallen = old(signal * jnp.minimum(now - then, 0))
        multipliers = []
        for a, b, up, down in zip(operands, starts, risen, fallen, strict=True):
            gap = _gap(a, b)
            close = _near(a, gap)
            multipliers.append(jnp.where(close, 0, (up + down) / jnp.where(close, 1, gap)))
        return tuple(multipliers), jax.tree.map(jnp.zeros_like, starts)

    run.defvjp(forward, backward)
    return run(tuple(operands), tuple(starts))


def _gap(x: Array, start: Array) -> Array:
    """How far an operand has moved; what is infinite at both ends, as scores behind a mask are, has not."""
    return jnp.where(x == start, 0, x - start)


def _near(x: Array, gap: Array) -> Array:
    return jnp.abs(gap) <= _CLOSE * jnp.maximum(jnp.abs(x), 1)


__all__ = ["Operation", "halfway", "largest", "rescaled"]
