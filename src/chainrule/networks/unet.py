"""U-Net (Ronneberger et al., 2015): an encoder that halves and widens, a decoder that doubles, skips between them.

Residual blocks of two 3x3 convolutions, whose channels a level and a condition scale and shift (Ho et al., 2020;
Dhariwal and Nichol, 2021); self-attention, and attention to the tokens of a condition, where the grid is small. Sines
and cosines of the input give a network the fine structure of data with few levels, which a good likelihood needs
(Kingma et al., 2021).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.conditioning import (
    ConditionedNetwork,
    ConditionEmbedding,
    Conditioning,
    Inject,
    Maps,
    TokenAttention,
)
from chainrule.networks.conditions import MakeConditionEncoder, check_image_condition
from chainrule.nn import Conv, GroupNorm, Linear, SelfAttention, upsample

ATTENTION = 16
"""Attention is used on grids of up to this many rows and columns."""

_Map = Float[Array, "batch _ _ _"]
_Vector = Float[Array, "batch _"]


@final
class UNetBlock(eqx.Module):
    """`skip(x) + conv(silu(film(norm(conv(silu(norm(x)))))))`; the second convolution starts at zero."""

    norms: tuple[GroupNorm, GroupNorm]
    convs: tuple[Conv, Conv]
    film: Linear
    skip: Conv | None

    def __init__(self, inputs: int, outputs: int, condition: int, key: Key) -> None:
        keys = jax.random.split(key, 4)
        self.norms = (group_norm(inputs), group_norm(outputs))
        self.convs = (
            Conv(2, inputs, outputs, 3, padding=1, gain=math.sqrt(2), key=keys[0]),
            Conv(2, outputs, outputs, 3, padding=1, initializer="zero", key=keys[1]),
        )
        self.film = Linear(condition, 2 * outputs, key=keys[2], initializer="zero")
        self.skip = None if inputs == outputs else Conv(2, inputs, outputs, 1, key=keys[3])

    def __call__(self, x: _Map, c: _Vector) -> _Map:
        """The features, moved on under the condition `c`."""
        h = self.convs[0](self.norms[0](x, activation="silu"))
        scale, shift = jnp.split(self.film(c), 2, axis=-1)
        h = self.convs[1](self.norms[1](h, (scale, shift), "silu"))
        return (x if self.skip is None else self.skip(x)) + h


@final
class AttentionBlock(eqx.Module):
    """`x + gate attention(norm(x))` over all positions of the grid; the gate starts at zero."""

    norm: GroupNorm
    attention: SelfAttention
    gate: Float[Array, " channels"]

    def __init__(self, channels: int, key: Key) -> None:
        self.norm = group_norm(channels)
        self.attention = SelfAttention(channels, heads=max(1, channels // 64), key=key)
        self.gate = jnp.zeros(channels)

    def __call__(self, x: _Map) -> _Map:
        """What every position gathers from the others."""
        flat = self.norm(x).reshape(len(x), -1, x.shape[-1])
        return x + self.gate.astype(x.dtype)[None, None, None] * self.attention(flat).reshape(x.shape)


@final
class CrossBlock(eqx.Module):
    """`x + attention(norm(x), tokens)`: every position of the grid gathers from the tokens of a condition."""

    norm: GroupNorm
    cross: TokenAttention

    def __init__(self, channels: int, source: int, key: Key) -> None:
        self.norm, self.cross = group_norm(channels), TokenAttention(channels, source, key)

    def __call__(self, x: _Map, c: Conditioning) -> tuple[_Map, Maps]:
        """The features with what the condition says of each position, and the attention map if it is kept."""
        gathered, maps = self.cross(self.norm(x), c)
        return x + gathered, maps


class ConditionSizes(NamedTuple):
    """Widths of the conditioning: of the vector, and of tokens if there are any."""

    condition: int
    source: int | None


@final
class UNetStage(eqx.Module):
    """The blocks of one side of one resolution, and how it is left for the next."""

    blocks: tuple[UNetBlock, ...]
    attention: tuple[AttentionBlock, ...]
    """One after each block, or none."""
    cross: tuple[CrossBlock, ...]
    """The same, to the tokens of a condition."""
    leave: Conv | None

    def __init__(
        self,
        widths: Sequence[tuple[int, int]],
        sizes: ConditionSizes,
        attend: bool,
        leave: Conv | None,
        key: Key,
    ) -> None:
        """`widths` are the channels before and after each block."""
        keys = jax.random.split(key, 2 * len(widths))
        self.blocks = tuple(
            UNetBlock(*pair, sizes.condition, k) for pair, k in zip(widths, keys, strict=False)
        )
        blocks = [AttentionBlock(after, k) for (_, after), k in zip(widths, keys[len(widths) :], strict=True)]
        self.attention = tuple(blocks) if attend else ()
        source, extra = sizes.source, jax.random.split(jax.random.fold_in(key, 1), len(widths))
        reads = () if source is None or not attend else zip(widths, extra, strict=True)
        self.cross = tuple(CrossBlock(after, source or 0, k) for (_, after), k in reads)
        self.leave = leave

    def step(self, index: int, x: _Map, c: Conditioning) -> tuple[_Map, Maps]:
        """One block and its attention."""
        x = self.blocks[index](x, c.vector)
        x = self.attention[index](x) if self.attention else x
        return self.cross[index](x, c) if self.cross else (x, ())


class Features(NamedTuple):
    """What the encoder leaves for the decoder: the features after every block, and those in the middle."""

    skips: tuple[Array, ...]
    middle: Array
    maps: Maps = ()
    """Attention maps of its layers, where they are kept."""


@final
class UNetEncoder(eqx.Module):
    """Residual blocks at falling resolutions, and those in the middle."""

    entry: Conv
    stages: tuple[UNetStage, ...]
    middle: UNetStage

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        depth: int,
        attends: Sequence[bool],
        sizes: ConditionSizes,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, 2 * len(widths) + 2)
        self.entry = Conv(2, inputs, widths[0], 3, padding=1, key=keys[0])
        stages = []
        for i, width in enumerate(widths):
            before = widths[max(i - 1, 0)]
            pairs = [(before if j == 0 else width, width) for j in range(depth)]
            last = i == len(widths) - 1
            down = None if last else Conv(2, width, width, 3, stride=2, padding=1, key=keys[2 * i + 1])
            stages.append(UNetStage(pairs, sizes, attends[i], down, keys[2 * i + 2]))
        self.stages = tuple(stages)
        inner = [(widths[-1], widths[-1])] * 2
        self.middle = UNetStage(inner, sizes, attends[-1], None, keys[-1])

    def __call__(
        self, x: _Map, c: Conditioning, added: Array | None = None, scales: Sequence[Array] = ()
    ) -> Features:
        """Features of the image.

        `added` is added to those of the first convolution, `scales` to those each resolution ends with.
        """
        h = c.scaled(self.entry(c.widened(x)))
        h = h if added is None else h + added
        skips: list[Array] = []
        maps: list[Array] = []
        for number, stage in enumerate(self.stages):
            last = len(stage.blocks) - 1
            for index in range(len(stage.blocks)):
                h, more = stage.step(index, h, c)
                maps.extend(more)
                h = h + scales[number] if scales and index == last else h
                skips.append(h)
            h = h if stage.leave is None else stage.leave(h)
        for index in range(len(self.middle.blocks)):
            h, more = self.middle.step(index, h, c)
            maps.extend(more)
        return Features(tuple(skips), h, tuple(maps))


@final
class UNetDecoder(eqx.Module):
    """Residual blocks at rising resolutions, each beside the features of the encoder."""

    stages: tuple[UNetStage, ...]
    norm: GroupNorm
    exit: Conv

    def __init__(
        self,
        outputs: int,
        widths: Sequence[int],
        depth: int,
        attends: Sequence[bool],
        sizes: ConditionSizes,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, 2 * len(widths) + 1)
        stages = []
        for i in reversed(range(len(widths))):
            width = widths[i]
            above = widths[min(i + 1, len(widths) - 1)]
            pairs = [((above if j == 0 else width) + width, width) for j in range(depth)]
            grow = None if i == 0 else Conv(2, width, width, 3, padding=1, key=keys[2 * i])
            stages.append(UNetStage(pairs, sizes, attends[i], grow, keys[2 * i + 1]))
        self.stages = tuple(stages)
        self.norm = group_norm(widths[0])
        self.exit = Conv(2, widths[0], outputs, 3, padding=1, initializer="zero", key=keys[-1])

    def __call__(self, features: Features, c: Conditioning) -> tuple[_Map, Maps]:
        """The image from the features of the encoder, and the attention maps of both."""
        skips, h, maps = list(features.skips), features.middle, list(features.maps)
        for stage in self.stages:
            for index in range(len(stage.blocks)):
                h, more = stage.step(index, jnp.concatenate([h, skips.pop()], axis=-1), c)
                maps.extend(more)
            h = h if stage.leave is None else stage.leave(upsample(h, 2))
        return self.exit(self.norm(h, activation="silu")), tuple(maps)


@final
class UNet(ConditionedNetwork):
    """Images in, images out; `widths` are the channels of each resolution, `depth` the blocks of each.

    `fourier` are the powers k of sin and cos(2^k pi x) given beside the image: 2 and 3 for 17 levels, 6 and 7 for
    256. `coordinates` adds where a position is. Sides that cannot be halved often enough are an error, or padded.

    >>> network = eqx.filter_eval_shape(UNet, (8, 8, 1), widths=(8, 16), key=jax.random.key(0))
    >>> eqx.filter_eval_shape(network, jnp.zeros((2, 8, 8, 1)), jnp.zeros(())).shape
    (2, 8, 8, 1)
    """

    embedding: ConditionEmbedding
    encoder: UNetEncoder
    decoder: UNetDecoder
    fourier: tuple[int, ...] = eqx.field(static=True)
    coordinates: bool = eqx.field(static=True)
    padding: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        widths: Sequence[int] = (64, 128, 256),
        depth: int = 1,
        read: MakeConditionEncoder | None = None,
        inject: Inject = "auto",
        fourier: Sequence[int] = (),
        coordinates: bool = False,
        pad: bool = False,
        key: Key,
    ) -> None:
        self.padding = missing(shape, len(widths), pad)
        *sides, channels = shape
        inputs = channels * (1 + 2 * len(fourier)) + (2 if coordinates else 0)
        condition = 4 * widths[0]
        sizes = [
            max(n + p for n, p in zip(sides, self.padding, strict=True)) // 2**i for i in range(len(widths))
        ]
        attends = [size <= ATTENTION for size in sizes]
        one, two, three = jax.random.split(key, 3)
        self.embedding = ConditionEmbedding(condition, widths[0], read, inject, one)
        if self.embedding.added:
            check_image_condition(self.embedding.condition, shape)
        if self.embedding.source is not None and not any(attends):
            raise ArgumentError(
                f"inject=attention: attention is used on grids of up to {ATTENTION} x {ATTENTION}; the coarsest of "
                f"this network is {sizes[-1]} wide",
                remedy="use more resolutions",
            )
        given = ConditionSizes(condition, self.embedding.source)
        self.encoder = UNetEncoder(inputs + self.embedding.added, widths, depth, attends, given, two)
        self.decoder = UNetDecoder(channels, widths, depth, attends, given, three)
        self.fourier, self.coordinates = tuple(fourier), coordinates

    def __call__(self, x: Float[Array, "batch ..."], level: Array, condition: Any = None) -> Array:
        c = self.embedding(level, condition, len(x))
        return self.decoded(self.encoder(self.inputs(x), c), c, x)

    def attention_maps(self, x: Float[Array, "batch ..."], level: Array, condition: Any) -> Maps:
        c = self.embedding(level, condition, len(x), keep_maps=True)
        return self.decoder(self.encoder(self.inputs(x), c), c)[1]

    def inputs(self, x: _Map) -> _Map:
        """The image with everything that is given beside it, padded."""
        parts = [x]
        for k in self.fourier:
            angles = 2**k * math.pi * x
            parts += [jnp.sin(angles), jnp.cos(angles)]
        if self.coordinates:
            axes = [jnp.linspace(-1, 1, n, dtype=x.dtype) for n in x.shape[1:3]]
            grid = jnp.stack(jnp.meshgrid(*axes, indexing="ij"), axis=-1)
            parts.append(jnp.broadcast_to(grid[None], (len(x), *grid.shape)))
        return self.padded(jnp.concatenate(parts, axis=-1))

    def padded(self, x: _Map) -> _Map:
        """A map of the size of the images with the rows and columns they lack."""
        down, right = self.padding
        return jnp.pad(x, ((0, 0), (0, down), (0, right), (0, 0))) if down or right else x

    def decoded(self, features: Features, c: Conditioning, like: _Map) -> _Map:
        """The output from the features of the encoder, in the shape of the image."""
        out, _ = self.decoder(features, c)
        return out[:, : like.shape[1], : like.shape[2]].astype(like.dtype)


def missing(shape: tuple[int, ...], levels: int, pad: bool) -> tuple[int, int]:
    """Rows and columns that an image lacks to be halved `levels - 1` times; an error unless they may be added.

    >>> missing((30, 28, 1), 3, pad=True)
    (2, 0)
    """
    if len(shape) != 3:
        raise ArgumentError(f"a U-Net needs pictures (height, width, channels), not shape {shape}")
    height, width = (-n % 2 ** (levels - 1) for n in shape[:2])
    if (height or width) and not pad:
        raise ArgumentError(
            f"a picture of {shape[0]} x {shape[1]} cannot be halved {levels - 1} times",
            remedy=f"use pad=true, which makes it {shape[0] + height} x {shape[1] + width}",
        )
    return height, width


def group_norm(channels: int) -> GroupNorm:
    """Normalisation over groups of at least four channels, 32 groups at most."""
    return GroupNorm(channels, groups=math.gcd(math.gcd(32, max(1, channels // 4)), channels))


__all__ = [
    "ATTENTION",
    "AttentionBlock",
    "ConditionSizes",
    "CrossBlock",
    "Features",
    "UNet",
    "UNetBlock",
    "UNetDecoder",
    "UNetEncoder",
    "UNetStage",
]
