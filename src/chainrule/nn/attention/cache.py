"""Caches of attention for decoding token by token, in buffers whose shapes never change.

A step of decoding writes one key and one value and reads the buffer; its cost is set by the room, not by how far the
text has come. A rolling buffer overwrites its oldest entries: that is attention through a window, not attention to the
last part of the text read anew, because the keys of deeper layers have already seen what is gone.
"""

import abc
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Int


class Cache(eqx.Module):
    """What one layer remembers; `position` counts the tokens read, the same for the whole batch."""

    position: eqx.AbstractVar[Int[Array, ""]]

    @abc.abstractmethod
    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """Rows of the batch, repeated or reordered: what beams need."""

    @abc.abstractmethod
    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """Forget everything after a position."""


@final
class KeysAndValues(Cache):
    """Keys and values of the tokens read so far, and room for more."""

    keys: Float[Array, "batch groups room size"]
    values: Float[Array, "batch groups room outputs"]
    position: Int[Array, ""]
    rolling: bool = eqx.field(static=True)

    @classmethod
    def empty(
        cls,
        batch: int,
        groups: int,
        room: int,
        size: int,
        *,
        rolling: bool = False,
        dtype: jnp.dtype | None = None,
    ) -> Self:
        """Room for so many tokens; with `rolling`, for the last so many."""
        blank = jnp.zeros((batch, groups, room, size), jnp.result_type(float) if dtype is None else dtype)
        return cls(keys=blank, values=blank, position=jnp.zeros((), jnp.int32), rolling=rolling)

    @property
    def room(self) -> int:
        """How many tokens fit."""
        return self.keys.shape[2]

    def positions(self) -> Int[Array, " room"]:
        """The position of what each slot holds; negative where it holds nothing yet."""
        slots = jnp.arange(self.room)
        if not self.rolling:
            return jnp.where(slots < self.position, slots, -1)
        return self.position - 1 - (self.position - 1 - slots) % self.room

    def written(
        self, keys: Float[Array, "batch groups time size"], values: Float[Array, "batch groups time outputs"]
    ) -> Self:
        """The cache after so many further tokens. A text that does not fit is an error where that can be seen."""
        time = keys.shape[2]
        if self.rolling:
            kept = min(time, self.room)
            slots = (self.position + jnp.arange(time - kept, time)) % self.room
            new = [
                buffer.at[:, :, slots].set(x[:, :, time - kept :].astype(buffer.dtype), unique_indices=True)
                for buffer, x in ((self.keys, keys), (self.values, values))
            ]
        else:
            known = 0 if isinstance(self.position, jax.core.Tracer) else int(self.position)
            if known + time > self.room:
                raise ArgumentError(
                    f"a cache with room for {self.room} tokens holds {known}; {time} more do not fit",
                    remedy="start it with more room",
                )
            new = [
                jax.lax.dynamic_update_slice_in_dim(buffer, x.astype(buffer.dtype), self.position, axis=2)
                for buffer, x in ((self.keys, keys), (self.values, values))
            ]
        return type(self)(keys=new[0], values=new[1], position=self.position + time, rolling=self.rolling)

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        return eqx.tree_at(lambda one: (one.keys, one.values), self, (self.keys[rows], self.values[rows]))

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        if self.rolling:
            raise CapabilityError(
                "a rolling cache has overwritten what it would go back to",
                remedy="start again and read the text up to that position",
            )
        return eqx.tree_at(lambda one: one.position, self, jnp.asarray(position, jnp.int32))


__all__ = ["Cache", "KeysAndValues"]
