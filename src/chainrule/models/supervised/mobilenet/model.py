"""MobileNetV2: blocks that widen, filter every channel by itself, and narrow again without a nonlinearity."""

from typing import Annotated, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config
from chainrule.models.supervised.supervised_model import Supervised, chain, output_count
from chainrule.networks.image_towers import (
    FEW_FOR_WIDE,
    ConvBlock,
    PixelsSetting,
    SizeSetting,
    Stages,
    StochasticDepthSetting,
    colours,
    depth_rates,
    entered,
)
from chainrule.nn import Dropout, Linear, StochasticDepth, global_average_pool

DEPTHS = (1, 2, 3, 4, 3, 3, 1)
WIDTHS = (16, 24, 32, 64, 96, 160, 320)
STEM, FEATURES = 32, 1280
"""Channels before the first stage and after the last one."""
HALVING = (True, False, True, True, True, False, True, False)
"""Whether the stem and the first block of each stage halve the image, as published."""
FEWEST = 3
"""Pixels a side that are left at least, unless the settings say otherwise."""


@final
class MobileNetConfig(Config):
    """Settings of MobileNetV2."""

    scale: float = Field(
        1.0,
        gt=0,
        le=16,
        description="factor on every published width, rounded to multiples of 8; the default is 0.5 below 50,000 "
        "training images",
    )
    depths: tuple[Annotated[int, Field(ge=1, le=1000)], ...] | None = Field(
        None, min_length=1, description="blocks of each stage, of at most 7; default: 1,2,3,4,3,3,1"
    )
    widths: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        None,
        min_length=1,
        description="channels of each stage as they are; default: the published ones, scaled",
    )
    stem: int | None = Field(None, ge=1, description="channels of the first convolution; default: 32, scaled")
    features: int | None = Field(
        None,
        ge=1,
        description="channels of the last convolution; default: 1280, scaled where scale is above 1",
    )
    expansion: int = Field(
        6, ge=1, le=64, description="how much wider a block is inside, but in the first stage"
    )
    halvings: int | None = Field(
        None,
        ge=0,
        le=5,
        description="how often the image is halved; default: 5 as published, fewer where less than 3 pixels a side "
        "would be left. The first ones are left out",
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="share of the final features dropped while training")
    stochastic_depth: StochasticDepthSetting = 0.0
    pixels: PixelsSetting = "none"
    size: SizeSetting = 0

    def stages(self) -> Stages:
        """The published ones, scaled, where none are given."""
        widths = self.widths or tuple(rounded(width * self.scale) for width in WIDTHS)
        depths = self.depths or DEPTHS
        if len(depths) != len(widths) or len(depths) > len(DEPTHS):
            raise ArgumentError(
                f"mobilenet: depths={depths} and widths={widths} do not name the same stages, {len(DEPTHS)} at most",
                remedy="give both, one number for each stage, e.g. depths=1,2,2 widths=16,24,32",
            )
        return Stages(depths, widths)


@final
class InvertedResidual(eqx.Module):
    """A 1 x 1 convolution that widens, a 3 x 3 one of every channel by itself, a 1 x 1 one that narrows, and a skip."""

    layers: tuple[ConvBlock, ...]
    drop: StochasticDepth
    skip: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, *, expansion: int, stride: int, stochastic_depth: float, key: Key
    ) -> None:
        inner = inputs * expansion
        keys = jax.random.split(key, 3)
        widen = [_block(inputs, inner, 1, key=keys[0])] if expansion > 1 else []
        self.layers = (
            *widen,
            _block(inner, inner, 3, stride=stride, groups=inner, key=keys[1]),
            _block(inner, outputs, 1, act="identity", key=keys[2]),
        )
        self.drop = StochasticDepth(stochastic_depth)
        self.skip = stride == 1 and inputs == outputs

    def __call__(
        self, x: Float[Array, "batch height width inputs"], key: Key
    ) -> tuple[Float[Array, "batch new_height new_width outputs"], Self]:
        """The image moved on, and the block with its running statistics moved on when training."""
        y, moved = chain(self.layers, x, key)
        after = eqx.tree_at(lambda block: block.layers, self, moved)
        return (x + self.drop(y, key) if self.skip else y), after


@final
class MobileNet(Supervised):
    """A stem, inverted residuals at falling resolution, a wide convolution, the mean over the image, one affine map."""

    stem: ConvBlock
    blocks: tuple[InvertedResidual, ...]
    last: ConvBlock
    dropout: Dropout
    head: Linear
    config: MobileNetConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: MobileNetConfig, schema: Schema, key: Key) -> None:
        depths, widths = config.stages()
        strides = _strides(config, schema, len(depths))
        for_stem, for_last, for_head, key = jax.random.split(key, 4)
        channels = config.stem or rounded(STEM * config.scale)
        self.stem = _block(colours(schema.shape, config.pixels), channels, 3, stride=strides[0], key=for_stem)
        rates = iter(depth_rates(config.stochastic_depth, sum(depths)))
        blocks = []
        for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            for j, own in enumerate(jax.random.split(jax.random.fold_in(key, i), depth)):
                blocks.append(
                    InvertedResidual(
                        *(channels, width),
                        expansion=config.expansion if i else 1,
                        stride=1 if j else strides[i + 1],
                        stochastic_depth=next(rates),
                        key=own,
                    )
                )
                channels = width
        self.blocks = tuple(blocks)
        features = config.features or rounded(FEATURES * max(1.0, config.scale))
        self.last = _block(channels, features, 1, key=for_last)
        self.dropout = Dropout(config.dropout)
        self.head = Linear(features, output_count(schema), key=for_head)
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""
        x, stem = self.stem(entered(x, self.config.pixels, self.config.size), key)
        x, blocks = chain(self.blocks, x, key)
        x, last = self.last(x, key)
        moved = eqx.tree_at(lambda model: (model.stem, model.blocks, model.last), self, (stem, blocks, last))
        return self.head(self.dropout(global_average_pool(x), key)), moved


def rounded(width: float) -> int:
    """The multiple of 8 nearest to a width, at least 8 and not below nine tenths of it, as the published networks have.

    >>> rounded(16), rounded(11.2), rounded(14), rounded(1.0)
    (16, 16, 16, 8)
    """
    near = max(8, int(width + 4) // 8 * 8)
    return near + 8 if near < 0.9 * width else near


def suited(config: MobileNetConfig, schema: Schema, examples: int | None) -> dict[str, float]:
    """Half of every width where the images are far fewer than those the network was published for."""
    del config, schema
    return {"scale": 0.5} if examples is not None and examples < FEW_FOR_WIDE else {}


def _block(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, act: str = "relu6", key: Key
) -> ConvBlock:
    return ConvBlock(
        *(inputs, outputs, kernel),
        stride=stride,
        groups=groups,
        bias=False,
        normalization="batch",
        act=act,
        key=key,
    )


def _strides(config: MobileNetConfig, schema: Schema, stages: int) -> list[int]:
    """Of the stem and of the first block of each stage: the last few of the published halvings."""
    published = HALVING[: stages + 1]
    side = config.size or min(schema.shape[:2])
    wanted = config.halvings
    if wanted is None:
        wanted = max((n for n in range(sum(published) + 1) if side >> n >= FEWEST), default=0)
    elif wanted > sum(published) or side >> wanted < 1:
        most = max(n for n in range(sum(published) + 1) if side >> n >= 1)
        raise ArgumentError(
            f"mobilenet(halvings={wanted}): images of {side} pixels and {stages} stages can be halved {most} times",
            remedy=f"halvings={most} is the most, or resize the images: size={1 << wanted}",
        )
    left_out = sum(published) - wanted
    strides = []
    for halves in published:
        strides.append(2 if halves and not left_out else 1)
        left_out -= halves and left_out > 0
    return strides


__all__ = ["DEPTHS", "WIDTHS", "InvertedResidual", "MobileNet", "MobileNetConfig", "rounded", "suited"]
