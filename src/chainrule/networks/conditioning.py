"""Conditioning of networks on a level (of noise, of time) and perhaps on a condition, in one of four ways.

The level comes as sines and cosines, from slow ones that tell much from little to fast ones for detail. A condition is
added to it (`film`: both scale and shift the features; Perez et al., 2018), stands beside the input (`concatenate`),
multiplies the first features (`multiply`), or is attended to token by token (`attention`).
"""

import abc
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.networks.conditions import (
    ConditionEncoder,
    ImageEncoder,
    MakeConditionEncoder,
    TextEncoder,
    TokenSequenceEncoder,
)
from chainrule.nn import Linear
from chainrule.nn.attention import CrossAttention, Padding

FEATURES = 64
BESIDE = 16
"""Channels that a condition without a shape of its own fills beside the input."""

Inject: TypeAlias = Literal["auto", "film", "concatenate", "multiply", "attention"]
"""How a condition enters; `auto` lets an image stand beside the input, attends to the tokens of a text where the
network has positions, and scales and shifts the features otherwise."""


def fourier_features(level: Float[Array, " batch"]) -> Float[Array, "batch features"]:
    """Sines and cosines of a level at 32 frequencies between 1/32 and 4.

    >>> fourier_features(jnp.zeros(2)).shape
    (2, 64)
    """
    frequencies = jnp.exp2(jnp.linspace(-5.0, 2.0, FEATURES // 2)).astype(level.dtype)
    angles = level[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


class Conditioning(NamedTuple):
    """What the layers of a network are given beside the input."""

    vector: Float[Array, "batch width"]
    """Scales and shifts the features."""
    beside: Float[Array, "batch *positions channels"] | None = None
    """Stands beside the input: for every position of an image, or the same for all."""
    factor: Float[Array, "batch features"] | None = None
    """Multiplies the first features, plus one."""
    tokens: Float[Array, "batch tokens width"] | None = None
    seen: Bool[Array, "batch tokens"] | None = None
    """Which tokens are there to be attended to."""
    keep_maps: bool = False
    """Whether layers that attend to the tokens return how much each position took from each."""

    def widened(self, x: Float[Array, "batch *positions channels"]) -> Float[Array, "batch *positions more"]:
        """The input with what stands beside it; a smaller image is padded below and on the right."""
        if self.beside is None:
            return x
        beside = self.beside.astype(x.dtype)
        if beside.ndim == 4:
            down, right = (n - m for n, m in zip(x.shape[1:3], beside.shape[1:3], strict=True))
            beside = jnp.pad(beside, ((0, 0), (0, down), (0, right), (0, 0)))
        else:
            beside = beside.reshape(len(x), *(1,) * (x.ndim - 2), -1)
            beside = jnp.broadcast_to(beside, (*x.shape[:-1], beside.shape[-1]))
        return jnp.concatenate([x, beside], axis=-1)

    def scaled(
        self, h: Float[Array, "batch *positions features"]
    ) -> Float[Array, "batch *positions features"]:
        """The first features, multiplied."""
        if self.factor is None:
            return h
        return h * (1 + self.factor.astype(h.dtype)).reshape(len(h), *(1,) * (h.ndim - 2), -1)


@final
class ConditionEmbedding(eqx.Module):
    """Two dense layers over the Fourier features of the level, and an encoder of conditions."""

    level: tuple[Linear, Linear]
    condition: ConditionEncoder | None
    beside: Linear | None
    factor: Linear | None
    inject: str = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        features: int,
        read: MakeConditionEncoder | None,
        inject: Inject,
        key: Key,
        *,
        positions: bool = True,
    ) -> None:
        """`features` are those of the network's first layer, `positions` is whether it has any that could attend."""
        check_choice("network", "inject", inject, get_args(Inject))
        one, two, three = jax.random.split(key, 3)
        self.level = (
            Linear(FEATURES, width, key=one, gain=math.sqrt(2)),
            Linear(width, width, key=two),
        )
        self.condition = None if read is None else read(width, three)
        self.inject = _default_injection(self.condition, positions) if inject == "auto" else inject
        enters = None if read is None else self.inject
        if enters == "attention" and not positions:
            raise ArgumentError(
                "inject=attention: a dense network has no positions that could attend",
                remedy="use denoiser=unet or dit, or inject=film",
            )
        flat = enters == "concatenate" and not isinstance(self.condition, ImageEncoder)
        self.beside = Linear(width, BESIDE, key=jax.random.fold_in(three, 1)) if flat else None
        multiplies = enters == "multiply"
        self.factor = Linear(width, features, key=three, initializer="zero") if multiplies else None

    @property
    def added(self) -> int:
        """Channels that stand beside the input."""
        if self.condition is None or self.inject != "concatenate":
            return 0
        return self.condition.shape[-1] + 1 if isinstance(self.condition, ImageEncoder) else BESIDE

    @property
    def source(self) -> int | None:
        """Width of the tokens to attend to, where there are any."""
        attends = self.condition is not None and self.inject == "attention"
        return self.level[1].weight.shape[1] if attends else None

    def __call__(self, level: Array, condition: Any, count: int, *, keep_maps: bool = False) -> Conditioning:
        """What is given with each of `count` examples; no condition says nothing."""
        first, second = self.level
        c = second(jax.nn.silu(first(fourier_features(jnp.broadcast_to(level, (count,))))))
        if self.condition is None:
            return Conditioning(jax.nn.silu(c))
        given = self.condition.null(count) if condition is None else jnp.asarray(condition)
        found = self.condition(jnp.broadcast_to(given, (count,)) if given.ndim == 0 else given)
        if self.inject == "film":
            return Conditioning(jax.nn.silu(c + found.summary))
        given_with = Conditioning(jax.nn.silu(c), keep_maps=keep_maps)
        if self.inject == "attention":
            return given_with._replace(tokens=found.tokens, seen=found.seen)
        if self.factor is not None:
            return given_with._replace(factor=self.factor(jax.nn.silu(found.summary)))
        beside = found.image if self.beside is None else self.beside(jax.nn.silu(found.summary))
        return given_with._replace(beside=beside)


def _default_injection(encoder: ConditionEncoder | None, positions: bool) -> Inject:
    if isinstance(encoder, ImageEncoder):
        return "concatenate"
    attends = isinstance(encoder, TextEncoder | TokenSequenceEncoder) and positions
    return "attention" if attends else "film"


Maps: TypeAlias = tuple[Float[Array, "batch *grid heads tokens"], ...]
"""How much every position takes from every token, for each layer that attends; empty unless they are kept."""


@final
class TokenAttention(eqx.Module):
    """`gate attention(h, tokens)`: cross-attention to the tokens of a condition; the gate starts at zero."""

    attention: CrossAttention
    gate: Float[Array, " channels"]

    def __init__(self, channels: int, source: int, key: Key) -> None:
        self.attention = CrossAttention(channels, source=source, heads=max(1, channels // 64), key=key)
        self.gate = jnp.zeros(channels)

    def __call__(self, h: Float[Array, "batch *grid channels"], c: Conditioning) -> tuple[Array, Maps]:
        """What is to be added to the features `h`, which come normalised, and the map of this layer if it is kept."""
        assert c.tokens is not None
        assert c.seen is not None
        flat = h.reshape(len(h), -1, h.shape[-1])
        memory = self.attention.remember(c.tokens, mask=Padding(c.seen))
        maps: Maps = ()
        if c.keep_maps:
            weights = jnp.moveaxis(self.attention.weights(flat, memory), 1, 2)
            maps = (weights.reshape(*h.shape[:-1], *weights.shape[2:]),)
        gathered = self.attention(flat, memory).astype(h.dtype)
        return (self.gate.astype(h.dtype)[None, None] * gathered).reshape(h.shape), maps


class ConditionedNetwork(eqx.Module):
    """A network from batches to batches of the same shape, given a level and perhaps a condition."""

    embedding: eqx.AbstractVar[ConditionEmbedding]

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "batch ..."], level: Array, condition: Any = None) -> Array:
        """The output for each example; `level` is one number for all, or one for each. No condition: all data."""

    def attention_maps(
        self, x: Float[Array, "batch ..."], level: Array, condition: Any
    ) -> Sequence[Float[Array, "batch rows columns heads tokens"]]:
        """Default: nothing, for a network without attention to the tokens of a condition.

        Otherwise, for each layer of such attention, how much every position takes from every token. The first token
        stands for the condition as a whole.
        """
        del x, level, condition
        return ()


__all__ = [
    "BESIDE",
    "FEATURES",
    "ConditionEmbedding",
    "ConditionedNetwork",
    "Conditioning",
    "Inject",
    "Maps",
    "TokenAttention",
    "fourier_features",
]
