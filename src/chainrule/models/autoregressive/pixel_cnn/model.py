"""PixelCNN: settings, and the choice between the gated form with two stacks and the plain one with a single stack."""

from typing import Literal, final

from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.pixel_cnn.gated import PixelNetwork
from chainrule.models.autoregressive.pixel_cnn.plain import PlainBlock
from chainrule.models.autoregressive.pixel_stack import PixelStack
from chainrule.models.autoregressive.pixels import (
    PixelConfig,
    check_kernels,
    check_width,
    even_width,
    output_of,
    pixel_model,
)
from chainrule.models.autoregressive.vectors import VectorModel


@final
class PixelCNNConfig(PixelConfig):
    """Settings of PixelCNN."""

    variant: Literal["gated", "plain"] = Field(
        "gated",
        description="two stacks with gates, or one of masked convolutions, which never sees a wedge to the upper right",
    )
    width: int = Field(32, ge=1, description="features of each stack; the channels of an image divide it")
    blocks: int = Field(4, ge=0, le=1000, description="blocks after the first")
    first_kernel: int = Field(7, ge=3, le=255, description="how far the first block looks, across; odd")
    kernel: int = Field(3, ge=3, le=255, description="how far every other block looks, across; odd")


def suited(config: PixelCNNConfig, schema: Schema, examples: int | None) -> dict[str, int]:
    """The default width, or the next one that the channels of these images divide."""
    del examples
    return even_width(config.width, schema)


def build(config: PixelCNNConfig, schema: Schema, key: Key) -> VectorModel:
    """A fresh model."""
    output = output_of("pixel-cnn", schema)
    check_kernels(config, "first_kernel", "kernel")
    width, channels = config.width, schema.shape[-1]
    check_width(width, channels)
    network: PixelNetwork | PixelStack
    if config.variant == "gated":
        kernels = (config.first_kernel, *(config.kernel,) * config.blocks)
        network = PixelNetwork(schema, config, output, width=width, kernels=kernels, key=key)
    else:
        network = PixelStack(
            schema,
            config,
            output,
            width=2 * width,
            first_kernel=config.first_kernel,
            make=lambda key: PlainBlock(width, config.kernel, channels, key),
            depth=config.blocks,
            key=key,
        )
    return pixel_model(network, config, schema)


__all__ = ["PixelCNNConfig", "build", "suited"]
