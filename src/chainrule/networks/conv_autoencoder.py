"""Convolutional encoder and decoder of small images: residual blocks at falling and at rising resolutions.

Each block is `x + conv(silu(norm(conv(silu(norm(x))))))` with 3x3 convolutions; a convolution of stride two leads to
the next resolution, nearest-neighbour upsampling and a convolution lead back. What the encoder says is a vector, or one
vector for every cell of the coarsest resolution; what the decoder gives is a few numbers for every pixel.
"""

import itertools
import math
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.networks.unet import group_norm
from chainrule.nn import Conv, GroupNorm, Linear, upsample

_Map = Float[Array, "batch _ _ _"]


@final
class ConvResidual(eqx.Module):
    """Two 3x3 convolutions, each after normalisation and SiLU, beside a skip; the second starts at zero."""

    norms: tuple[GroupNorm, GroupNorm]
    convs: tuple[Conv, Conv]

    def __init__(self, channels: int, key: Key) -> None:
        one, two = jax.random.split(key)
        self.norms = (group_norm(channels), group_norm(channels))
        self.convs = (
            Conv(2, channels, channels, 3, padding=1, gain=math.sqrt(2), key=one),
            Conv(2, channels, channels, 3, padding=1, initializer="zero", key=two),
        )

    def __call__(self, x: _Map) -> _Map:
        """The features, moved on."""
        h = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            h = conv(norm(h, activation="silu"))
        return x + h


def resolutions(shape: Sequence[int], stages: int) -> list[tuple[int, int]]:
    """Height and width at each resolution: every one half of the one before, rounded up.

    >>> resolutions((28, 28, 1), 3)
    [(28, 28), (14, 14), (7, 7)]
    """
    return [(-(-shape[0] // 2**i), -(-shape[1] // 2**i)) for i in range(stages)]


@final
class ConvEncoder(eqx.Module):
    """From images, and perhaps a vector beside them, to vectors.

    >>> encoder = eqx.filter_eval_shape(ConvEncoder, (8, 8, 1), 32, key=jax.random.key(0))
    >>> eqx.filter_eval_shape(encoder, jnp.zeros((2, 8, 8, 1))).shape
    (2, 32)
    """

    entry: Conv
    blocks: tuple[ConvResidual, ...]
    downs: tuple[Conv, ...]
    norm: GroupNorm
    exit: Linear

    def __init__(
        self,
        shape: Sequence[int],
        outputs: int,
        *,
        channels: Sequence[int] = (32, 64, 128),
        beside: int = 0,
        key: Key,
    ) -> None:
        """`beside` is the length of a vector that comes with each image."""
        keys = jax.random.split(key, 2 * len(channels) + 1)
        self.entry = Conv(2, shape[2], channels[0], 3, padding=1, key=keys[0])
        self.blocks, self.downs = _stages(channels, keys[1:], stride=2)
        self.norm = group_norm(channels[-1])
        height, width = resolutions(shape, len(channels))[-1]
        self.exit = Linear(height * width * channels[-1] + beside, outputs, key=keys[-1])

    def __call__(
        self, x: Float[Array, "batch height width channels"], beside: Float[Array, "batch _"] | None = None
    ) -> Float[Array, "batch outputs"]:
        """A vector for each image."""
        h = _down(self.blocks, self.downs, self.entry(x))
        flat = self.norm(h, activation="silu").reshape(len(x), -1)
        return self.exit(flat if beside is None else jnp.concatenate([flat, beside], axis=1))


@final
class ConvDecoder(eqx.Module):
    """From vectors to so many numbers for every entry of an image.

    >>> decoder = eqx.filter_eval_shape(ConvDecoder, 16, (8, 8, 1), 2, key=jax.random.key(0))
    >>> eqx.filter_eval_shape(decoder, jnp.zeros((2, 16))).shape
    (2, 8, 8, 1, 2)
    """

    entry: Linear
    blocks: tuple[ConvResidual, ...]
    ups: tuple[Conv, ...]
    norm: GroupNorm
    exit: Conv
    shape: tuple[int, ...] = eqx.field(static=True)
    sizes: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        shape: Sequence[int],
        numbers: int,
        *,
        channels: Sequence[int] = (32, 64, 128),
        key: Key,
    ) -> None:
        """`numbers` are given for every entry; `channels` are those of the encoder, in its order."""
        widths = tuple(reversed(channels))
        keys = jax.random.split(key, 2 * len(widths) + 1)
        self.shape, self.sizes = (*shape, numbers), tuple(reversed(resolutions(shape, len(widths))))
        height, width = self.sizes[0]
        self.entry = Linear(inputs, height * width * widths[0], key=keys[0])
        self.blocks, self.ups = _stages(widths, keys[1:], stride=1)
        self.norm = group_norm(widths[-1])
        self.exit = Conv(2, widths[-1], shape[2] * numbers, 3, padding=1, key=keys[-1])

    def __call__(self, z: Float[Array, "batch inputs"]) -> Float[Array, "batch height width channels _"]:
        """The numbers of every entry."""
        h = self.entry(z).reshape(len(z), *self.sizes[0], -1)
        h = _up(self.blocks, self.ups, self.sizes, h)
        return self.exit(self.norm(h, activation="silu")).reshape(len(z), *self.shape)


@final
class GridEncoder(eqx.Module):
    """From images to a vector for every cell of their coarsest resolution.

    >>> encoder = eqx.filter_eval_shape(GridEncoder, (8, 8, 1), 16, channels=(8, 16), key=jax.random.key(0))
    >>> eqx.filter_eval_shape(encoder, jnp.zeros((2, 8, 8, 1))).shape
    (2, 4, 4, 16)
    """

    entry: Conv
    blocks: tuple[ConvResidual, ...]
    downs: tuple[Conv, ...]
    norm: GroupNorm
    exit: Linear

    def __init__(self, shape: Sequence[int], outputs: int, *, channels: Sequence[int], key: Key) -> None:
        keys = jax.random.split(key, 2 * len(channels) + 1)
        self.entry = Conv(2, shape[2], channels[0], 3, padding=1, key=keys[0])
        self.blocks, self.downs = _stages(channels, keys[1:], stride=2)
        self.norm = group_norm(channels[-1])
        self.exit = Linear(channels[-1], outputs, key=keys[-1])

    def __call__(
        self, x: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch rows columns outputs"]:
        """A vector for each cell."""
        return self.exit(self.norm(_down(self.blocks, self.downs, self.entry(x)), activation="silu"))


@final
class GridDecoder(eqx.Module):
    """From a vector for every cell to so many numbers for every entry of an image.

    >>> decoder = eqx.filter_eval_shape(GridDecoder, 16, (8, 8, 1), 2, channels=(8, 16), key=jax.random.key(0))
    >>> eqx.filter_eval_shape(decoder, jnp.zeros((2, 4, 4, 16))).shape
    (2, 8, 8, 1, 2)
    """

    entry: Conv
    blocks: tuple[ConvResidual, ...]
    ups: tuple[Conv, ...]
    norm: GroupNorm
    exit: Conv
    shape: tuple[int, ...] = eqx.field(static=True)
    sizes: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def __init__(
        self, inputs: int, shape: Sequence[int], numbers: int, *, channels: Sequence[int], key: Key
    ) -> None:
        """`channels` are those of the encoder, in its order."""
        widths = tuple(reversed(channels))
        keys = jax.random.split(key, 2 * len(widths) + 1)
        self.shape, self.sizes = (*shape, numbers), tuple(reversed(resolutions(shape, len(widths))))
        self.entry = Conv(2, inputs, widths[0], 3, padding=1, key=keys[0])
        self.blocks, self.ups = _stages(widths, keys[1:], stride=1)
        self.norm = group_norm(widths[-1])
        self.exit = Conv(2, widths[-1], shape[2] * numbers, 3, padding=1, key=keys[-1])

    def __call__(
        self, z: Float[Array, "batch rows columns inputs"]
    ) -> Float[Array, "batch height width channels _"]:
        """The numbers of every entry."""
        h = _up(self.blocks, self.ups, self.sizes, self.entry(z))
        return self.exit(self.norm(h, activation="silu")).reshape(len(z), *self.shape)


def _stages(
    widths: Sequence[int], keys: Array, *, stride: int
) -> tuple[tuple[ConvResidual, ...], tuple[Conv, ...]]:
    """A residual block for each resolution, and the convolutions between neighbours."""
    blocks = tuple(ConvResidual(width, k) for width, k in zip(widths, keys[: len(widths)], strict=True))
    between = zip(itertools.pairwise(widths), keys[len(widths) :], strict=False)
    return blocks, tuple(Conv(2, a, b, 3, stride=stride, padding=1, key=k) for (a, b), k in between)


def _down(blocks: Sequence[ConvResidual], downs: Sequence[Conv], h: _Map) -> _Map:
    """Block after block, each at half the resolution of the one before."""
    for number, block in enumerate(blocks):
        h = block(downs[number - 1](h) if number else h)
    return h


def _up(
    blocks: Sequence[ConvResidual], ups: Sequence[Conv], sizes: Sequence[tuple[int, int]], h: _Map
) -> _Map:
    """The way back; what upsampling has too much at the far edges is cut off."""
    for number, block in enumerate(blocks):
        if number:
            height, width = sizes[number]
            h = ups[number - 1](upsample(h, 2)[:, :height, :width])
        h = block(h)
    return h


__all__ = ["ConvDecoder", "ConvEncoder", "ConvResidual", "GridDecoder", "GridEncoder", "resolutions"]
