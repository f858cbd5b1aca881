"""Images pixel by pixel: what all networks over pixels share, and samples that never compute anything twice.

A sample needs the conditionals of one pixel at a time. Of a whole pass only what belongs to that pixel is computed;
what it takes from the rows above is worked out once for each row, what it takes from its left is carried along.
"""

import abc
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import SymbolDistributions
from chainrule.models.autoregressive.conditionals import Conditionals, Continuation
from chainrule.models.autoregressive.masked import masked
from chainrule.models.autoregressive.pixel_coding import centred, pixel_by_pixel
from chainrule.models.autoregressive.vectors import VectorModel
from chainrule.models.protocol import Config
from chainrule.nn import Linear
from chainrule.probability.distributions.outputs import BernoulliOutput, LevelsOutput, OutputDistribution


class PixelConfig(Config, abc.ABC):
    """Settings that networks over pixels share."""

    condition: Literal["none", "class"] = Field(
        "none", description="what an image is drawn for: nothing, or its class, where the data have classes"
    )


class PixelConditionals(Conditionals):
    """The distribution of every channel of a pixel, given the pixels before it row by row and earlier channels.

    Pixels come to the network around zero, so that what lies beyond the edges is in the middle of their range.
    """

    shape: eqx.AbstractVar[tuple[int, int, int]]

    @abc.abstractmethod
    def first_row(self, batch: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """What is carried from row to row, and what the pixels of the first row are given from above.

        Arrays of the latter are (batch, width, ...).
        """

    @abc.abstractmethod
    def next_row(
        self, carried: Tree, pixels: Float[Array, "batch width channels"], features: Tree
    ) -> tuple[Tree, Tree]:
        """The same for the next row, when a row is complete; features are those of `at`, (batch, width, ...)."""

    @abc.abstractmethod
    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """What is carried along a row, at its beginning."""

    @abc.abstractmethod
    def at(
        self, along: Tree, above: Tree, pixel: Float[Array, "batch channels"]
    ) -> tuple[Float[Array, "batch channels numbers"], Tree]:
        """The conditionals of one pixel, of which earlier channels are known, and its features."""

    @abc.abstractmethod
    def passed(self, along: Tree, pixel: Float[Array, "batch channels"], features: Tree) -> Tree:
        """What is carried along the row after a pixel."""

    def distributions(
        self, rows: int, known: np.ndarray | None, entries: int, levels: int
    ) -> SymbolDistributions:
        """Pixel after pixel, whether they are known or not."""
        del known, entries
        return pixel_by_pixel(self, rows, levels)

    def held(self, entries: int) -> int:
        """One after another."""
        del entries
        return 1

    def continued(self, x: Float[Array, "batch entries"], how: Continuation) -> Float[Array, "batch entries"]:
        """Pixel after pixel, each at the cost of one pixel of a pass."""
        height, width, channels = self.shape
        batch = len(x)

        def column(along: Tree, now: tuple[Array, Tree, Array]) -> tuple[Tree, tuple[Array, Tree]]:
            number, above, known = now
            pixel = jnp.zeros_like(known)
            for channel in range(channels):
                # No feature sees the last channel of its own pixel, so that those of the last round are complete.
                parameters, features = self.at(along, above, centred(pixel))
                value = self.drawn(parameters[:, channel], number + channel, known[:, channel], how)
                pixel = pixel.at[:, channel].set(value)
            return self.passed(along, centred(pixel), features), (pixel, features)

        def row(carry: tuple[Tree, Tree], now: tuple[Array, Array]) -> tuple[tuple[Tree, Tree], Array]:
            (carried, above), (numbers, known) = carry, now
            start = self.before_first(batch, x.dtype)
            over = (numbers, jax.tree.map(_turned, above), _turned(known))
            _, found = jax.lax.scan(column, start, over)
            pixels, features = jax.tree.map(_turned, found)
            return self.next_row(carried, centred(pixels), features), pixels

        numbers = channels * jnp.arange(height * width).reshape(height, width)
        rows = _turned(x.reshape(batch, height, width, channels))
        _, drawn = jax.lax.scan(row, self.first_row(batch, x.dtype), (numbers, rows))
        return _turned(drawn).reshape(batch, -1)


def _turned(x: Array) -> Array:
    return jnp.swapaxes(x, 0, 1)


def class_tables(schema: Schema, config: PixelConfig, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """For each layer a vector of its size for every class, at first zero; nothing without classes."""
    if config.condition == "none":
        return ()
    if not schema.classes:
        raise CapabilityError(
            "condition=class: these data have no classes",
            remedy="leave it out, or give labels, for example a folder of images for each class",
        )
    return tuple(jnp.zeros((len(schema.classes), size)) for size in sizes)


def of_class(
    tables: tuple[Array, ...], labels: Int[Array, " batch"] | None, layer: int
) -> Float[Array, "batch size"] | None:
    """What a layer is given for the class of each image, if the network knows classes."""
    return None if labels is None or not tables else tables[layer][labels]


def spread_over(bias: Float[Array, "batch size"] | None, axes: int) -> Array | float:
    """The same for every pixel of images with so many axes between batch and features."""
    return 0.0 if bias is None else jnp.expand_dims(bias, tuple(range(1, 1 + axes)))


def check_kernels(config: Config, *names: str) -> None:
    """Raise unless kernels have a middle."""
    for name in names:
        if getattr(config, name) % 2 == 0:
            raise ArgumentError(f"{name}={getattr(config, name)}: a kernel has a middle, so it must be odd")


def check_width(width: int, channels: int) -> None:
    """Raise unless the channels share the features evenly."""
    if width % channels:
        raise ArgumentError(
            f"width={width}: {channels} channels share the features evenly",
            remedy=f"use width={channels * (width // channels + 1)}",
        )


def even_width(width: int, schema: Schema) -> dict[str, int]:
    """This width, or the next one that the channels of these images divide."""
    channels = schema.shape[-1]
    return {"width": -(-width // channels) * channels}


def heads(
    width: int, channels: int, output: OutputDistribution, keys: tuple[Key, Key]
) -> tuple[Linear, Linear]:
    """Two dense layers within a pixel, from features to the parameters of its channels."""
    hidden = Linear(width, width, initializer="xavier", key=keys[0])
    last = Linear(width, channels * output.parameter_count, initializer="xavier", gain=0.1, key=keys[1])
    start = jnp.tile(jnp.asarray(output.initial_parameters(), last.weight.dtype), channels)
    return hidden, eqx.tree_at(lambda layer: layer.bias, last, start)


def read_out(
    hidden: Linear, last: Linear, channels: int, features: Float[Array, "*leading features"]
) -> Float[Array, "*leading numbers"]:
    """The parameters of all channels of each pixel."""
    inner = jax.nn.relu(masked(hidden, channels, jax.nn.relu(features)))
    return masked(last, channels, inner)


def output_of(name: str, schema: Schema) -> OutputDistribution:
    """A coin for black and white, otherwise one of the levels."""
    if not schema.levels:
        raise CapabilityError(
            f"{name} needs pixels with levels; these are continuous",
            remedy="give images as files, not numbers",
        )
    return BernoulliOutput() if schema.levels == 2 else LevelsOutput(schema.levels)


def image_shape(schema: Schema) -> tuple[int, int, int]:
    """Height, width and channels."""
    height, width, channels = schema.shape
    return height, width, channels


def pixel_model(network: Conditionals, config: PixelConfig, schema: Schema) -> VectorModel:
    """The model of images row by row, with the frequencies of the classes where the network knows them."""
    prior = jnp.zeros(len(schema.classes)) if config.condition == "class" else None
    return VectorModel((network,), (jnp.arange(schema.dimensions),), config, schema, prior)


__all__ = [
    "PixelConditionals",
    "PixelConfig",
    "centred",
    "check_kernels",
    "check_width",
    "class_tables",
    "even_width",
    "heads",
    "image_shape",
    "of_class",
    "output_of",
    "pixel_model",
    "read_out",
    "spread_over",
]
