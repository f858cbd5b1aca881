"""VGG: nothing but 3 x 3 convolutions and pooling, in five blocks, then two wide dense layers."""

from collections.abc import Mapping
from typing import Any, Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.errors import DataError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, Flattened
from chainrule.models.supervised.supervised_model import Supervised, chain, output_count
from chainrule.networks.image_towers import (
    ConvBlock,
    DenseHead,
    PixelsSetting,
    ScaleSetting,
    colours,
    entered,
    scaled,
    side,
)
from chainrule.nn import adaptive_average_pool, max_pool

CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""How many each block has; with three dense layers they make the number in the name."""
WIDTHS = (64, 128, 256, 512, 512)
GRID = 7
"""Side of the feature map that the dense layers see."""
SMALLEST = 2 ** len(WIDTHS)


@final
class VGGConfig(Config):
    """Settings of VGG."""

    depth: Literal[11, 13, 16, 19] = Field(11, description="layers with weights")
    normalization: Literal["none", "batch"] = Field("batch", description="after every convolution")
    scale: ScaleSetting = 1.0
    dropout: float = Field(0.5, ge=0, lt=1, description="share of dense units dropped while training")
    size: int = Field(
        0, ge=0, description="pixels a side that images are resized to; 0: only if below 32, to 32"
    )
    pixels: PixelsSetting = "none"


@final
class VGG(Supervised):
    """Five blocks of convolutions, each followed by pooling, and a dense head."""

    blocks: tuple[tuple[ConvBlock, ...], ...]
    head: DenseHead
    size: int = eqx.field(static=True)
    config: VGGConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: VGGConfig, schema: Schema, key: Key) -> None:
        key_head, key = jax.random.split(key)
        channels, blocks = colours(schema.shape, config.pixels), []
        for i, (count, published) in enumerate(zip(CONVOLUTIONS[config.depth], WIDTHS, strict=True)):
            width = scaled(published, config.scale)
            keys = jax.random.split(jax.random.fold_in(key, i), count)
            inputs = [channels] + [width] * (count - 1)
            blocks.append(
                tuple(
                    ConvBlock(n, width, normalization=config.normalization, key=k)
                    for n, k in zip(inputs, keys, strict=True)
                )
            )
            channels = width
        self.blocks = tuple(blocks)
        self.head = DenseHead(
            *(GRID * GRID * channels, scaled(4096, config.scale), output_count(schema)),
            dropout=config.dropout,
            drop_first=False,
            key=key_head,
        )
        self.size = side(schema.shape, config.size, SMALLEST, "vgg")
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""
        x = entered(x, self.config.pixels, self.size)
        moved = []
        for block in self.blocks:
            x, after = chain(block, x, key)
            x = max_pool(x, 2)
            moved.append(after)
        out = self.head(adaptive_average_pool(x, GRID), key)
        return out, eqx.tree_at(lambda model: model.blocks, self, tuple(moved))


def torch_names(model: VGG) -> dict[str, str | Flattened]:
    """Where torchvision keeps the weights of each layer."""
    names: dict[str, str | Flattened] = {}
    index = 0
    for i, block in enumerate(model.blocks):
        for j in range(len(block)):
            names[f"blocks.{i}.{j}.conv"] = f"features.{index}"
            if model.config.normalization == "batch":
                names[f"blocks.{i}.{j}.norm"] = f"features.{index + 1}"
                index += 1
            index += 2  # the convolution and its nonlinearity
        index += 1  # pooling
    names["head.layers.0"] = Flattened("classifier.0", (GRID, GRID))
    return names | {f"head.layers.{i}": f"classifier.{3 * i}" for i in (1, 2)}


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the VGG that a file of torchvision holds, and the pixels it expects."""
    kernels = sum(len(shape) == 4 for shape in shapes.values())
    found = [depth for depth, counts in CONVOLUTIONS.items() if sum(counts) == kernels]
    if not found or "classifier.6.weight" not in shapes:
        raise DataError(
            f"the file holds no VGG of torchvision's: {kernels} convolutions",
            remedy=f"known are {', '.join(f'{sum(counts)} ({d})' for d, counts in CONVOLUTIONS.items())}",
        )
    batch = any(name.endswith("running_mean") for name in shapes)
    width = shapes["features.0.weight"][0] if "features.0.weight" in shapes else WIDTHS[0]
    return {
        "depth": found[0],
        "normalization": "batch" if batch else "none",
        "scale": width / WIDTHS[0],
        "pixels": "imagenet",
    }


__all__ = ["VGG", "VGGConfig", "published", "torch_names"]
