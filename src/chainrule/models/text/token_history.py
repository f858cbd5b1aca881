"""The decoding state of models without a cache: the tokens themselves.

It serves models that look back a fixed number of tokens, and any model at all as a reference without a cache.
"""

from typing import Self, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int
from chainrule.models.protocol import DecodingState


@final
class TokenHistory(DecodingState):
    """The tokens read so far, in a buffer of fixed size."""

    position: Int[Array, ""]
    tokens: Int[Array, "batch room"]
    """Zeros from `position` on."""

    @classmethod
    def blank(cls, batch: int, room: int) -> Self:
        """Nothing read yet."""
        return cls(jnp.zeros((), jnp.int32), jnp.zeros((batch, room), jnp.int32))

    def read(self, tokens: Int[Array, "batch time"]) -> Self:
        """The state after some more tokens, for which there must be room."""
        held = jax.lax.dynamic_update_slice_in_dim(
            self.tokens, tokens.astype(jnp.int32), self.position, axis=1
        )
        return type(self)(self.position + tokens.shape[1], held)

    def last(self, count: int, missing: int) -> Int[Array, "batch count"]:
        """The last `count` tokens, with `missing` in place of those before the first."""
        padded = jnp.pad(self.tokens, ((0, 0), (count, 0)), constant_values=missing)
        return jax.lax.dynamic_slice_in_dim(padded, self.position, count, axis=1)

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        return type(self)(self.position, self.tokens[rows])

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """The state after the first `position` tokens."""
        kept = jnp.arange(self.tokens.shape[1]) < position
        return type(self)(jnp.asarray(position, jnp.int32), jnp.where(kept[None, :], self.tokens, 0))


__all__ = ["TokenHistory"]
