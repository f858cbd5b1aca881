"""The U-Net of spectrograms (Jansson et al., 2017), with nested decoders (Zhou et al., 2018) and gates by switch.

Level i has a 2^i-th of the bins and frames. Each level of the encoder is a convolution of stride two. The plain decoder
mirrors it: a transposed convolution reads what the level below gave beside what the encoder had there. Nested, there
are nodes in between: `X(i, j) = conv([X(i, 0), ..., X(i, j-1), up X(i+1, j-1)])`, the last of level 0 is the output.
Gated, the backbone's convolutions are `a(x) · sigmoid(b(x))`. Any size goes in: zeros fill it up to a multiple of
2^depth, and what they became is cut off.
"""

import warnings
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn import BatchNorm, Conv, ConvTranspose, Dropout, GroupNorm, Norm

Map = Float[Array, "batch _ _ _"]


@final
class MaskBlock(eqx.Module):
    """A convolution, down or up, perhaps gated; then norm, activation and dropout."""

    conv: Conv | ConvTranspose
    gate: Conv | ConvTranspose | None
    norm: Norm
    dropout: Dropout
    slope: float = eqx.field(static=True)
    """Of the activation below zero."""
    inference: bool

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        kernel: int,
        stride: int,
        up: bool,
        gated: bool,
        normalization: str,
        dropout: float,
        slope: float,
        key: Key,
    ) -> None:
        own, other = jax.random.split(key)
        self.conv = convolution(inputs, outputs, kernel, stride, up=up, key=own)
        self.gate = convolution(inputs, outputs, kernel, stride, up=up, key=other) if gated else None
        self.norm = BatchNorm(outputs) if normalization == "batch" else GroupNorm(outputs)
        self.dropout = Dropout(dropout)
        self.slope = slope
        self.inference = False

    def __call__(self, x: Map, key: Key) -> tuple[Map, Self]:
        """The features, and the block with its statistics moved on when training."""
        h = self.conv(x)
        if self.gate is not None:
            h = h * jax.nn.sigmoid(self.gate(x))
        h, moved = (self.norm(h), self.norm) if self.inference else self.norm.advance(h)
        h = self.dropout(jnp.where(h > 0, h, self.slope * h), key)
        return h, eqx.tree_at(lambda block: block.norm, self, moved)


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int, *, up: bool, key: Key
) -> Conv | ConvTranspose:
    """A convolution, or a transposed one that makes every axis `stride` times as long."""
    if not up:
        return Conv(2, inputs, outputs, kernel, stride=stride, key=key)
    with warnings.catch_warnings():
        # Kernels of 5 at stride 2 are the published ones; a mask is squashed and multiplied by what is there.
        warnings.simplefilter("ignore")
        return ConvTranspose(2, inputs, outputs, kernel, stride=stride, key=key)


@final
class NestedNode(eqx.Module):
    """A nested node: what came up from below, beside all earlier nodes of its own level."""

    up: MaskBlock
    join: MaskBlock


@final
class MaskUNet(eqx.Module):
    """From (batch, bins, frames, inputs) to (batch, bins, frames, outputs), numbers that masks are made of."""

    down: tuple[MaskBlock, ...]
    plain: tuple[MaskBlock, ...]
    """Decoder without nesting, from the lowest level up, but for the last step."""
    nodes: tuple[tuple[NestedNode, ...], ...]
    """Nested decoder: for each level, the nodes from left to right."""
    heads: tuple[Conv | ConvTranspose, ...]
    """What gives the outputs: one, or one for each nested node of level 0."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int,
        depth: int,
        kernel: int,
        nested: bool,
        gated: bool,
        normalization: str,
        dropout: float,
        key: Key,
    ) -> None:
        keys = iter(jax.random.split(key, 2 * depth + depth * (depth + 1) + 2))
        widths = [width * 2**level for level in range(depth)]
        shared = {"kernel": kernel, "gated": gated, "normalization": normalization}

        def block(inputs: int, outputs: int, *, stride: int = 2, up: bool, drop: float = 0.0) -> MaskBlock:
            slope = 0.0 if up else 0.2
            own = {**shared, "stride": stride, "up": up, "dropout": drop, "slope": slope}
            return MaskBlock(inputs, outputs, **own, key=next(keys))  # type: ignore[arg-type]  # names of its settings

        self.down = tuple(
            block(before, after, up=False) for before, after in zip([inputs, *widths], widths, strict=False)
        )
        if not nested:
            lower = [widths[-1], *(2 * one for one in widths[-2::-1])]
            self.plain = tuple(
                block(lower[step], widths[-2 - step], up=True, drop=dropout if step < 3 else 0.0)
                for step in range(depth - 1)
            )
            self.nodes = ()
            self.heads = (convolution(lower[-1], outputs, kernel, 2, up=True, key=next(keys)),)
            return
        self.plain = ()
        # Level 0 is the spectrogram itself; its nodes have as many features as the level below.
        first, made = [inputs, *widths], [widths[0], *widths]
        nodes = []
        for level in range(depth):
            row = []
            for number in range(1, depth - level + 1):
                below = first[level + 1] if number == 1 else made[level + 1]
                beside = first[level] + (number - 1) * made[level]
                drop = dropout if number == depth - level and level >= depth - 3 else 0.0
                up = block(below, made[level], up=True)
                join = block(beside + made[level], made[level], stride=1, up=False, drop=drop)
                row.append(NestedNode(up, join))
            nodes.append(tuple(row))
        self.nodes = tuple(nodes)
        self.heads = tuple(
            convolution(made[0], outputs, 1, 1, up=False, key=next(keys)) for _ in range(depth)
        )

    @property
    def depth(self) -> int:
        """Levels below the spectrogram."""
        return len(self.down)

    def advance(self, x: Map, key: Key) -> tuple[list[Map], Self]:
        """The outputs, one or one for each nested node of level 0, the deepest last; and the network moved on."""
        sizes, unit = x.shape[1:3], 2**self.depth
        padded = jnp.pad(x, ((0, 0), *((0, -size % unit) for size in sizes), (0, 0)))
        keys = iter(jax.random.split(key, 2 * self.depth + self.depth * (self.depth + 1)))
        features, down = [padded], []
        for block in self.down:
            h, moved = block(features[-1], next(keys))
            features.append(h)
            down.append(moved)
        last, plain, nodes = self._nested(features, keys) if self.nodes else self._plain(features, keys)
        heads = self.heads if self.nodes else self.heads[-1:]
        found = [head(h)[:, : sizes[0], : sizes[1]] for head, h in zip(heads, last, strict=True)]
        return found, eqx.tree_at(
            lambda net: (net.down, net.plain, net.nodes), self, (tuple(down), plain, nodes)
        )

    def _plain(self, features: list[Map], keys: object) -> tuple[list[Map], tuple[MaskBlock, ...], tuple[()]]:
        h, moved = features[-1], []
        for step, block in enumerate(self.plain):
            h, after = block(h, next(keys))  # type: ignore[call-overload]  # an iterator of keys
            h = jnp.concatenate([h, features[-2 - step]], axis=-1)
            moved.append(after)
        return [h], tuple(moved), ()

    def _nested(
        self, features: list[Map], keys: object
    ) -> tuple[list[Map], tuple[MaskBlock, ...], tuple[tuple[NestedNode, ...], ...]]:
        grid = [[h] for h in features]
        moved: list[list[NestedNode]] = [[] for _ in self.nodes]
        for number in range(1, self.depth + 1):
            for level in range(self.depth - number + 1):
                node = self.nodes[level][number - 1]
                risen, up = node.up(grid[level + 1][number - 1], next(keys))  # type: ignore[call-overload]
                h, join = node.join(jnp.concatenate([*grid[level], risen], axis=-1), next(keys))  # type: ignore[call-overload]
                grid[level].append(h)
                moved[level].append(NestedNode(up, join))
        return grid[0][1:], (), tuple(tuple(row) for row in moved)


__all__ = ["MaskBlock", "MaskUNet", "NestedNode", "convolution"]
