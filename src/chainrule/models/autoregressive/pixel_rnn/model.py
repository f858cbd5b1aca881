"""PixelRNN: settings, and the choice between LSTMs along diagonals, from row to row and from pixel to pixel."""

from typing import Literal, final

from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.conditionals import Conditionals
from chainrule.models.autoregressive.pixel_rnn.diagonal import DiagonalLSTM
from chainrule.models.autoregressive.pixel_rnn.raster import RasterLSTM
from chainrule.models.autoregressive.pixel_rnn.row import RowLSTM
from chainrule.models.autoregressive.pixel_stack import MakeLayer, PixelStack
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
class PixelRNNConfig(PixelConfig):
    """Settings of PixelRNN."""

    variant: Literal["diagonal", "row", "raster"] = Field(
        "diagonal",
        description="where states go: along both diagonals (a pixel sees all before it), from row to row (a triangle), "
        "or from pixel to pixel (all, through one long chain)",
    )
    width: int = Field(32, ge=1, description="numbers in a state; the channels of an image divide it")
    depth: int = Field(3, ge=1, le=100, description="recurrent layers on top of each other")
    first_kernel: int = Field(
        7, ge=3, le=255, description="how far the convolution before them looks, across; odd; not for raster"
    )
    kernel: int = Field(3, ge=3, le=255, description="row: how many states above a state comes from; odd")


def suited(config: PixelRNNConfig, schema: Schema, examples: int | None) -> dict[str, int]:
    """The default width, or the next one that the channels of these images divide."""
    del examples
    return even_width(config.width, schema)


def build(config: PixelRNNConfig, schema: Schema, key: Key) -> VectorModel:
    """A fresh model."""
    output = output_of("pixel-rnn", schema)
    check_kernels(config, "first_kernel", "kernel")
    width, channels = config.width, schema.shape[-1]
    network: Conditionals
    if config.variant == "raster":
        network = RasterLSTM(schema, config, output, width=width, depth=config.depth, key=key)
        return pixel_model(network, config, schema)
    check_width(width, channels)
    layers: dict[str, MakeLayer] = {
        "diagonal": lambda key: DiagonalLSTM(width, channels, key),
        "row": lambda key: RowLSTM(width, config.kernel, channels, key),
    }
    network = PixelStack(
        schema,
        config,
        output,
        width=2 * width,
        first_kernel=config.first_kernel,
        make=layers[config.variant],
        depth=config.depth,
        key=key,
    )
    return pixel_model(network, config, schema)


__all__ = ["PixelRNNConfig", "build", "suited"]
