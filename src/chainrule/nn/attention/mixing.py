"""Mixing of values by queries and keys: softmax attention, and linear attention by sums of features.

A mixing is what `SelfAttention` leaves open. It mixes a whole sequence at once, and it can go on token by token from
what it remembers.
"""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn.attention.cache import Cache, KeysAndValues
from chainrule.nn.attention.functions import Bias, Path, attend, attention_weights, gather
from chainrule.nn.attention.masks import Causal, Mask, Window, joined


class Mixing(eqx.Module):
    """Mixes values by queries and keys, each of shape (batch, heads, time, size)."""

    @abc.abstractmethod
    def __call__(
        self,
        query: Float[Array, "batch heads queries size"],
        key: Float[Array, "batch groups keys size"],
        value: Float[Array, "batch groups keys size"],
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
        dropout_key: Key | None = None,
    ) -> Float[Array, "batch heads queries size"]:
        """What each query gathers; weights are dropped only when there is a key for it."""

    @abc.abstractmethod
    def weights(
        self,
        query: Float[Array, "batch heads queries size"],
        key: Float[Array, "batch groups keys size"],
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
    ) -> Float[Array, "batch heads queries keys"]:
        """The weights by which values are mixed; the whole table, so meant for looking at."""

    @abc.abstractmethod
    def cache(
        self, batch: int, heads: int, groups: int, room: int, size: int, *, rolling: bool, dtype: jnp.dtype
    ) -> Cache:
        """What it remembers before the first token."""

    @abc.abstractmethod
    def advance(
        self,
        query: Float[Array, "batch heads time size"],
        key: Float[Array, "batch groups time size"],
        value: Float[Array, "batch groups time size"],
        cache: Cache,
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
    ) -> tuple[Float[Array, "batch heads time size"], Cache]:
        """What each new token gathers from those before it and itself, and the cache with the new ones in it."""


@final
class Softmax(Mixing):
    """Means weighted by the softmax of scaled inner products: what attention is unless said otherwise."""

    path: Path = eqx.field(static=True, default="auto")
    dropout: float = eqx.field(static=True, default=0.0)
    scale: float | None = eqx.field(static=True, default=None)

    def __call__(
        self,
        query: Float[Array, "batch heads queries size"],
        key: Float[Array, "batch groups keys size"],
        value: Float[Array, "batch groups keys size"],
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
        dropout_key: Key | None = None,
    ) -> Float[Array, "batch heads queries size"]:
        return attend(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            scale=self.scale,
            path=self.path,
            dropout=self.dropout,
            dropout_key=dropout_key,
        )

    def weights(
        self,
        query: Float[Array, "batch heads queries size"],
        key: Float[Array, "batch groups keys size"],
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
    ) -> Float[Array, "batch heads queries keys"]:
        return attention_weights(query, key, mask=mask, bias=bias, scale=self.scale)

    def cache(
        self, batch: int, heads: int, groups: int, room: int, size: int, *, rolling: bool, dtype: jnp.dtype
    ) -> Cache:
        del heads
        return KeysAndValues.empty(batch, groups, room, size, rolling=rolling, dtype=dtype)

    def advance(
        self,
        query: Float[Array, "batch heads time size"],
        key: Float[Array, "batch groups time size"],
        value: Float[Array, "batch groups time size"],
        cache: Cache,
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
    ) -> tuple[Float[Array, "batch heads time size"], Cache]:
        assert isinstance(cache, KeysAndValues)
        time = query.shape[2]
        queries = cache.position + jnp.arange(time)
        after = cache.written(key, value)
        keys, values, positions = after.keys, after.values, after.positions()
        if cache.rolling and time > 1:
            # The last of these tokens overwrite what the first may still see.
            keys = jnp.concatenate([cache.keys, key.astype(cache.keys.dtype)], axis=2)
            values = jnp.concatenate([cache.values, value.astype(cache.values.dtype)], axis=2)
            positions = jnp.concatenate([cache.positions(), queries])
        rules = joined(joined(Causal() & _Written(), Window(cache.room) if cache.rolling else None), mask)
        weights = attention_weights(
            query, keys.astype(query.dtype), mask=rules, bias=bias, scale=self.scale, at=(queries, positions)
        )
        return gather(weights.astype(value.dtype), values.astype(value.dtype)), after


@final
class _Written(Mask):
    """Slots that hold something."""

    def seen(self, queries: Array, keys: Array) -> Array:
        del queries
        return (keys >= 0)[None, :]


__all__ = ["Mixing", "Softmax"]
