"""AlexNet: five convolutions with large first kernels, overlapping pooling, and two wide dense layers."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.errors import DataError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, Flattened
from chainrule.models.supervised.supervised_model import Supervised, output_count
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
from chainrule.nn import adaptive_average_pool, average_pool, max_pool

GRID = 6
"""Side of the feature map that the dense layers see."""
SMALLEST = 63
KERNELS = (11, 5, 3, 3, 3)
POOLED = (0, 1, 4)
"""Convolutions that pooling follows."""


class Variant(NamedTuple):
    """What distinguishes the published forms."""

    widths: tuple[int, ...]
    groups: tuple[int, ...] = (1, 1, 1, 1, 1)
    responses: bool = False
    """Whether the first two layers are divided by the activity of neighbouring channels."""


VARIANTS = {
    "single": Variant((96, 256, 384, 256, 256)),
    "torchvision": Variant((64, 192, 384, 256, 256)),
    "original": Variant((96, 256, 384, 384, 256), (1, 2, 1, 2, 2), responses=True),
}


@final
class AlexNetConfig(Config):
    """Settings of AlexNet."""

    variant: Literal["single", "torchvision", "original"] = Field(
        "single",
        description="single stream; torchvision's narrower one; the original's two groups with normalised responses",
    )
    scale: ScaleSetting = 1.0
    dropout: float = Field(0.5, ge=0, lt=1, description="share of dense units dropped while training")
    size: int = Field(
        0, ge=0, description="pixels a side that images are resized to; 0: only if below 63, to 63"
    )
    pixels: PixelsSetting = "none"


@final
class AlexNet(Supervised):
    """Five convolutions, three poolings, a dense head."""

    convolutions: tuple[ConvBlock, ...]
    head: DenseHead
    size: int = eqx.field(static=True)
    config: AlexNetConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: AlexNetConfig, schema: Schema, key: Key) -> None:
        *keys, key_head = jax.random.split(key, 6)
        variant = VARIANTS[config.variant]
        # A width is a multiple of the groups that it is split into.
        widths = [2 * scaled(w // 2, config.scale) for w in variant.widths]
        layers = []
        for i, (width, key_conv) in enumerate(zip(widths, keys, strict=True)):
            layers.append(
                ConvBlock(
                    *(widths[i - 1] if i else colours(schema.shape, config.pixels), width, KERNELS[i]),
                    stride=1 if i else 4,
                    padding=KERNELS[i] // 2 if i else 2,
                    groups=variant.groups[i],
                    key=key_conv,
                )
            )
        self.convolutions = tuple(layers)
        self.head = DenseHead(
            *(GRID * GRID * widths[-1], scaled(4096, config.scale), output_count(schema)),
            dropout=config.dropout,
            drop_first=True,
            key=key_head,
        )
        self.size = side(schema.shape, config.size, SMALLEST, "alexnet")
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model: it has no state."""
        x = entered(x, self.config.pixels, self.size)
        for i, layer in enumerate(self.convolutions):
            x, _ = layer(x, key)
            if i < 2 and VARIANTS[self.config.variant].responses:
                x = normalized_responses(x)
            if i in POOLED:
                x = max_pool(x, 3, stride=2)
        return self.head(adaptive_average_pool(x, GRID), key), self


def normalized_responses(
    x: Float[Array, "batch height width channels"],
    *,
    neighbours: int = 5,
    alpha: float = 1e-4,
    beta: float = 0.75,
    offset: float = 2.0,
) -> Float[Array, "batch height width channels"]:
    """Activities divided by `(offset + alpha Σ a²)^beta`, the sum over neighbouring channels (section 3.3 there)."""
    around = average_pool(
        (x**2)[..., None], (1, 1, neighbours), stride=1, padding=(0, 0, neighbours // 2), dimensions=3
    )
    return x / (offset + alpha * neighbours * around[..., 0]) ** beta


def torch_names(_: AlexNet) -> dict[str, str | Flattened]:
    """Where torchvision keeps the weights of each layer."""
    indices = (0, 3, 6, 8, 10)
    names: dict[str, str | Flattened] = {
        f"convolutions.{i}.conv": f"features.{index}" for i, index in enumerate(indices)
    }
    names["head.layers.0"] = Flattened("classifier.1", (GRID, GRID))
    return names | {"head.layers.1": "classifier.4", "head.layers.2": "classifier.6"}


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the AlexNet that a file of torchvision holds, and the pixels it expects."""
    widths = tuple(shapes.get(f"features.{i}.weight", (0,))[0] for i in (0, 3, 6, 8, 10))
    found = [name for name, variant in VARIANTS.items() if variant.widths == widths and not variant.responses]
    if not found:
        raise DataError(
            f"the file holds no AlexNet of torchvision's: convolutions of {widths} channels",
            remedy=f"known is {VARIANTS['torchvision'].widths}",
        )
    return {"variant": found[0], "scale": 1.0, "pixels": "imagenet"}


__all__ = ["AlexNet", "AlexNetConfig", "normalized_responses", "published", "torch_names"]
