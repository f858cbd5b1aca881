"""Multi-head attention: of a sequence to itself, and to something else that was read before (Vaswani et al., 2017)."""

import functools
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.attention.cache import Cache
from chainrule.nn.attention.functions import Bias, gather
from chainrule.nn.attention.masks import Causal, Mask, Window, joined
from chainrule.nn.attention.mixing import Mixing, Softmax
from chainrule.nn.hooks import tap, wanted
from chainrule.nn.linear import Linear
from chainrule.nn.positions import Positions


@final
class SelfAttention(eqx.Module):
    """Multi-head self-attention over the time axis; queries, keys and values come from one matrix product.

    With `causal`, a position sees itself and what came before; with `window`, no further back than that. Heads may
    share keys and values in `groups`. `positions` is what the layer knows of order, `mixing` how values are mixed.

    >>> layer = SelfAttention(16, heads=4, causal=True, key=jax.random.key(0))
    >>> layer(jnp.zeros((2, 7, 16))).shape
    (2, 7, 16)
    """

    inward: Linear
    outward: Linear
    positions: Positions | None
    mixing: Mixing
    heads: int = eqx.field(static=True)
    groups: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True)
    window: int | None = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        groups: int | None = None,
        causal: bool = False,
        window: int | None = None,
        positions: Positions | None = None,
        mixing: Mixing | None = None,
        bias: bool = True,
        deviation: float | None = None,
        outward_deviation: float | None = None,
        key: Key,
    ) -> None:
        size = _size("SelfAttention", width, heads)
        self.groups = heads if groups is None else whole("SelfAttention", "groups", groups)
        if heads % self.groups:
            raise ArgumentError(f"SelfAttention(groups={groups}): {heads} heads cannot share evenly")
        if positions is not None:  # a head they cannot turn is refused when it is made, not when it is used
            jax.eval_shape(positions.turned, jnp.zeros((1, size)), jnp.zeros(1, jnp.int32))
        first, second = jax.random.split(key)
        self.inward = linear(width, (heads + 2 * self.groups) * size, deviation, bias, first)
        self.outward = linear(width, width, outward_deviation or deviation, bias, second)
        self.heads = heads
        self.causal = causal
        self.window = None if window is None else whole("SelfAttention", "window", window)
        self.positions = positions
        self.mixing = Softmax() if mixing is None else mixing

    def __call__(
        self,
        x: Float[Array, "*leading time width"],
        *,
        mask: Mask | None = None,
        dropout_key: Key | None = None,
    ) -> Float[Array, "*leading time width"]:
        """What every position gathers from those it sees."""
        flat = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
        query, key, value = self._projected(flat, jnp.arange(x.shape[-2]))
        out = _mixed(self.mixing, query, key, value, self._rules(mask), self._bias(), dropout_key)
        return self.outward(_merged(out)).reshape(x.shape)

    def weights(
        self, x: Float[Array, "batch time width"], *, mask: Mask | None = None
    ) -> Float[Array, "batch heads time time"]:
        """How much each position takes from each, in every head."""
        query, key, _ = self._projected(x, jnp.arange(x.shape[1]))
        return self.mixing.weights(query, key, mask=self._rules(mask), bias=self._bias())

    def cache(self, batch: int, room: int, *, rolling: bool = False) -> Cache:
        """What the layer remembers before the first of at most `room` tokens; rolling, of the last `room` of any."""
        if not self.causal:
            raise ArgumentError(
                "SelfAttention.cache: tokens seen one at a time must not see what comes after",
                remedy="make the layer with causal=True",
            )
        weight = self.outward.weight
        size = weight.shape[0] // self.heads
        return self.mixing.cache(
            batch, self.heads, self.groups, room, size, rolling=rolling, dtype=weight.dtype
        )

    def advance(
        self, x: Float[Array, "batch time width"], cache: Cache, *, mask: Mask | None = None
    ) -> tuple[Float[Array, "batch time width"], Cache]:
        """The next positions, after those in the cache; the same numbers as the whole sequence would give them."""
        query, key, value = self._projected(x, cache.position + jnp.arange(x.shape[1]))
        rules = joined(None if self.window is None else Window(self.window), mask)
        out, cache = self.mixing.advance(query, key, value, cache, mask=rules, bias=self._bias())
        return self.outward(_merged(tap(out, "z"))), cache

    def _projected(self, x: Array, positions: Int[Array, " time"]) -> tuple[Array, Array, Array]:
        size = x.shape[-1] // self.heads
        mixed = self.inward(x)
        cuts = (self.heads * size, (self.heads + self.groups) * size)
        query, key, value = (_split(part, size) for part in jnp.split(mixed, cuts, axis=-1))
        if self.positions is not None:
            query, key = self.positions.turned(query, positions), self.positions.turned(key, positions)
        return tap(query, "q"), tap(key, "k"), tap(value, "v")

    def _bias(self) -> Bias | None:
        if self.positions is None or not self.positions.biased:
            return None
        return functools.partial(self.positions.bias, self.heads)

    def _rules(self, mask: Mask | None) -> Mask | None:
        own = Causal() if self.causal else None
        ahead = 0 if self.causal or self.window is None else self.window - 1
        near = None if self.window is None else Window(self.window, ahead)
        return joined(joined(own, near), mask)


@final
class SourceMemory(eqx.Module):
    """Keys and values of something that was read before, ready for any number of queries."""

    keys: Float[Array, "batch heads source size"]
    values: Float[Array, "batch heads source size"]
    mask: Mask | None


@final
class CrossAttention(eqx.Module):
    """Multi-head attention to a source: queries come from one sequence, keys and values from another.

    >>> layer = CrossAttention(16, source=8, heads=4, key=jax.random.key(0))
    >>> memory = layer.remember(jnp.zeros((2, 5, 8)))  # once for each source
    >>> layer(jnp.zeros((2, 7, 16)), memory).shape
    (2, 7, 16)
    """

    query: Linear
    inward: Linear
    outward: Linear
    heads: int = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        *,
        source: int | None = None,
        heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        deviation: float | None = None,
        outward_deviation: float | None = None,
        key: Key,
    ) -> None:
        _size("CrossAttention", width, heads)
        keys = jax.random.split(key, 3)
        self.query = linear(width, width, deviation, bias, keys[0])
        inputs = width if source is None else whole("CrossAttention", "source", source)
        self.inward = linear(inputs, 2 * width, deviation, bias, keys[1])
        self.outward = linear(width, width, outward_deviation or deviation, bias, keys[2])
        self.heads = heads
        self.dropout = dropout

    def remember(
        self, source: Float[Array, "batch source features"], *, mask: Mask | None = None
    ) -> SourceMemory:
        """Keys and values of the source; the mask says which of its positions may be seen."""
        size = self.outward.weight.shape[0] // self.heads
        keys, values = (_split(part, size) for part in jnp.split(self.inward(source), 2, axis=-1))
        return SourceMemory(keys=tap(keys, "k"), values=tap(values, "v"), mask=mask)

    def __call__(
        self, x: Float[Array, "batch time width"], memory: SourceMemory, *, dropout_key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """What every position gathers from the source."""
        mix, query = Softmax(dropout=self.dropout), tap(self._query(x), "q")
        return self.outward(
            _merged(_mixed(mix, query, memory.keys, memory.values, memory.mask, None, dropout_key))
        )

    def weights(
        self, x: Float[Array, "batch time width"], memory: SourceMemory
    ) -> Float[Array, "batch heads time source"]:
        """How much each position takes from each of the source, in every head."""
        return Softmax().weights(self._query(x), memory.keys, mask=memory.mask)

    def _query(self, x: Array) -> Array:
        return _split(self.query(x), x.shape[-1] // self.heads)


def _mixed(
    mixing: Mixing,
    query: Array,
    key: Array,
    value: Array,
    mask: Mask | None,
    bias: Bias | None,
    dropout_key: Key | None,
) -> Array:
    """What each query gathers; by way of the whole table of weights only where somebody wants to see it."""
    if dropout_key is None and wanted("pattern"):
        weights = tap(mixing.weights(query, key, mask=mask, bias=bias), "pattern")
        return tap(gather(weights.astype(value.dtype), value), "z")
    return tap(mixing(query, key, value, mask=mask, bias=bias, dropout_key=dropout_key), "z")


def linear(inputs: int, outputs: int, deviation: float | None, bias: bool, key: Key) -> Linear:
    """Weights of a given standard deviation, or one that goes by the numbers of inputs and outputs."""
    if deviation is None:
        return Linear(inputs, outputs, initializer="xavier", bias=bias, key=key)
    return Linear(inputs, outputs, initializer="normal", gain=deviation, bias=bias, key=key)


def _size(where: str, width: int, heads: int) -> int:
    if whole(where, "width", width) % whole(where, "heads", heads):
        fitting = [count for count in range(1, min(width, 16) + 1) if width % count == 0]
        raise ArgumentError(
            f"{where}(heads={heads}): a width of {width} cannot be split evenly",
            remedy=f"use heads={', '.join(map(str, fitting))}, or a width that {heads} divides",
        )
    return width // heads


def _split(x: Array, size: int) -> Array:
    """(batch, time, heads * size) to (batch, heads, time, size)."""
    return x.reshape(*x.shape[:2], -1, size).swapaxes(1, 2)


def _merged(x: Array) -> Array:
    """(batch, heads, time, size) to (batch, time, heads * size)."""
    batch, heads, time, size = x.shape
    return x.swapaxes(1, 2).reshape(batch, time, heads * size)


__all__ = ["CrossAttention", "SelfAttention", "SourceMemory", "linear"]
