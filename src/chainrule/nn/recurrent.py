"""Recurrent layers: a state carried along the time axis.

The input's part of all gates is one matrix product over all steps at once; only the state's part, one product for all
gates, is left inside the loop.
"""

import abc
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn.linear import Linear


class Recurrent(eqx.Module):
    """A layer over (*leading, time, inputs) that carries a state."""

    inward: eqx.AbstractVar[Linear]
    """From the inputs to all gates, side by side."""
    recurrent: eqx.AbstractVar[Linear]
    """From the state to all gates."""

    @abc.abstractmethod
    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype) -> tuple[Array, ...]:
        """The state before the first step; its first entry is what the layer puts out."""

    @abc.abstractmethod
    def step(self, state: tuple[Array, ...], gates: Array) -> tuple[Array, ...]:
        """The next state, from the input's part of the gates."""

    def __call__(
        self, x: Float[Array, "*leading time inputs"], state: tuple[Array, ...] | None = None
    ) -> tuple[Float[Array, "*leading time hidden"], tuple[Array, ...]]:
        """Outputs at every step, and the state after the last."""
        leading, time = x.shape[:-2], x.shape[-2]
        gates = self.inward(x)
        if state is None:
            state = self.initial(leading, gates.dtype)
        flat = tuple(s.reshape(math.prod(leading), s.shape[-1]) for s in state)
        steps = jnp.moveaxis(gates.reshape(math.prod(leading), time, gates.shape[-1]), 1, 0)

        def move(state: tuple[Array, ...], gates: Array) -> tuple[tuple[Array, ...], Array]:
            after = self.step(state, gates)
            return after, after[0]

        last, outputs = jax.lax.scan(move, flat, steps)
        out = jnp.moveaxis(outputs, 0, 1).reshape(*leading, time, outputs.shape[-1])
        return out, tuple(s.reshape(*leading, s.shape[-1]) for s in last)


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
    recurrent: Linear

    def __init__(self, inputs: int, hidden: int, *, initializer: str = "xavier", key: Key) -> None:
        self.inward, self.recurrent = _gates(inputs, hidden, 4, initializer, key)
        if initializer != "torch":
            bias = self.inward.bias
            assert bias is not None
            self.inward = eqx.tree_at(
                lambda one: one.bias, self.inward, bias.at[hidden : 2 * hidden].set(1.0)
            )

    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype) -> tuple[Array, ...]:
        zeros = jnp.zeros((*leading, self.recurrent.weight.shape[0]), dtype)
        return zeros, zeros

    def step(self, state: tuple[Array, ...], gates: Array) -> tuple[Array, ...]:
        h, c = state
        i, f, g, o = jnp.split(gates + self.recurrent(h), 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c


@final
class GRU(Recurrent):
    """Gated recurrent unit (Cho et al., 2014), gates in PyTorch's order: reset, update, candidate.

    `n = tanh(x_n + r h_n)`, `h = (1 - z) n + z h`, where h_n is the state's part of the candidate with its own bias.
    """

    inward: Linear
    recurrent: Linear

    def __init__(self, inputs: int, hidden: int, *, initializer: str = "xavier", key: Key) -> None:
        self.inward, self.recurrent = _gates(inputs, hidden, 3, initializer, key)

    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype) -> tuple[Array, ...]:
        return (jnp.zeros((*leading, self.recurrent.weight.shape[0]), dtype),)

    def step(self, state: tuple[Array, ...], gates: Array) -> tuple[Array, ...]:
        (h,) = state
        x_r, x_z, x_n = jnp.split(gates, 3, axis=-1)
        h_r, h_z, h_n = jnp.split(self.recurrent(h), 3, axis=-1)
        z = jax.nn.sigmoid(x_z + h_z)
        n = jnp.tanh(x_n + jax.nn.sigmoid(x_r + h_r) * h_n)
        return ((1 - z) * n + z * h,)


@final
class RNN(Recurrent):
    """The plain recurrence `h = tanh(x W + h U + b)` (Elman, 1990)."""

    inward: Linear
    recurrent: Linear

    def __init__(self, inputs: int, hidden: int, *, initializer: str = "xavier", key: Key) -> None:
        self.inward, self.recurrent = _gates(inputs, hidden, 1, initializer, key)

    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype) -> tuple[Array, ...]:
        return (jnp.zeros((*leading, self.recurrent.weight.shape[0]), dtype),)

    def step(self, state: tuple[Array, ...], gates: Array) -> tuple[Array, ...]:
        return (jnp.tanh(gates + self.recurrent(state[0])),)


def _gates(inputs: int, hidden: int, gates: int, initializer: str, key: Key) -> tuple[Linear, Linear]:
    first, second = jax.random.split(key)
    outputs = gates * hidden
    if initializer != "torch":
        return (
            Linear(inputs, outputs, initializer=initializer, key=first),
            Linear(hidden, outputs, initializer=initializer, key=second),
        )
    # PyTorch draws everything within the same limits, by the number of hidden units.
    limit = 1 / math.sqrt(hidden)
    made = []
    for rows, k in ((inputs, first), (hidden, second)):
        weights, biases = jax.random.split(k)
        layer = Linear(rows, outputs, initializer="zero", key=k)
        drawn = (
            jax.random.uniform(weights, (rows, outputs), minval=-limit, maxval=limit),
            jax.random.uniform(biases, (outputs,), minval=-limit, maxval=limit),
        )
        made.append(eqx.tree_at(lambda one: (one.weight, one.bias), layer, drawn))
    return made[0], made[1]


__all__ = ["GRU", "LSTM", "RNN", "Recurrent"]
