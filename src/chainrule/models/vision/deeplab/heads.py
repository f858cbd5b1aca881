"""Heads of DeepLab: one atrous convolution (v1), several that are summed (v2), a pyramid with the image's mean (v3)."""

from collections.abc import Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.networks.image_towers import ConvBlock
from chainrule.nn import Conv

Map = Float[Array, "batch _ _ _"]


@final
class AtrousSum(eqx.Module):
    """Parallel 3x3 convolutions, each followed by two 1x1 ones, whose class scores are added up.

    One rate is the head of v1 (a large field of view, Chen et al., 2015), several are that of v2 (2017).
    """

    branches: tuple[tuple[Conv, Conv, Conv], ...]

    def __init__(self, inputs: int, outputs: int, *, channels: int, rates: Sequence[int], key: Key) -> None:
        branches = []
        for k, rate in zip(jax.random.split(key, len(rates)), rates, strict=True):
            one, two, three = jax.random.split(k, 3)
            branches.append(
                (
                    Conv(2, inputs, channels, 3, padding=rate, dilation=rate, gain=2**0.5, key=one),
                    Conv(2, channels, channels, 1, gain=2**0.5, key=two),
                    Conv(2, channels, outputs, 1, key=three),
                )
            )
        self.branches = tuple(branches)

    def __call__(self, x: Map) -> Map:
        """Class scores."""
        said = [last(jax.nn.relu(middle(jax.nn.relu(first(x))))) for first, middle, last in self.branches]
        return sum(said[1:], start=said[0])


@final
class AtrousPyramid(eqx.Module):
    """1x1, 3x3 at some rates and the mean of the image side by side, projected by 1x1 (Chen et al., 2017)."""

    branches: tuple[ConvBlock, ...]
    pooled: ConvBlock
    project: ConvBlock

    def __init__(self, inputs: int, *, channels: int, rates: Sequence[int], key: Key) -> None:
        keys = iter(jax.random.split(key, len(rates) + 3))

        def block(inputs: int, kernel: int, dilation: int = 1) -> ConvBlock:
            return ConvBlock(
                *(inputs, channels, kernel),
                dilation=dilation,
                bias=False,
                normalization="batch",
                key=next(keys),
            )

        self.branches = (block(inputs, 1), *(block(inputs, 3, rate) for rate in rates))
        self.pooled = block(inputs, 1)
        self.project = block((len(rates) + 2) * channels, 1)

    def advance(self, x: Map, key: Key) -> tuple[Map, Self]:
        """Features, and the pyramid with its state moved on when training."""
        found = [branch(x, key) for branch in self.branches]
        mean, pooled = self.pooled(x.mean(axis=(1, 2), keepdims=True), key)
        everywhere = jnp.broadcast_to(mean, (*x.shape[:3], mean.shape[-1]))
        out, project = self.project(jnp.concatenate([*(h for h, _ in found), everywhere], axis=-1), key)
        parts = (tuple(moved for _, moved in found), pooled, project)
        return out, eqx.tree_at(lambda one: (one.branches, one.pooled, one.project), self, parts)


@final
class Decoder(eqx.Module):
    """Features enlarged to the first stage, beside 48 of its channels, then two 3x3 convolutions (v3+, 2018)."""

    low: ConvBlock
    blocks: tuple[ConvBlock, ConvBlock]

    def __init__(self, low: int, channels: int, *, key: Key) -> None:
        one, two, three = jax.random.split(key, 3)
        made = {"bias": False, "normalization": "batch"}
        self.low = ConvBlock(low, 48, 1, key=one, **made)  # type: ignore[arg-type]  # names of its settings
        self.blocks = (
            ConvBlock(channels + 48, channels, key=two, **made),  # type: ignore[arg-type]
            ConvBlock(channels, channels, key=three, **made),  # type: ignore[arg-type]
        )

    def advance(self, x: Map, first: Map, key: Key) -> tuple[Map, Self]:
        """Features of the size of the first stage, and the decoder with its state moved on when training."""
        beside, low = self.low(first, key)
        h = jnp.concatenate([resized(x, first.shape[1:3]), beside], axis=-1)
        h, one = self.blocks[0](h, key)
        h, two = self.blocks[1](h, key)
        return h, eqx.tree_at(lambda decoder: (decoder.low, decoder.blocks), self, (low, (one, two)))


def resized(x: Map, size: tuple[int, ...]) -> Map:
    """A map enlarged bilinearly."""
    return jax.image.resize(x, (x.shape[0], *size, x.shape[3]), "linear")


__all__ = ["AtrousPyramid", "AtrousSum", "Decoder", "resized"]
