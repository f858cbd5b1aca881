"""What reads events: recurrent layers, or a transformer that knows how far apart they are; both go on from a state."""

import abc
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol import DecodingState
from chainrule.nn import Linear, RMSNorm, Stack, TransformerBlock
from chainrule.nn.attention import Cache
from chainrule.nn.positions import Rotary


class EventReader(eqx.Module):
    """Reads vectors of events one after the other."""

    @abc.abstractmethod
    def __call__(
        self, x: Float[Array, "batch time inputs"], key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """Features after each event; a key switches dropout on."""

    @abc.abstractmethod
    def start(self, batch: int, room: int) -> Any:
        """What is remembered before the first event, with room for so many."""

    @abc.abstractmethod
    def advance(
        self, x: Float[Array, "batch time inputs"], memory: Any
    ) -> tuple[Float[Array, "batch time width"], Any]:
        """Features after each of some more events, and what is remembered then."""


@final
class RecurrentReader(EventReader):
    """LSTM layers on top of each other."""

    layers: Stack

    def __init__(self, inputs: int, width: int, depth: int, dropout: float, key: Key) -> None:
        self.layers = Stack(
            inputs, width, depth=depth, cell="lstm", dropout=dropout, recurrent_bias=False, key=key
        )

    def __call__(
        self, x: Float[Array, "batch time inputs"], key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """From a blank state."""
        return self.layers(x, key=key)[0]

    def start(self, batch: int, room: int) -> Any:
        """Blank states; there is room for any number of events."""
        del room
        return self.layers.initial((batch,))

    def advance(
        self, x: Float[Array, "batch time inputs"], memory: Any
    ) -> tuple[Float[Array, "batch time width"], Any]:
        """On from these states."""
        return self.layers(x, memory)


@final
class AttentiveReader(EventReader):
    """Blocks of causal attention that is relative: queries and keys are turned, so that only distances count."""

    embed: Linear
    blocks: tuple[TransformerBlock, ...]
    norm: RMSNorm

    def __init__(self, inputs: int, width: int, depth: int, heads: int, dropout: float, key: Key) -> None:
        first, *keys = jax.random.split(key, depth + 1)
        self.embed = Linear(inputs, width, bias=False, key=first)
        self.blocks = tuple(
            TransformerBlock(
                width,
                heads=heads,
                causal=True,
                positions=Rotary(),
                norm="rms",
                activation="swiglu",
                bias=False,
                dropout=dropout,
                layers=depth,
                key=own,
            )
            for own in keys
        )
        self.norm = RMSNorm(width)

    def __call__(
        self, x: Float[Array, "batch time inputs"], key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """All events at once."""
        h = self.embed(x)
        for number, block in enumerate(self.blocks):
            h = block(h, dropout_key=None if key is None else jax.random.fold_in(key, number))
        return self.norm(h)

    def start(self, batch: int, room: int) -> Any:
        """Empty caches."""
        return tuple(block.cache(batch, room) for block in self.blocks)

    def advance(
        self, x: Float[Array, "batch time inputs"], memory: Any
    ) -> tuple[Float[Array, "batch time width"], Any]:
        """With keys and values of what came before in the caches."""
        h, after = self.embed(x), []
        for block, cache in zip(self.blocks, memory, strict=True):
            h, moved = block.advance(h, cache)
            after.append(moved)
        return self.norm(h), tuple(after)


@final
class MusicState(DecodingState):
    """What was read so far, and what goes with every event."""

    position: Int[Array, ""]
    memory: Any
    beside: Float[Array, "batch numbers"]

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        memory = jax.tree.map(
            lambda one: one.fork(rows) if isinstance(one, Cache) else one[rows],
            self.memory,
            is_leaf=lambda one: isinstance(one, Cache),
        )
        return type(self)(self.position, memory, self.beside[rows])

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """Refused: earlier states are not kept."""
        raise CapabilityError(
            f"rewind({position}): a model of music does not keep its earlier states",
            remedy="read the events again",
        )


def one_hot(x: Int[Array, "batch time"], count: int, like: Array) -> Float[Array, "batch time count"]:
    """Zeros and a one for each number; all zeros for -1, which stands for nothing."""
    return jax.nn.one_hot(x, count, dtype=jnp.promote_types(like.dtype, jnp.bfloat16))


__all__ = ["AttentiveReader", "EventReader", "MusicState", "RecurrentReader", "one_hot"]
