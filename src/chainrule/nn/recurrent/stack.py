"""Recurrent layers on top of each other, and in both directions."""

from collections.abc import Callable
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import CapabilityError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.dropout import Dropout
from chainrule.nn.recurrent.layers import GRU, LSTM, RNN, Recurrent
from chainrule.nn.recurrent.sequence_layer import Carried, SequenceLayer

_LAYERS: dict[str, Callable[..., Recurrent]] = {"rnn": RNN, "gru": GRU, "lstm": LSTM}


@final
class Bidirectional(SequenceLayer):
    """Two layers, one of which reads each sequence from its end (Schuster and Paliwal, 1997); outputs side by side.

    What it puts out at a step depends on all later ones, so it can describe a sequence but not write one.
    """

    forward: Recurrent
    backward: Recurrent

    @property
    def outputs(self) -> int:
        """Units of both layers."""
        return self.forward.outputs + self.backward.outputs

    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype | None = None) -> Carried:
        """The states before the first step of both."""
        return self.forward.initial(leading, dtype), self.backward.initial(leading, dtype)

    def __call__(
        self,
        x: Float[Array, "*leading time inputs"],
        states: Carried | None = None,
        *,
        lengths: Int[Array, "*leading"] | None = None,
        segment: int | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*leading time outputs"], Carried]:
        """Outputs of both at every step, and the states after the last each has read.

        Raises `CapabilityError` for `states`: what was read before cannot be carried on, because the backward layer
        would have to start where the sequence will end.
        """
        if states is not None:
            raise CapabilityError(
                "a bidirectional layer cannot read on: its backward half starts where the sequence ends",
                remedy="give it whole sequences, or use layers in one direction to write",
            )
        ahead, after = self.forward(x, lengths=lengths, segment=segment, key=key)
        back, before = self.backward(_reversed(x, lengths), lengths=lengths, segment=segment, key=key)
        return jnp.concatenate([ahead, _reversed(back, lengths)], axis=-1), (after, before)


@final
class Stack(SequenceLayer):
    """Layers on top of each other, `h(l, t) = f(h(l, t-1), h(l-1, t))`, with dropout between them.

    >>> stack = Stack(3, 5, depth=2, cell="gru", key=jax.random.key(0))
    >>> out, states = stack(jnp.zeros((4, 7, 3)))
    >>> out.shape, len(states)
    ((4, 7, 5), 2)
    """

    layers: tuple[Recurrent | Bidirectional, ...]
    dropout: Dropout

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        depth: int = 1,
        cell: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        initializer: str = "xavier",
        recurrent_initializer: str | None = None,
        recurrent_bias: bool = True,
        key: Key,
    ) -> None:
        check_choice("Stack", "cell", cell, _LAYERS)
        depth = whole("Stack", "depth", depth)

        def layer(inputs: int, key: Key) -> Recurrent:
            return _LAYERS[cell](
                inputs,
                hidden,
                initializer=initializer,
                recurrent_initializer=recurrent_initializer,
                recurrent_bias=recurrent_bias,
                key=key,
            )

        layers: list[Recurrent | Bidirectional] = []
        for k in jax.random.split(key, depth):
            if bidirectional:
                ahead, back = jax.random.split(k)
                layers.append(Bidirectional(layer(inputs, ahead), layer(inputs, back)))
            else:
                layers.append(layer(inputs, k))
            inputs = layers[-1].outputs
        self.layers = tuple(layers)
        self.dropout = Dropout(dropout)

    @property
    def outputs(self) -> int:
        """Those of the last layer."""
        return self.layers[-1].outputs

    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype | None = None) -> Carried:
        """The states of every layer before the first step."""
        return tuple(layer.initial(leading, dtype) for layer in self.layers)

    def __call__(
        self,
        x: Float[Array, "*leading time inputs"],
        states: Carried | None = None,
        *,
        lengths: Int[Array, "*leading"] | None = None,
        segment: int | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*leading time outputs"], Carried]:
        """Outputs of the last layer at every step, and the states of every layer after the last step."""
        after = []
        for number, layer in enumerate(self.layers):
            if number and key is not None:
                x = self.dropout(x, jax.random.fold_in(key, number))
            before = None if states is None else states[number]
            x, last = layer(x, before, lengths=lengths, segment=segment, key=key)
            after.append(last)
        return x, tuple(after)

    def inputs(
        self, x: Float[Array, "*leading time inputs"]
    ) -> list[tuple[Recurrent, Float[Array, "*leading time features"]]]:
        """Every layer with what it reads, without dropout; both directions of a layer are two, in their own order."""
        found: list[tuple[Recurrent, Array]] = []
        for layer in self.layers:
            if isinstance(layer, Bidirectional):
                found += [(layer.forward, x), (layer.backward, jnp.flip(x, axis=-2))]
            else:
                found.append((layer, x))
            x, _ = layer(x)
        return found


def _reversed(x: Array, lengths: Array | None) -> Array:
    """Each sequence from its end, padding left where it is."""
    if lengths is None:
        return jnp.flip(x, axis=-2)
    steps = jnp.arange(x.shape[-2]).reshape((1,) * lengths.ndim + (-1,))
    ends = lengths[..., None]
    index = jnp.where(steps < ends, ends - 1 - steps, steps)
    return jnp.take_along_axis(x, index[..., None], axis=-2)


__all__ = ["Bidirectional", "Stack"]
