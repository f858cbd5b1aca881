"""A feature pyramid: convolutions at falling resolution, and what the coarse maps know added to the fine ones.

Maps have strides 4, 8, 16 and so on; all have the same number of channels, so that one head serves them all (Lin et
al., 2017, arXiv:1612.03144).
"""

from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.image_towers import ConvBlock, Normalization
from chainrule.nn import Conv

FINEST = 4
"""The stride of the first map."""


@final
class Pyramid(eqx.Module):
    """Strided convolutions with `blocks` more after each, and the way back down."""

    stem: tuple[ConvBlock, ...]
    stages: tuple[tuple[ConvBlock, ...], ...]
    lateral: tuple[Conv, ...]
    smooth: tuple[ConvBlock, ...]

    def __init__(
        self,
        channels: int,
        *,
        width: int,
        levels: int,
        blocks: int,
        outputs: int,
        normalization: Normalization,
        key: Key,
    ) -> None:
        keys = iter(jax.random.split(key, 2 + levels * (blocks + 3)))
        made: dict[str, Any] = {"normalization": normalization, "bias": normalization == "none"}
        self.stem = (
            ConvBlock(channels, width, stride=2, key=next(keys), **made),
            ConvBlock(width, width, key=next(keys), **made),
        )
        inputs, stages = width, []
        widths = [width << min(level + 1, 3) for level in range(levels)]
        for wide in widths:
            first = ConvBlock(inputs, wide, stride=2, key=next(keys), **made)
            stages.append((first, *(ConvBlock(wide, wide, key=next(keys), **made) for _ in range(blocks))))
            inputs = wide
        self.stages = tuple(stages)
        self.lateral = tuple(Conv(2, wide, outputs, 1, key=next(keys)) for wide in widths)
        self.smooth = tuple(ConvBlock(outputs, outputs, key=next(keys), **made) for _ in widths)

    def __call__(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[list[Float[Array, "batch _ _ outputs"]], Self]:
        """The maps from fine to coarse, and the pyramid with its state moved on when training."""
        x, stem = _chained(self.stem, 2 * x - 1, key)
        found, stages = [], []
        for stage in self.stages:
            x, moved = _chained(stage, x, key)
            stages.append(moved)
            found.append(x)
        maps = [lateral(one) for lateral, one in zip(self.lateral, found, strict=True)]
        for level in range(len(maps) - 2, -1, -1):
            height, width = maps[level].shape[1:3]
            above = jnp.repeat(jnp.repeat(maps[level + 1], 2, axis=1), 2, axis=2)
            maps[level] = maps[level] + above[:, :height, :width]
        smoothed = [block(one, key) for block, one in zip(self.smooth, maps, strict=True)]
        moved_smooth = tuple(moved for _, moved in smoothed)
        new = eqx.tree_at(lambda p: (p.stem, p.stages, p.smooth), self, (stem, tuple(stages), moved_smooth))
        return [one for one, _ in smoothed], new


def _chained(blocks: tuple[ConvBlock, ...], x: Array, key: Key) -> tuple[Array, tuple[ConvBlock, ...]]:
    """Blocks in turn, and all of them with their state moved on."""
    after = []
    for block in blocks:
        x, moved = block(x, key)
        after.append(moved)
    return x, tuple(after)


def grids(shape: tuple[int, ...], levels: int, name: str) -> list[tuple[tuple[int, int], int]]:
    """Height and width of each map of images of this shape, with its stride.

    >>> grids((64, 48, 3), 3, "detector")
    [((16, 12), 4), ((8, 6), 8), ((4, 3), 16)]
    """
    height, width = -(-shape[0] // 2), -(-shape[1] // 2)
    found = []
    for level in range(levels):
        height, width = -(-height // 2), -(-width // 2)
        found.append(((height, width), FINEST << level))
    if min(found[-1][0]) < 2:
        most = max(1, min(shape[:2]).bit_length() - 3)
        raise ArgumentError(
            f"{name}(levels={levels}): the coarsest map of images of {shape[0]}×{shape[1]} pixels would be "
            f"{found[-1][0][0]}×{found[-1][0][1]}",
            remedy=f"use levels={most}, or larger images",
        )
    return found


__all__ = ["FINEST", "Pyramid", "grids"]
