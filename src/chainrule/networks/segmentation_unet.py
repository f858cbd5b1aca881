"""The U-Net of segmentation (Ronneberger et al., 2015): two convolutions at each resolution, features side by side.

On the way down a pool halves the map and the next two convolutions double the channels; on the way up a transposed
convolution halves the channels and doubles the map, and what the encoder had there is put beside it, cut to the same
size where convolutions are without padding. With padding any size goes in: the mirror image fills it up to a multiple
of 2^depth, and what that became is cut off.
"""

from collections.abc import Callable
from typing import Literal, Self, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.unet import group_norm
from chainrule.nn import BatchNorm, Conv, ConvTranspose, GroupNorm, NoNorm, Norm, activation, max_pool
from chainrule.nn.normalize import normalised

Map: TypeAlias = Float[Array, "batch _ _ _"]
UNetNormalization: TypeAlias = Literal["group", "batch", "none"]
Edges: TypeAlias = Literal["same", "valid"]


@final
class NormedConv(eqx.Module):
    """A 3x3 convolution, normalisation, activation."""

    conv: Conv
    norm: Norm
    inference: bool
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        edges: Edges,
        normalization: UNetNormalization,
        act: str,
        key: Key,
    ) -> None:
        self.conv = Conv(
            *(2, inputs, outputs, 3),
            padding=1 if edges == "same" else 0,
            bias=normalization != "batch",
            gain=activation(act).gain,
            key=key,
        )
        made: dict[str, Callable[[int], Norm]] = {"group": group_norm, "batch": BatchNorm, "none": NoNorm}
        self.norm = made[normalization](outputs)
        self.inference = False
        self.activation = act

    def __call__(self, x: Map) -> tuple[Map, Self]:
        """The activations, and the block with its running statistics moved on when training."""
        h = self.conv(x)
        if isinstance(self.norm, GroupNorm) and self.activation == "silu":  # one pass over the data for both
            return self.norm(h, activation="silu"), self
        h, moved = normalised(self.norm, h, not self.inference)
        return activation(self.activation)(h), eqx.tree_at(lambda block: block.norm, self, moved)


Pair: TypeAlias = tuple[NormedConv, NormedConv]


@final
class SegmentationUNet(eqx.Module):
    """From (batch, height, width, inputs) to numbers for each class at each pixel.

    >>> network = eqx.filter_eval_shape(
    ...     SegmentationUNet, 1, 2, width=64, depth=4, edges="valid", normalization="none", act="relu",
    ...     key=jax.random.key(0)
    ... )
    >>> eqx.filter_eval_shape(network.advance, jnp.zeros((1, 572, 572, 1)))[0].shape
    (1, 388, 388, 2)
    """

    down: tuple[Pair, ...]
    """The two convolutions of each resolution, the last the coarsest."""
    rise: tuple[ConvTranspose, ...]
    """From the coarsest up."""
    up: tuple[Pair, ...]
    exit: Conv
    edges: Edges = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int,
        depth: int,
        edges: Edges = "same",
        normalization: UNetNormalization = "group",
        act: str = "silu",
        key: Key,
    ) -> None:
        keys = iter(jax.random.split(key, 5 * depth + 3))
        widths = [width << level for level in range(depth + 1)]

        def pair(before: int, after: int) -> Pair:
            first, second = (
                NormedConv(n, after, edges=edges, normalization=normalization, act=act, key=next(keys))
                for n in (before, after)
            )
            return first, second

        self.down = tuple(
            pair(before, after) for before, after in zip([inputs, *widths], widths, strict=False)
        )
        self.rise = tuple(
            ConvTranspose(2, 2 * wide, wide, 2, stride=2, key=next(keys)) for wide in widths[-2::-1]
        )
        self.up = tuple(pair(2 * wide, wide) for wide in widths[-2::-1])
        self.exit = Conv(2, width, outputs, 1, key=next(keys))
        self.edges = edges

    @property
    def depth(self) -> int:
        """How often the map is halved."""
        return len(self.rise)

    def advance(self, x: Map) -> tuple[Map, Self]:
        """The numbers of each pixel, and the network with its statistics moved on when training.

        Without padding those of the pixels in the middle: `valid_size` says which sizes go in and what comes out.
        """
        height, width = x.shape[1:3]
        h = self._filled(x)
        skips, down = [], []
        for level, pair in enumerate(self.down):
            h = max_pool(h, 2) if level else h
            h, moved = _both(pair, h)
            skips.append(h)
            down.append(moved)
        up = []
        for skip, rise, pair in zip(skips[-2::-1], self.rise, self.up, strict=True):
            h = rise(h)
            h, moved = _both(pair, jnp.concatenate([_middle(skip, h.shape[1:3]), h], axis=-1))
            up.append(moved)
        out = self.exit(h)
        out = out[:, :height, :width] if self.edges == "same" else out
        return out, eqx.tree_at(lambda network: (network.down, network.up), self, (tuple(down), tuple(up)))

    def whole(self, x: Map) -> tuple[Map, Self]:
        """The same for every pixel, also without padding: around the image lies its mirror image."""
        if self.edges == "same":
            return self.advance(x)
        sizes = [valid_size(n, self.depth) for n in x.shape[1:3]]
        before = [(entering - leaving) // 2 for entering, leaving in sizes]
        after = [
            entering - n - first for n, first, (entering, _) in zip(x.shape[1:3], before, sizes, strict=True)
        ]
        around = jnp.pad(x, ((0, 0), *zip(before, after, strict=True), (0, 0)), mode="symmetric")
        out, moved = self.advance(around)
        return out[:, : x.shape[1], : x.shape[2]], moved

    def _filled(self, x: Map) -> Map:
        """The image, filled up with its mirror image so that it can be halved."""
        if self.edges == "valid":
            for n in x.shape[1:3]:
                if valid_output(n, self.depth) is None:
                    fits = valid_size(max(1, n - 4), self.depth)[0]
                    raise ArgumentError(
                        f"SegmentationUNet(edges=valid): an axis of {n} cannot be halved {self.depth} times between "
                        "convolutions without padding",
                        remedy=f"give one of {fits} pixels, or use whole(), which puts the mirror image around it",
                    )
            return x
        down, right = (-n % 2**self.depth for n in x.shape[1:3])
        widths = ((0, 0), (0, down), (0, right), (0, 0))
        return jnp.pad(x, widths, mode="symmetric") if down or right else x


def valid_output(size: int, depth: int) -> int | None:
    """What an axis comes out with if convolutions are without padding; nothing where it does not fit.

    >>> valid_output(572, 4), valid_output(571, 4)
    (388, None)
    """
    for _ in range(depth):
        size -= 4
        if size < 2 or size % 2:
            return None
        size //= 2
    size -= 4
    for _ in range(depth):
        size = 2 * size - 4
    return size if size > 0 else None


def valid_size(least: int, depth: int) -> tuple[int, int]:
    """The smallest axis that fits without padding and comes out with at least so many entries, and with how many.

    >>> valid_size(388, 4), valid_size(64, 2)
    ((572, 388), (104, 64))
    """
    size = least + 1
    while (found := valid_output(size, depth)) is None or found < least:
        size += 1
    return size, found


def _both(pair: Pair, h: Map) -> tuple[Map, Pair]:
    h, first = pair[0](h)
    h, second = pair[1](h)
    return h, (first, second)


def _middle(x: Map, size: tuple[int, ...]) -> Map:
    """The middle of a map, of that size."""
    top, left = ((n - wanted) // 2 for n, wanted in zip(x.shape[1:3], size, strict=True))
    return x[:, top : top + size[0], left : left + size[1]]


__all__ = [
    "Edges",
    "NormedConv",
    "SegmentationUNet",
    "UNetNormalization",
    "valid_output",
    "valid_size",
]
