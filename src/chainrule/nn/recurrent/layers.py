"""Recurrent layers: a state carried along the time axis.

The input's part of all gates is one matrix product over all steps at once; only the state's part, one product for all
gates, is left inside the loop.
"""

import abc
import math
from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.initializers import draw
from chainrule.nn.linear import Linear
from chainrule.nn.recurrent.cells import Cell, EarlyResetCell, Feedback, GRUCell, LSTMCell, PlainCell, States
from chainrule.nn.recurrent.sequence_layer import SequenceLayer
from chainrule.nn.recurrent.through_time import best_segment, run, run_in_segments


class Recurrent(SequenceLayer):
    """A layer over (*leading, time, inputs) that carries states.

    Every layer takes `initializer`, a scheme of `chainrule.nn.initializers`, and `recurrent_initializer`, one for the
    square block of each gate of the recurrent weights ("orthogonal" keeps the size of what passes through). PyTorch has
    two biases, of the inputs and of the state, where most cells need one: `recurrent_bias=False` leaves the second out.
    """

    inward: eqx.AbstractVar[Linear]
    """From the inputs to all gates, side by side."""
    recurrent: eqx.AbstractVar[Feedback]
    """From the state to all gates."""

    @property
    @abc.abstractmethod
    def cell(self) -> Cell:
        """The arithmetic of one step."""

    @property
    def outputs(self) -> int:
        """Units: the size of each state, and of the output."""
        return self.recurrent.weight.shape[0]

    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype | None = None) -> States:
        """The states before the first step: zeros."""
        zeros = jnp.zeros((*leading, self.outputs), self.recurrent.weight.dtype if dtype is None else dtype)
        return (zeros,) * len(self.cell.states)

    def __call__(
        self,
        x: Float[Array, "*leading time inputs"],
        states: States | None = None,
        *,
        lengths: Int[Array, "*leading"] | None = None,
        segment: int | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*leading time hidden"], States]:
        """Outputs at every step, and the states after the last; see `SequenceLayer`."""
        del key  # nothing here is random
        leading, time = x.shape[:-2], x.shape[-2]
        count = math.prod(leading)
        # Time leads before the product, not after it: what is moved in memory is smaller than all gates.
        x = jnp.swapaxes(x.reshape(count, time, x.shape[-1]), 0, 1)
        dtype = jnp.result_type(x, self.recurrent.weight)
        if states is None:
            states = self.initial(leading, dtype)
        flat = tuple(s.reshape(count, s.shape[-1]).astype(dtype) for s in states)
        ends = None if lengths is None else jnp.minimum(lengths.reshape(count), time)
        alive = None if ends is None else (jnp.arange(time)[:, None] < ends[None])[..., None]
        inward = _Inward(self.inward, self.cell)
        if segment is None:
            last, outputs = run(self.cell, self.recurrent, flat, inward((x, alive)))
        else:
            steps = _checked_segment(type(self).__name__, segment) or best_segment(time)
            last, outputs = run_in_segments(self.cell, inward, self.recurrent, flat, (x, alive), steps)
        if ends is not None and alive is not None:
            last = (_at_the_end(flat[0], outputs, ends), *last[1:])
            outputs = jnp.where(alive, outputs, jnp.zeros_like(outputs))
        out = jnp.swapaxes(outputs, 0, 1).reshape(*leading, time, outputs.shape[-1])
        return out, tuple(s.reshape(*leading, s.shape[-1]) for s in last)

    def step(self, x: Float[Array, "*leading inputs"], states: States) -> States:
        """The states after one step."""
        return self.cell.step(self.recurrent, states, self.inward(x))[0]

    def step_jacobian(
        self, x: Float[Array, "*leading inputs"], states: States
    ) -> tuple[tuple[Float[Array, "*leading hidden hidden"], ...], ...]:
        """Derivatives of the states after one step by those before it: `blocks[after][before]`, exact.

        >>> layer = RNN(3, 2, key=jax.random.key(0))
        >>> ((block,),) = layer.step_jacobian(jnp.ones(3), layer.initial(()))
        >>> (h,) = layer.step(jnp.ones(3), layer.initial(()))
        >>> bool(jnp.allclose(block, jnp.diag(1 - h**2) @ layer.recurrent.weight.T))
        True
        """
        _, slopes = self.cell.step(self.recurrent, states, self.inward(x))
        leading, hidden = x.shape[:-1], self.outputs
        each = tuple(jnp.expand_dims(slope, -2) for slope in slopes)
        nothing = jnp.zeros((*leading, hidden, hidden), slopes[0].dtype)
        units = jnp.broadcast_to(jnp.eye(hidden, dtype=nothing.dtype), nothing.shape)
        still = jnp.zeros((*leading, hidden, self.recurrent.weight.shape[1]), nothing.dtype)
        columns = []
        for moving in range(len(states)):
            change = tuple(units if number == moving else nothing for number in range(len(states)))
            after = self.cell.tangent(self.recurrent.weight.T, each, change, still)
            columns.append([jnp.swapaxes(block, -1, -2) for block in after])
        return tuple(zip(*columns, strict=True))

    def gates(
        self, x: Float[Array, "*leading time inputs"], states: States | None = None
    ) -> Mapping[str, Float[Array, "*leading time hidden"]]:
        """The values of all gates at every step, by name."""
        out, _ = self(x, states)
        first = self.initial(x.shape[:-2], out.dtype)[0] if states is None else states[0]
        before = jnp.concatenate([jnp.expand_dims(first, -2), out[..., :-1, :]], axis=-2)
        return self.cell.named(self.cell.activations(self.recurrent, before, self.inward(x)))


@final
class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000): state and cell.

    Gates in PyTorch's order: input, forget, candidate, output. `c = f c + i g`, `h = o tanh(c)`. The forget gate's bias
    starts at 1, so that memory is kept until training says otherwise (Jozefowicz et al., 2015), except in PyTorch's
    scheme.

    >>> out, (h, c) = LSTM(3, 5, key=jax.random.key(0))(jnp.zeros((2, 7, 3)))
    >>> out.shape, h.shape, c.shape
    ((2, 7, 5), (2, 5), (2, 5))
    """

    inward: Linear
    recurrent: Feedback

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        initializer: str = "xavier",
        recurrent_initializer: str | None = None,
        recurrent_bias: bool = True,
        key: Key,
    ) -> None:
        self.inward, self.recurrent = _weights(
            inputs, hidden, 4, initializer, recurrent_initializer, recurrent_bias, key
        )
        if initializer != "torch":
            bias = self.inward.bias
            assert bias is not None
            self.inward = eqx.tree_at(
                lambda one: one.bias, self.inward, bias.at[hidden : 2 * hidden].set(1.0)
            )

    @property
    def cell(self) -> LSTMCell:
        """The arithmetic of one step."""
        return LSTMCell()


@final
class GRU(Recurrent):
    """Gated recurrent unit (Cho et al., 2014), gates in PyTorch's order: reset, update, candidate.

    `h = (1 - z) n + z h`, and the reset gate acts on the state's part of the candidate, `n = tanh(x_n + r h_n)` with
    h_n = h U_n + b_n (`reset="after"`, as in PyTorch, where the product is one for all gates), or on the state before
    the product, `n = tanh(x_n + (r h) U_n + b_n)` (`reset="before"`, as first published).
    """

    inward: Linear
    recurrent: Feedback
    reset: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        reset: str = "after",
        initializer: str = "xavier",
        recurrent_initializer: str | None = None,
        recurrent_bias: bool = True,
        key: Key,
    ) -> None:
        check_choice("GRU", "reset", reset, ("after", "before"))
        self.inward, self.recurrent = _weights(
            inputs, hidden, 3, initializer, recurrent_initializer, recurrent_bias, key
        )
        self.reset = reset

    @property
    def cell(self) -> GRUCell | EarlyResetCell:
        """The arithmetic of one step."""
        return GRUCell() if self.reset == "after" else EarlyResetCell()


@final
class RNN(Recurrent):
    """The plain recurrence `h = tanh(x W + h U + b)` (Elman, 1990)."""

    inward: Linear
    recurrent: Feedback

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        initializer: str = "xavier",
        recurrent_initializer: str | None = None,
        recurrent_bias: bool = True,
        key: Key,
    ) -> None:
        self.inward, self.recurrent = _weights(
            inputs, hidden, 1, initializer, recurrent_initializer, recurrent_bias, key
        )

    @property
    def cell(self) -> PlainCell:
        """The arithmetic of one step."""
        return PlainCell()


@final
class _Inward(eqx.Module):
    """The input's part of all gates; where no step is to be taken, that with which none is."""

    linear: Linear
    cell: Cell = eqx.field(static=True)

    def __call__(self, now: tuple[Array, Array | None]) -> Array:
        x, alive = now
        gates = self.linear(x)
        if alive is None:
            return gates
        still = jnp.repeat(jnp.asarray(self.cell.still, gates.dtype), gates.shape[-1] // len(self.cell.gates))
        return jnp.where(alive, gates, still[None, None])


def _at_the_end(first: Array, outputs: Array, ends: Array) -> Array:
    """What each sequence put out at its last step, or its first state if it had none."""
    if outputs.shape[0] == 0:
        return first
    found = jnp.take_along_axis(outputs, jnp.maximum(ends - 1, 0)[None, :, None], axis=0)[0]
    return jnp.where(ends[:, None] > 0, found, first)


def _weights(
    inputs: int,
    hidden: int,
    gates: int,
    initializer: str,
    recurrent_initializer: str | None,
    recurrent_bias: bool,
    key: Key,
) -> tuple[Linear, Feedback]:
    where = {4: "LSTM", 3: "GRU", 1: "RNN"}[gates]
    inputs, hidden = whole(where, "inputs", inputs), whole(where, "hidden", hidden)
    first, second = jax.random.split(key)
    outputs = gates * hidden
    # PyTorch draws everything within the same limits, by the number of hidden units.
    limit = 1 / math.sqrt(hidden)
    inward = Linear(inputs, outputs, initializer=initializer, key=first)
    bias = jnp.zeros(outputs)
    key_weight, key_bias = jax.random.split(second)
    if initializer == "torch":
        key_inward = jax.random.split(first)
        drawn = (
            random.uniform(key_inward[0], (inputs, outputs), -limit, limit),
            random.uniform(key_inward[1], (outputs,), -limit, limit),
        )
        inward = eqx.tree_at(lambda one: (one.weight, one.bias), inward, drawn)
        bias = random.uniform(key_bias, (outputs,), -limit, limit)
    if recurrent_initializer is None:
        weight = draw(initializer, key_weight, (hidden, outputs))
    else:
        parts = jax.random.split(key_weight, gates)
        weight = jnp.concatenate([draw(recurrent_initializer, k, (hidden, hidden)) for k in parts], 1)
    return inward, Feedback(weight, bias if recurrent_bias else None)


def _checked_segment(where: str, segment: int) -> int:
    if segment < 0:
        raise ArgumentError(
            f"{where}(segment={segment}): segment is a number of steps, or 0 for the square root of their number"
        )
    return segment


__all__ = ["GRU", "LSTM", "RNN", "Recurrent"]
