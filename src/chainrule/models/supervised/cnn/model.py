"""A small convolutional network: stages of convolutions at falling resolution, then the mean over the image."""

from typing import Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config
from chainrule.models.supervised.supervised_model import Supervised, chain, output_count
from chainrule.networks.image_towers import ConvBlock, Normalization
from chainrule.nn import Dropout, Linear, blur_pool, global_average_pool, max_pool
from chainrule.nn.activations import ActivationName


@final
class CNNConfig(Config):
    """Settings of the convolutional network."""

    stages: int = Field(3, ge=1, le=8, description="resolutions; each halves the image of the one before")
    blocks: int = Field(2, ge=1, le=1000, description="convolutions in each stage")
    width: int = Field(
        32, ge=1, description="channels of the first stage; each further stage has twice as many"
    )
    pool: Literal["max", "blur"] = Field(
        "max",
        description="how a stage halves its image: the largest of every four pixels, or smoothed so that a shift of "
        "the image changes little",
    )
    kernel: int = Field(3, ge=1, le=255, description="side of the convolution kernels")
    activation: ActivationName = Field("relu", description="nonlinearity after every convolution")
    normalization: Normalization = Field("batch", description="before every nonlinearity")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of the final features dropped while training")


@final
class CNN(Supervised):
    """Stages of convolutions with max-pooling between them, the mean of every channel, one affine map."""

    stages: tuple[tuple[ConvBlock, ...], ...]
    dropout: Dropout
    head: Linear
    config: CNNConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: CNNConfig, schema: Schema, key: Key) -> None:
        smallest = min(schema.shape[:2]) >> (config.stages - 1)
        if smallest < 1:
            raise ArgumentError(
                f"cnn(stages={config.stages}): images of {schema.shape[0]} x {schema.shape[1]} pixels cannot be halved "
                f"{config.stages - 1} times",
                remedy=f"stages={min(schema.shape[:2]).bit_length()} is the most",
            )
        key_head, key = jax.random.split(key)
        widths = [config.width << stage for stage in range(config.stages)]
        channels, stages = schema.shape[2], []
        for stage, width in enumerate(widths):
            keys = jax.random.split(jax.random.fold_in(key, stage), config.blocks)
            inputs = [channels] + [width] * (config.blocks - 1)
            stages.append(tuple(self._block(n, width, config, k) for n, k in zip(inputs, keys, strict=True)))
            channels = width
        self.stages = tuple(stages)
        self.dropout = Dropout(config.dropout)
        self.head = Linear(channels, output_count(schema), key=key_head)
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""
        moved = []
        for i, stage in enumerate(self.stages):
            x = self._halved(x) if i else x
            x, after = chain(stage, x, key)
            moved.append(after)
        features = self.dropout(global_average_pool(x), key)
        return self.head(features), eqx.tree_at(lambda model: model.stages, self, tuple(moved))

    def _halved(self, x: Array) -> Array:
        return max_pool(x, 2) if self.config.pool == "max" else blur_pool(max_pool(x, 2, stride=1))

    @staticmethod
    def _block(inputs: int, outputs: int, config: CNNConfig, key: Key) -> ConvBlock:
        return ConvBlock(
            *(inputs, outputs, config.kernel),
            bias=config.normalization == "none",  # a normaliser has a shift of its own
            normalization=config.normalization,
            act=config.activation,
            key=key,
        )


__all__ = ["CNN", "CNNConfig"]
