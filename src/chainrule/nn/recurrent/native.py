"""A recurrent layer over all its steps, forward and backward, in native code.

XLA spends some eighty microseconds on one step of a loop, four times as long as the arithmetic of 32 sequences and 128
units takes. Sequences do not depend on each other, so here some of them are one item of work: a thread takes it through
all steps, without waiting for anybody. In a step the product with the recurrent weights holds a tile of sums in
registers while the states stream by, one fused multiply-add per vector of sums and state; what a cell then does with
each unit comes as a formula (`nn.recurrent.units`). The weights come in the order in which they are read. What
is left outside are products over all steps at once: the input's part of the gates, and the gradient of the weights.

With T steps, B sequences, H units and G entries of all gates a direction takes 2 T B H G operations: 0.27 GFLOP for an
LSTM of 128 units over 64 steps of 32 sequences. At the 210 GFLOP/s that two cores do that is 1.3 ms; forward, with the
slopes, it takes 1.7 ms and backward 1.5 ms. The weights, 256 KiB, stay in a core's cache.
"""

import functools

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.native import availability, recurrent
from chainrule.nn.native.availability import THREADS, Registers
from chainrule.nn.native.compiler import register
from chainrule.nn.native.recurrent import RecurrentPlan
from chainrule.nn.recurrent.units import UnitByUnit


def runs(hidden: int, inward: tuple[int, ...]) -> bool:
    """Whether there are programs, in single precision, for this shape of all gates: units that fill registers.

    >>> runs(5, (7, 3, 20))
    False
    """
    registers = availability.registers()
    return registers is not None and hidden % registers.lanes == 0 and 0 not in inward


def forward(
    cell: UnitByUnit, weight: Array, bias: Array, inward: Array, states: tuple[Array, ...], keep: bool
) -> tuple[Array, ...]:
    """Outputs of all steps, the last of the other states and, if they are kept, the slopes of all steps."""
    plan, registers = _plan(cell, inward)
    name = _forward(cell, plan, registers, keep)
    hidden, width = plan.hidden, plan.width
    in_order = weight.reshape(hidden, plan.gates, hidden // width, width).transpose(2, 1, 0, 3)
    over_time = jax.ShapeDtypeStruct((plan.time, plan.batch, hidden), jnp.float32)
    once = jax.ShapeDtypeStruct((plan.batch, hidden), jnp.float32)
    results = [over_time, *[once] * (len(states) - 1), *[over_time] * (len(cell.slopes) if keep else 0)]
    return tuple(jax.ffi.ffi_call(name, results)(in_order, bias, inward, *states))


def backward(
    cell: UnitByUnit, weight: Array, slopes: tuple[Array, ...], outputs: Array, last: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Cotangents of the input's part of all gates and of the first states, from those of outputs and last states."""
    time, batch, hidden = outputs.shape
    over_time = jax.ShapeDtypeStruct((time, batch, len(cell.gates) * hidden), jnp.float32)
    plan, registers = _plan(cell, over_time)
    name = _backward(cell, plan, registers)
    in_order = weight.reshape(hidden // plan.width, plan.width, plan.all_gates).transpose(0, 2, 1)
    once = jax.ShapeDtypeStruct((batch, hidden), jnp.float32)
    return tuple(jax.ffi.ffi_call(name, [over_time, *[once] * len(last)])(in_order, *slopes, outputs, *last))


def _plan(cell: UnitByUnit, inward: Array | jax.ShapeDtypeStruct) -> tuple[RecurrentPlan, Registers]:
    registers = availability.registers()
    assert registers is not None
    time, batch, entries = inward.shape
    gates = len(cell.gates)
    return RecurrentPlan.of(time, batch, entries // gates, gates, registers, THREADS), registers


@functools.cache
def _forward(cell: UnitByUnit, plan: RecurrentPlan, registers: Registers, keep: bool) -> str:
    """The name under which XLA knows the program of this layer."""
    text = recurrent.forward(cell, plan, registers, keep, THREADS - 1)
    return register(_name(f"forward{'_keeping' if keep else ''}", cell, plan), text)


@functools.cache
def _backward(cell: UnitByUnit, plan: RecurrentPlan, registers: Registers) -> str:
    """The name under which XLA knows the program of its derivative turned around."""
    text = recurrent.backward(cell, plan, registers, THREADS - 1)
    return register(_name("backward", cell, plan), text)


def _name(direction: str, cell: UnitByUnit, plan: RecurrentPlan) -> str:
    return "_".join(["chainrule", type(cell).__name__, direction, *map(str, plan)])


__all__ = ["backward", "forward", "runs"]
