"""A residual network whose later stages spread their kernels instead of making the map smaller (atrous convolution).

A kernel of k entries at rate r spans `k + (k - 1)(r - 1)` entries of the map; zeros between them are never stored. A
stage that would have halved the map beyond the output stride doubles the rate instead.
"""

from typing import Self, final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.image_towers import ConvBlock
from chainrule.nn import ResidualBlock, max_pool

LARGE = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
"""Blocks of each stage for large images: a 7 x 7 stem and a pool, each halving the map, then four stages."""
SMALL = {depth: ((depth - 2) // 6,) * 3 for depth in (8, 14, 20, 32, 44)}
"""Blocks of each stage for small images: a 3 x 3 stem that halves nothing, three stages."""


@final
class AtrousResNet(eqx.Module):
    """From images to features at the output stride, and to those of the first stage."""

    stem: ConvBlock
    stages: tuple[tuple[ResidualBlock, ...], ...]
    large: bool = eqx.field(static=True)
    channels: tuple[int, int] = eqx.field(static=True)
    """Of the first stage and of the last."""

    def __init__(self, inputs: int, *, depth: int, width: int, output_stride: int, key: Key) -> None:
        self.large = depth in LARGE
        counts = (LARGE if self.large else SMALL)[depth]
        bottleneck = depth >= 50 and self.large
        key_stem, key = jax.random.split(key)
        kernel, stride = (7, 2) if self.large else (3, 1)
        self.stem = ConvBlock(
            *(inputs, width, kernel), stride=stride, bias=False, normalization="batch", key=key_stem
        )
        channels, rate, reached = width, 1, 4 if self.large else 1
        if output_stride < reached:
            raise ArgumentError(
                f"deeplab(output_stride={output_stride}): the first layers of depth={depth} take {reached} already",
                remedy=f"use output_stride={reached} or more, or one of depth={', '.join(map(str, SMALL))}",
            )
        stages, ends = [], []
        for i, count in enumerate(counts):
            before, stride = rate, 1
            if i and reached < output_stride:
                stride, reached = 2, 2 * reached
            elif i:
                rate *= 2
            blocks = []
            for j, k in enumerate(jax.random.split(jax.random.fold_in(key, i), count)):
                outputs = (width << i) * (4 if bottleneck else 1)
                blocks.append(
                    ResidualBlock(
                        *(channels, outputs),
                        stride=1 if j else stride,
                        dilation=rate if j else before,
                        kind="bottleneck" if bottleneck else "basic",
                        zero_last=True,
                        key=k,
                    )
                )
                channels = outputs
            stages.append(tuple(blocks))
            ends.append(channels)
        if reached < output_stride:
            raise ArgumentError(
                f"deeplab(output_stride={output_stride}): with depth={depth} it is {reached} at most",
                remedy=f"use output_stride={reached} or less",
            )
        self.stages = tuple(stages)
        self.channels = (ends[0], channels)

    def advance(self, x: Float[Array, "batch height width channels"], key: Key) -> tuple[Array, Array, Self]:
        """Features of the first stage and of the last, and the network with its state moved on when training."""
        h, stem = self.stem(x, key)
        h = max_pool(h, 3, stride=2, padding=1) if self.large else h
        stages, first = [], h
        for i, stage in enumerate(self.stages):
            moved = []
            for block in stage:
                h, after = block.advance(h)
                moved.append(after)
            stages.append(tuple(moved))
            first = h if i == 0 else first
        return first, h, eqx.tree_at(lambda net: (net.stem, net.stages), self, (stem, tuple(stages)))


__all__ = ["LARGE", "SMALL", "AtrousResNet"]
