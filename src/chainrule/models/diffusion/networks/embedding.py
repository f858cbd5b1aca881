"""What a network is told beside the noisy data: the noise level, and perhaps a condition in one of four ways.

The level comes as waves over lam, from slow ones that tell noise from data to fast ones for detail. A condition is
added to it (`film`: both scale and shift the features), stands beside the input (`concatenate`), multiplies the first
features (`multiply`), or is attended to token by token (`attention`).
"""

import math
from typing import Any, Literal, NamedTuple, TypeAlias, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.networks.conditions import (
    MakeReader,
    PictureReader,
    Reader,
    TextReader,
    TokenReader,
)
from chainrule.nn import Linear
from chainrule.nn.attention import CrossAttention, Padding

FEATURES = 64
BESIDE = 16
"""Channels that a condition without a shape of its own fills beside the input."""

Inject: TypeAlias = Literal["auto", "film", "concatenate", "multiply", "attention"]
"""How a condition enters; `auto` lets a picture stand beside the noisy one, attends to the tokens of a text where the
network has places, and scales and shifts the features otherwise."""


def waves(lam: Float[Array, " batch"]) -> Float[Array, "batch features"]:
    """Sines and cosines of lam at 32 frequencies between 1/32 and 4.

    >>> waves(jnp.zeros(2)).shape
    (2, 64)
    """
    frequencies = jnp.exp2(jnp.linspace(-5.0, 2.0, FEATURES // 2)).astype(lam.dtype)
    angles = lam[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


class Told(NamedTuple):
    """What the layers of a network are told."""

    vector: Float[Array, "batch width"]
    """Scales and shifts the features."""
    beside: Float[Array, "batch *place channels"] | None = None
    """Stands beside the input: for every place of a picture, or the same for all."""
    factor: Float[Array, "batch features"] | None = None
    """Multiplies the first features, plus one."""
    tokens: Float[Array, "batch tokens width"] | None = None
    seen: Bool[Array, "batch tokens"] | None = None
    """Which tokens are there to be attended to."""
    looks: list[Array] | None = None
    """Where given, every layer that attends to the tokens leaves here how much each place took from each."""

    def widened(self, x: Float[Array, "batch *place channels"]) -> Float[Array, "batch *place more"]:
        """The input with what stands beside it; a smaller picture is padded below and on the right."""
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

    def scaled(self, h: Float[Array, "batch *place features"]) -> Float[Array, "batch *place features"]:
        """The first features, multiplied."""
        if self.factor is None:
            return h
        return h * (1 + self.factor.astype(h.dtype)).reshape(len(h), *(1,) * (h.ndim - 2), -1)


@final
class Context(eqx.Module):
    """Two dense layers over the waves of lam, and a reader of conditions."""

    level: tuple[Linear, Linear]
    reader: Reader | None
    beside: Linear | None
    factor: Linear | None
    inject: str = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        features: int,
        read: MakeReader | None,
        inject: Inject,
        key: Key,
        *,
        places: bool = True,
    ) -> None:
        """`features` are those of the first layer of the network, `places` is whether it has any that could attend."""
        check_choice("network", "inject", inject, get_args(Inject))
        one, two, three = jax.random.split(key, 3)
        self.level = (
            Linear(FEATURES, width, key=one, gain=math.sqrt(2)),
            Linear(width, width, key=two),
        )
        self.reader = None if read is None else read(width, three)
        self.inject = _usual(self.reader, places) if inject == "auto" else inject
        enters = None if read is None else self.inject
        if enters == "attention" and not places:
            raise ArgumentError(
                "inject=attention: a dense network has no places that could attend",
                remedy="use denoiser=unet or dit, or inject=film",
            )
        flat = enters == "concatenate" and not isinstance(self.reader, PictureReader)
        self.beside = Linear(width, BESIDE, key=jax.random.fold_in(three, 1)) if flat else None
        multiplies = enters == "multiply"
        self.factor = Linear(width, features, key=three, initializer="zero") if multiplies else None

    @property
    def added(self) -> int:
        """Channels that stand beside the input."""
        if self.reader is None or self.inject != "concatenate":
            return 0
        return self.reader.shape[-1] + 1 if isinstance(self.reader, PictureReader) else BESIDE

    @property
    def source(self) -> int | None:
        """Width of the tokens to attend to, where there are any."""
        attends = self.reader is not None and self.inject == "attention"
        return self.level[1].weight.shape[1] if attends else None

    def __call__(self, lam: Array, condition: Any, count: int, looks: list[Array] | None = None) -> Told:
        """What each of `count` examples is told; no condition says nothing."""
        first, second = self.level
        c = second(jax.nn.silu(first(waves(jnp.broadcast_to(lam, (count,))))))
        if self.reader is None:
            return Told(jax.nn.silu(c))
        given = self.reader.nothing(count) if condition is None else jnp.asarray(condition)
        found = self.reader(jnp.broadcast_to(given, (count,)) if given.ndim == 0 else given)
        if self.inject == "film":
            return Told(jax.nn.silu(c + found.summary))
        told = Told(jax.nn.silu(c), looks=looks)
        if self.inject == "attention":
            return told._replace(tokens=found.tokens, seen=found.seen)
        if self.factor is not None:
            return told._replace(factor=self.factor(jax.nn.silu(found.summary)))
        beside = found.picture if self.beside is None else self.beside(jax.nn.silu(found.summary))
        return told._replace(beside=beside)


def _usual(reader: Reader | None, places: bool) -> Inject:
    if isinstance(reader, PictureReader):
        return "concatenate"
    return "attention" if isinstance(reader, TextReader | TokenReader) and places else "film"


@final
class Attending(eqx.Module):
    """`gate attention(h, tokens)`: what every place gathers from the tokens of a condition; the gate starts at zero."""

    attention: CrossAttention
    gate: Float[Array, " channels"]

    def __init__(self, channels: int, source: int, key: Key) -> None:
        self.attention = CrossAttention(channels, source=source, heads=max(1, channels // 64), key=key)
        self.gate = jnp.zeros(channels)

    def __call__(self, h: Float[Array, "batch *grid channels"], told: Told) -> Array:
        """What is to be added to the features `h`, which come normalised."""
        assert told.tokens is not None
        assert told.seen is not None
        flat = h.reshape(len(h), -1, h.shape[-1])
        memory = self.attention.remember(told.tokens, mask=Padding(told.seen))
        if told.looks is not None:
            weights = jnp.moveaxis(self.attention.weights(flat, memory), 1, 2)
            told.looks.append(weights.reshape(*h.shape[:-1], *weights.shape[2:]))
        gathered = self.attention(flat, memory).astype(h.dtype)
        return (self.gate.astype(h.dtype)[None, None] * gathered).reshape(h.shape)


__all__ = ["BESIDE", "FEATURES", "Attending", "Context", "Inject", "Told", "waves"]
