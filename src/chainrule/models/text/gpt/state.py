"""The state of decoding with keys and values cached, and positions of tokens in packed documents."""

from typing import Self, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int
from chainrule.models.protocol import DecodingState
from chainrule.nn.attention import Cache


@final
class GPTState(DecodingState):
    """What every block remembers of the tokens read so far."""

    position: Int[Array, ""]
    caches: tuple[Cache, ...]
    padding: Int[Array, " batch"] | None = None
    """How many of the first tokens of each row are padding."""

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The memory of these rows."""
        padding = None if self.padding is None else self.padding[rows]
        return type(self)(self.position, tuple(cache.fork(rows) for cache in self.caches), padding)

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """The memory as it was after the first `position` tokens."""
        moved = tuple(cache.rewind(position) for cache in self.caches)
        return type(self)(jnp.asarray(position, jnp.int32), moved, self.padding)


def restarted(documents: Int[Array, "batch time"]) -> Int[Array, "batch time"]:
    """The position of each token in its own document.

    >>> restarted(jnp.array([[0, 0, 0, 1, 1, -1]])).tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    first = jnp.diff(documents, axis=1, prepend=documents[:, :1] - 1) != 0
    time = jnp.broadcast_to(jnp.arange(documents.shape[1])[None, :], documents.shape)
    return time - jax.lax.cummax(jnp.where(first, time, 0), axis=1)


__all__ = ["GPTState", "restarted"]
