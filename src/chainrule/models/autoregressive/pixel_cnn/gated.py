"""PixelCNN with two stacks: one looks at all rows above, one along the row (van den Oord et al., 2016).

A single stack of masked convolutions never sees a wedge to the upper right of a pixel. Here a vertical stack reads
whole rows above, unmasked, and passes on to a horizontal stack that reads the row itself up to the pixel. Channels of a
pixel come in order: each sees those before it, by masks on the weights that act within a pixel.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.masked import before, masked, pushed, row_of
from chainrule.models.autoregressive.pixel_stack import ClassBias
from chainrule.models.autoregressive.pixels import (
    PixelConditionals,
    PixelConfig,
    centred,
    class_tables,
    heads,
    image_shape,
    of_class,
    read_out,
    spread_over,
)
from chainrule.nn import Conv, Linear
from chainrule.probability.distributions.outputs import OutputDistribution


@final
class Gated(eqx.Module):
    """Both stacks one step on: `tanh(a) · sigmoid(b)` of what they see, the horizontal one added to what it was.

    The first block sees pixels and must not see the one it is about, channel by channel; later blocks see features
    that know nothing of it, and may.
    """

    above: Conv
    across: Linear
    left: Conv
    here: Linear
    out: Linear
    first: bool = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(self, inputs: int, width: int, kernel: int, channels: int, *, first: bool, key: Key) -> None:
        keys = jax.random.split(key, 5)
        reach = kernel // 2
        rows = reach if first else reach + 1

        def conv(size: tuple[int, int], padding: tuple[tuple[int, int], tuple[int, int]], key: Key) -> Conv:
            return Conv(2, inputs, 2 * width, size, padding=padding, initializer="xavier", key=key)

        def dense(inputs: int, outputs: int, key: Key) -> Linear:
            return Linear(inputs, outputs, initializer="xavier", key=key)

        self.above = conv((rows, kernel), ((reach, 0), (reach, reach)), keys[0])
        self.across = dense(2 * width, 2 * width, keys[1])
        self.left = conv((1, reach), ((0, 0), (reach, 0)), keys[2])
        self.here = dense(inputs, 2 * width, keys[3])
        self.out = dense(width, width, keys[4])
        self.first = first
        self.channels = channels

    @property
    def bias_size(self) -> int:
        """How many numbers both stacks together add for a class."""
        return 2 * self.across.weight.shape[1]

    def __call__(
        self,
        above: Float[Array, "batch height width features"],
        row: Float[Array, "batch height width features"],
        bias: ClassBias,
    ) -> tuple[Float[Array, "batch height width units"], Float[Array, "batch height width units"]]:
        """The features of both stacks."""
        height, width = row.shape[1:3]
        # Rows up to the one before (first) or up to this one; columns up to the one before.
        seen = self.above(above)[:, :height]
        for_above, for_row = _halves(bias, 2)
        new = self._row(self.left(row)[:, :, :width] + self.across(seen) + for_row, row)
        return _gate(seen + for_above), new

    def from_above(
        self, rows: Float[Array, "batch rows width features"], bias: ClassBias
    ) -> tuple[Float[Array, "batch width units"], Float[Array, "batch width twice"]]:
        """One row of the vertical stack, and what it passes on to each pixel of the horizontal one."""
        seen = row_of(self.above, rows)
        for_above, for_row = _halves(bias, 1)
        return _gate(seen + for_above), self.across(seen) + for_row

    def at(
        self,
        left: Float[Array, "batch reach features"],
        above: Float[Array, "batch twice"],
        x: Float[Array, "batch features"],
    ) -> Float[Array, "batch units"]:
        """One pixel of the horizontal stack."""
        return self._row(before(self.left, left) + above, x)

    def _row(self, beside: Array, x: Array) -> Array:
        here = masked(self.here, self.channels, x, strictly=self.first, shares=2)
        new = masked(self.out, self.channels, _gate(beside + here))
        return new if self.first else x + new


@final
class PixelNetwork(PixelConditionals):
    """The conditionals of an image by two stacks of gated convolutions."""

    blocks: tuple[Gated, ...]
    hidden: Linear
    last: Linear
    tables: tuple[Float[Array, "classes _"], ...]
    output: OutputDistribution
    labels: Int[Array, " batch"] | None
    """Classes of the images at hand, while it is used for them."""
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        schema: Schema,
        config: PixelConfig,
        output: OutputDistribution,
        *,
        width: int,
        kernels: Sequence[int],
        key: Key,
    ) -> None:
        """One block for each of the kernels."""
        self.shape = image_shape(schema)
        channels = self.shape[-1]
        keys = jax.random.split(key, len(kernels) + 2)
        self.blocks = tuple(
            Gated(width if number else channels, width, kernel, channels, first=number == 0, key=one)
            for number, (kernel, one) in enumerate(zip(kernels, keys, strict=False))
        )
        self.hidden, self.last = heads(width, channels, output, (keys[-2], keys[-1]))
        self.tables = class_tables(schema, config, tuple(block.bias_size for block in self.blocks))
        self.output = output
        self.labels = None

    def of_classes(self, labels: Int[Array, " batch"]) -> "PixelNetwork":
        """The conditionals of images of these classes."""
        return eqx.tree_at(lambda one: one.labels, self, labels, is_leaf=lambda leaf: leaf is None)

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries numbers"]:
        """All conditionals in one pass."""
        above = row = centred(x.reshape(len(x), *self.shape))
        for number, block in enumerate(self.blocks):
            above, row = block(above, row, self._bias(number))
        return self._read(row).reshape(len(x), x.shape[1], self.output.parameter_count)

    def first_row(self, batch: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """Empty windows of rows; the vertical stack has a row of its own even so."""
        _, width, channels = self.shape
        windows = [
            jnp.zeros((batch, block.above.kernel[0], width, block.above.inputs), dtype)
            for block in self.blocks
        ]
        return self.next_row(windows, jnp.zeros((batch, width, channels), dtype), ())

    def next_row(
        self, carried: Tree, pixels: Float[Array, "batch width channels"], features: Tree
    ) -> tuple[Tree, Tree]:
        """One row of the vertical stack, block after block, in windows of as many rows as each sees."""
        del features  # the vertical stack sees nothing of the horizontal one
        windows, given, above = [], [], pixels
        for number, (block, window) in enumerate(zip(self.blocks, carried, strict=True)):
            windows.append(pushed(window, above))
            above, across = block.from_above(windows[-1], self._bias(number))
            given.append(across)
        return windows, given

    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """No pixels to the left."""
        return [jnp.zeros((batch, block.left.kernel[1], block.left.inputs), dtype) for block in self.blocks]

    def at(
        self, along: Tree, above: Tree, pixel: Float[Array, "batch channels"]
    ) -> tuple[Float[Array, "batch channels numbers"], Tree]:
        """One pixel of the horizontal stack; its features are the outputs of all blocks."""
        row, features = pixel, []
        for block, left, given in zip(self.blocks, along, above, strict=True):
            row = block.at(left, given, row)
            features.append(row)
        return self._read(row).reshape(len(pixel), self.shape[-1], -1), features

    def passed(self, along: Tree, pixel: Float[Array, "batch channels"], features: Tree) -> Tree:
        """Windows of the inputs of each block, moved on."""
        return [pushed(left, x) for left, x in zip(along, [pixel, *features[:-1]], strict=True)]

    def _read(self, row: Array) -> Array:
        return read_out(self.hidden, self.last, self.shape[-1], row)

    def _bias(self, block: int) -> ClassBias:
        return of_class(self.tables, self.labels, block)


def _halves(bias: ClassBias, axes: int) -> tuple[Array | float, Array | float]:
    """What the vertical and the horizontal stack add for a class, over so many axes of pixels."""
    if bias is None:
        return 0.0, 0.0
    vertical, horizontal = jnp.split(spread_over(bias, axes), 2, axis=-1)
    return vertical, horizontal


def _gate(x: Float[Array, "*leading twice"]) -> Float[Array, "*leading units"]:
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.tanh(a) * jax.nn.sigmoid(b)


__all__ = ["Gated", "PixelNetwork"]
