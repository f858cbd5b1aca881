"""PixelCNN with two stacks: one looks at all rows above, one along the row (van den Oord et al., 2016).

A single stack of masked convolutions never sees a wedge to the upper right of a pixel. Here a vertical stack reads
whole rows above, unmasked, and passes on to a horizontal stack that reads the row itself up to the pixel. Channels of a
pixel come in order: each sees those before it, by masks on the weights that act within a pixel.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.conditionals import Conditionals
from chainrule.models.autoregressive.vectors import VectorModel
from chainrule.models.protocol import Config
from chainrule.nn import Conv, Linear
from chainrule.probability.distributions.outputs import BernoulliOutput, LevelsOutput, OutputDistribution


@final
class PixelCNNConfig(Config):
    """Settings of PixelCNN."""

    width: int = Field(32, ge=1, description="features of each stack; the channels of an image divide it")
    blocks: int = Field(4, ge=0, le=1000, description="gated blocks after the first")
    first_kernel: int = Field(7, ge=3, le=255, description="how far the first block looks, across; odd")
    kernel: int = Field(3, ge=3, le=255, description="how far every other block looks, across; odd")


def suited(config: PixelCNNConfig, schema: Schema, examples: int | None) -> dict[str, int]:
    """The default width, or the next one that the channels of these images divide."""
    del examples
    channels = schema.shape[-1]
    return {"width": -(-config.width // channels) * channels}


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

    def __call__(
        self,
        above: Float[Array, "batch height width features"],
        row: Float[Array, "batch height width features"],
    ) -> tuple[Float[Array, "batch height width units"], Float[Array, "batch height width units"]]:
        """The features of both stacks."""
        height, width = row.shape[1:3]
        # Rows up to the one before (first) or up to this one; columns up to the one before.
        seen = self.above(above)[:, :height]
        here = masked(self.here, self.channels, row, strictly=self.first, halves=2)
        beside = self.left(row)[:, :, :width] + here + self.across(seen)
        new = masked(self.out, self.channels, _gate(beside))
        return _gate(seen), new if self.first else row + new


@final
class PixelNetwork(Conditionals):
    """The distribution of every channel of a pixel, given the pixels before it row by row and earlier channels."""

    blocks: tuple[Gated, ...]
    hidden: Linear
    last: Linear
    output: OutputDistribution
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self, shape: tuple[int, int, int], config: PixelCNNConfig, output: OutputDistribution, key: Key
    ) -> None:
        channels = shape[-1]
        for name in ("first_kernel", "kernel"):
            if getattr(config, name) % 2 == 0:
                raise ArgumentError(
                    f"{name}={getattr(config, name)}: a kernel has a middle, so it must be odd"
                )
        if config.width % channels:
            raise ArgumentError(
                f"width={config.width}: {channels} channels share the features evenly",
                remedy=f"use width={channels * (config.width // channels + 1)}",
            )
        keys = jax.random.split(key, config.blocks + 3)
        sizes = [(channels, config.first_kernel), *[(config.width, config.kernel)] * config.blocks]
        self.blocks = tuple(
            Gated(inputs, config.width, kernel, channels, first=number == 0, key=one)
            for number, ((inputs, kernel), one) in enumerate(zip(sizes, keys, strict=False))
        )
        self.hidden = Linear(config.width, config.width, initializer="xavier", key=keys[-2])
        last = Linear(
            config.width, channels * output.parameter_count, initializer="xavier", gain=0.1, key=keys[-1]
        )
        start = jnp.tile(jnp.asarray(output.initial_parameters(), last.weight.dtype), channels)
        self.last = eqx.tree_at(lambda layer: layer.bias, last, start)
        self.output = output
        self.shape = shape

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries numbers"]:
        """All conditionals in one pass."""
        above = row = x.reshape(len(x), *self.shape) - 0.5
        for block in self.blocks:
            above, row = block(above, row)
        channels = self.shape[-1]
        row = jax.nn.relu(masked(self.hidden, channels, jax.nn.relu(row)))
        return masked(self.last, channels, row).reshape(len(x), x.shape[1], self.output.parameter_count)


def masked(
    layer: Linear,
    channels: int,
    x: Float[Array, "*leading inputs"],
    *,
    strictly: bool = False,
    halves: int = 1,
) -> Float[Array, "*leading outputs"]:
    """A dense layer within a pixel, whose outputs for a channel see inputs of no later one (`strictly`: of earlier).

    Features belong to the channels in equal shares, in each of the `halves` of the outputs.
    """
    inputs, outputs = layer.weight.shape
    mask = _channel_mask(inputs, outputs // halves, channels, strictly)
    weight = jnp.where(jnp.tile(mask, (1, halves)), layer.weight, 0)
    return eqx.tree_at(lambda layer: layer.weight, layer, weight)(x)


def _channel_mask(inputs: int, outputs: int, channels: int, strictly: bool) -> Bool[Array, "inputs outputs"]:
    """
    >>> _channel_mask(3, 3, 3, strictly=True).astype(int)
    Array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]], dtype=int32)
    """
    of_input, of_output = (jnp.arange(n) * channels // n for n in (inputs, outputs))
    return of_input[:, None] < of_output[None, :] + (not strictly)


def _gate(x: Float[Array, "*leading twice"]) -> Float[Array, "*leading units"]:
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.tanh(a) * jax.nn.sigmoid(b)


def build(config: PixelCNNConfig, schema: Schema, key: Key) -> VectorModel:
    """A fresh model."""
    if not schema.levels:
        raise CapabilityError(
            "pixel-cnn needs pixels with levels; these are continuous",
            remedy="give images as files, not numbers",
        )
    output = BernoulliOutput() if schema.levels == 2 else LevelsOutput(schema.levels)
    height, width, channels = schema.shape
    network = PixelNetwork((height, width, channels), config, output, key)
    return VectorModel((network,), (jnp.arange(schema.dimensions),), config, schema)


__all__ = ["Gated", "PixelCNNConfig", "PixelNetwork", "build", "masked", "suited"]
