"""Residual networks: every block adds a correction to what it is given."""

from typing import Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config
from chainrule.models.supervised.supervised_model import Supervised, output_count
from chainrule.networks.image_towers import (
    ConvBlock,
    PixelsSetting,
    SizeSetting,
    StochasticDepthSetting,
    colours,
    depth_rates,
    entered,
)
from chainrule.nn import Linear, Norm, ResidualBlock, activation, global_average_pool, max_pool, norm

LARGE = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks per stage for large images: a 7 x 7 stem of 64 channels, pooling, four stages."""
SMALL = {depth: ((depth - 2) // 6,) * 3 for depth in (8, 14, 20, 32, 44, 56, 110)}
"""Blocks per stage for small images: a 3 x 3 stem of 16 channels, three stages."""
GAIN = activation("relu").gain


@final
class ResNetConfig(Config):
    """Settings of residual networks."""

    depth: Literal[8, 14, 20, 32, 44, 56, 110, 18, 34, 50, 101, 152] = Field(
        14,
        description="layers with weights: 8 to 110 in steps of 6n + 2 for small images, 18 to 152 for large",
    )
    width: int = Field(
        0, ge=0, description="channels of the first stage; 0: 16 for small images, 64 for large"
    )
    skip: bool = Field(
        True, description="add the input of a block to its output; off only to see why it is there"
    )
    shortcut: Literal["auto", "projection", "pad"] = Field(
        "auto",
        description="where shapes change: a 1 x 1 convolution, or leaving out pixels and adding channels of zeros "
        "(auto: pad for small images, projection for large)",
    )
    preactivation: bool = Field(False, description="normalise and rectify before each convolution")
    zero_start: bool = Field(
        True, description="start the last scale of every block at zero: blocks begin as copies"
    )
    stochastic_depth: StochasticDepthSetting = 0.0
    pixels: PixelsSetting = "none"
    size: SizeSetting = 0


@final
class ResNet(Supervised):
    """A stem, stages of residual blocks at falling resolution, the mean over the image, one affine map."""

    stem: ConvBlock
    stages: tuple[tuple[ResidualBlock, ...], ...]
    norm: Norm
    inference: bool
    head: Linear
    config: ResNetConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ResNetConfig, schema: Schema, key: Key) -> None:
        large = config.depth in LARGE
        bottleneck = large and config.depth >= 50
        base = config.width or (64 if large else 16)
        key_stem, key_head, key = jax.random.split(key, 3)
        kernel, stride = (7, 2) if large else (3, 1)
        self.stem = ConvBlock(
            *(colours(schema.shape, config.pixels), base, kernel),
            stride=stride,
            bias=False,
            normalization="none" if config.preactivation else "batch",
            act="identity" if config.preactivation else "relu",
            gain=GAIN,
            key=key_stem,
        )
        channels, stages = base, []
        counts = (LARGE if large else SMALL)[config.depth]
        rates = iter(depth_rates(config.stochastic_depth, sum(counts)))
        for i, count in enumerate(counts):
            blocks = []
            for j, key_block in enumerate(jax.random.split(jax.random.fold_in(key, i), count)):
                outputs = (base << i) * (4 if bottleneck else 1)
                blocks.append(
                    ResidualBlock(
                        *(channels, outputs),
                        stride=2 if i and not j else 1,
                        kind="bottleneck" if bottleneck else "basic",
                        order="pre" if config.preactivation else "post",
                        shortcut="projection" if projects(config) else "pad",
                        zero_last=config.zero_start and config.skip,
                        skip=config.skip,
                        stochastic_depth=next(rates),
                        key=key_block,
                    )
                )
                channels = outputs
            stages.append(tuple(blocks))
        self.stages = tuple(stages)
        self.norm = norm("batch" if config.preactivation else "none", channels)
        self.inference = False
        self.head = Linear(channels, output_count(schema), key=key_head)
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""
        x, stem = self.stem(entered(x, self.config.pixels, self.config.size), key)
        if self.config.depth in LARGE:
            x = max_pool(x, 3, stride=2, padding=1)
        stages = []
        for i, stage in enumerate(self.stages):
            after = []
            for j, block in enumerate(stage):
                x, moved_block = block.advance(x, jax.random.fold_in(jax.random.fold_in(key, i), j))
                after.append(moved_block)
            stages.append(tuple(after))
        x, last = (self.norm(x), self.norm) if self.inference else self.norm.advance(x)
        x = jax.nn.relu(x) if self.config.preactivation else x
        parts = (stem, tuple(stages), last)
        moved = eqx.tree_at(lambda model: (model.stem, model.stages, model.norm), self, parts)
        return self.head(global_average_pool(x)), moved


def projects(config: ResNetConfig) -> bool:
    """Whether a shortcut between unlike shapes has weights."""
    return config.shortcut == "projection" or (config.shortcut == "auto" and config.depth in LARGE)


__all__ = ["LARGE", "ResNet", "ResNetConfig"]
