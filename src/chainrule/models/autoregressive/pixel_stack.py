"""A network over pixels in one stack: a first masked convolution, layers that add to its features, and a read-out.

What differs between a plain PixelCNN and the two PixelRNNs is the layer alone.
"""

import abc
from collections.abc import Callable
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.masked import MaskedConv, pushed
from chainrule.models.autoregressive.pixels import (
    PixelConditionals,
    PixelConfig,
    centred,
    class_tables,
    heads,
    image_shape,
    of_class,
    read_out,
)
from chainrule.nn import Linear
from chainrule.probability.distributions.outputs import OutputDistribution

ClassBias: TypeAlias = Float[Array, "batch size"] | None
"""What a layer adds for the class of each image."""


class PixelLayer(eqx.Module):
    """Features of all pixels from features of pixels up to them, for whole images or one pixel at a time.

    The arrays of the second way are those of `PixelConditionals`: what is carried from row to row and given from above
    (batch, width, ...), what is carried along a row, and what is kept of a pixel for the rows below.
    """

    @property
    @abc.abstractmethod
    def bias_size(self) -> int:
        """How many numbers it adds for a class."""

    @abc.abstractmethod
    def __call__(
        self,
        x: Float[Array, "batch height width features"],
        pixels: Float[Array, "batch height width channels"],
        bias: ClassBias,
    ) -> Float[Array, "batch height width features"]:
        """The features of whole images; the pixels themselves may go into what rows below are given, nowhere else."""

    @abc.abstractmethod
    def first_row(self, batch: int, width: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """What is carried from row to row, and given to the first."""

    @abc.abstractmethod
    def next_row(
        self,
        carried: Tree,
        x: Float[Array, "batch width features"],
        pixels: Float[Array, "batch width channels"],
        kept: Tree,
        bias: ClassBias,
    ) -> tuple[Tree, Tree]:
        """The same for the next row, from the inputs and pixels of a complete row and what was kept of each."""

    @abc.abstractmethod
    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """What is carried along a row, at its beginning."""

    @abc.abstractmethod
    def at(
        self, along: Tree, above: Tree, x: Float[Array, "batch features"], bias: ClassBias
    ) -> tuple[Float[Array, "batch features"], Tree]:
        """The features of one pixel, and what is kept of it."""

    @abc.abstractmethod
    def passed(self, along: Tree, x: Float[Array, "batch features"], kept: Tree) -> Tree:
        """What is carried along the row after a pixel."""


MakeLayer: TypeAlias = Callable[[Key], PixelLayer]


@final
class PixelStack(PixelConditionals):
    """Layers on top of each other between a masked convolution of type A and two dense layers."""

    first: MaskedConv
    layers: tuple[PixelLayer, ...]
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
        first_kernel: int,
        make: MakeLayer,
        depth: int,
        key: Key,
    ) -> None:
        """`width` is that of the features between the layers."""
        self.shape = image_shape(schema)
        channels = self.shape[-1]
        keys = jax.random.split(key, depth + 3)
        self.first = MaskedConv(channels, width, first_kernel, channels, strictly=True, key=keys[0])
        self.layers = tuple(make(one) for one in keys[1:-2])
        self.hidden, self.last = heads(width, channels, output, (keys[-2], keys[-1]))
        self.tables = class_tables(schema, config, tuple(layer.bias_size for layer in self.layers))
        self.output = output
        self.labels = None

    def of_classes(self, labels: Int[Array, " batch"]) -> "PixelStack":
        """The conditionals of images of these classes."""
        return eqx.tree_at(lambda one: one.labels, self, labels, is_leaf=lambda leaf: leaf is None)

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries numbers"]:
        """All conditionals in one pass."""
        pixels = centred(x.reshape(len(x), *self.shape))
        h = self.first(pixels)
        for number, layer in enumerate(self.layers):
            h = layer(h, pixels, self._bias(number))
        return self._read(h).reshape(len(x), x.shape[1], self.output.parameter_count)

    def first_row(self, batch: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """Rows of pixels and what each layer carries."""
        _, width, channels = self.shape
        window = jnp.zeros((batch, self.first.reach, width, channels), dtype)
        begun = [layer.first_row(batch, width, dtype) for layer in self.layers]
        carried, above = [one[0] for one in begun], [one[1] for one in begun]
        return (window, carried), (self.first.from_above(window), above)

    def next_row(
        self, carried: Tree, pixels: Float[Array, "batch width channels"], features: Tree
    ) -> tuple[Tree, Tree]:
        """The window of rows moved on, and every layer with the features of its row."""
        window = pushed(carried[0], pixels)
        moved = [
            layer.next_row(before, x, pixels, kept, self._bias(number))
            for number, (layer, before, (x, kept)) in enumerate(
                zip(self.layers, carried[1], features, strict=True)
            )
        ]
        below, above = [one[0] for one in moved], [one[1] for one in moved]
        return (window, below), (self.first.from_above(window), above)

    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """No pixels to the left."""
        left = jnp.zeros((batch, self.first.reach, self.shape[-1]), dtype)
        return left, [layer.before_first(batch, dtype) for layer in self.layers]

    def at(
        self, along: Tree, above: Tree, pixel: Float[Array, "batch channels"]
    ) -> tuple[Float[Array, "batch channels numbers"], Tree]:
        """One pixel through all layers; its features are the input of each and what that keeps."""
        h = self.first.at(along[0], above[0], pixel)
        features = []
        for number, layer in enumerate(self.layers):
            out, kept = layer.at(along[1][number], above[1][number], h, self._bias(number))
            features.append((h, kept))
            h = out
        return self._read(h).reshape(len(pixel), self.shape[-1], -1), features

    def passed(self, along: Tree, pixel: Float[Array, "batch channels"], features: Tree) -> Tree:
        """The window of pixels moved on, and what each layer carries."""
        layers = zip(self.layers, along[1], features, strict=True)
        return pushed(along[0], pixel), [layer.passed(one, x, kept) for layer, one, (x, kept) in layers]

    def _read(self, h: Array) -> Array:
        return read_out(self.hidden, self.last, self.shape[-1], h)

    def _bias(self, layer: int) -> ClassBias:
        return of_class(self.tables, self.labels, layer)


__all__ = ["ClassBias", "MakeLayer", "PixelLayer", "PixelStack"]
