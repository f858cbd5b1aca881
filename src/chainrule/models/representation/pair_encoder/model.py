"""A joint space of images and captions: two encoders trained by contrast (CLIP; Radford et al., 2021)."""

import math
from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, HasJointSpace, HasScores, Metrics, Scored
from chainrule.networks.token_encoder import TokenEncoder
from chainrule.nn import Conv, Embedding, Linear

_COLDEST = math.log(100.0)
"""Logits are scaled by at most 100: beyond that a single pair decides the gradient."""


@final
class PairEncoderConfig(Config):
    """Settings of the pair encoder."""

    features: int = Field(32, ge=2, description="dimensions of the common space")
    width: int = Field(
        128, ge=4, description="units of the tower of captions, and of the last layer of images"
    )
    channels: int = Field(
        32, ge=1, description="channels of the first convolution; the others have twice as many"
    )
    temperature: float = Field(0.07, gt=0, description="temperature to begin with; it is learned")


@final
class PairEncoder(HasJointSpace, HasScores):
    """Images and captions as vectors of length one, close for what belongs together (Radford et al., 2021)."""

    convs: tuple[Conv, Conv, Conv]
    dense: Linear
    image_exit: Linear
    table: Embedding
    tokens: TokenEncoder
    text_exit: Linear
    scale: Float[Array, ""]
    """Logarithm of one over the temperature."""
    config: PairEncoderConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: PairEncoderConfig, schema: Schema, key: Key) -> None:
        keys = jax.random.split(key, 8)
        height, width, inputs = schema.shape
        wide = 2 * config.channels
        sizes = ((inputs, config.channels, 1), (config.channels, wide, 2), (wide, wide, 2))
        one, two, three = (
            Conv(2, before, after, 3, stride=stride, padding=1, gain=math.sqrt(2), key=k)
            for (before, after, stride), k in zip(sizes, keys, strict=False)
        )
        self.convs = (one, two, three)
        pixels = math.prod(-(-side // 4) for side in (height, width))
        self.dense = Linear(pixels * wide, config.width, key=keys[3], gain=math.sqrt(2))
        self.image_exit = Linear(config.width, config.features, key=keys[4])
        self.table = Embedding(len(schema.target_tokens) + 1, config.width, deviation=1.0, key=keys[5])
        self.tokens = TokenEncoder(schema.target_shape[0], config.width, keys[6])
        self.text_exit = Linear(config.width, config.features, key=keys[7])
        self.scale = jnp.asarray(-math.log(config.temperature), jnp.float32)
        self.config, self.schema = config, schema

    def encode(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch features"]:
        """Images in the common space."""
        h = 2 * x - 1
        for conv in self.convs:
            h = jax.nn.silu(conv(h))
        return _unit(self.image_exit(jax.nn.silu(self.dense(h.reshape(len(h), -1)))))

    def encode_target(self, y: Int[Array, "batch length"]) -> Float[Array, "batch features"]:
        """Captions in the common space."""
        found = self.tokens(self.table(y), y != len(self.schema.target_tokens))
        return _unit(self.text_exit(found.summary))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Cross-entropy of finding the caption of every image and the images of every caption among the batch."""
        del key
        logits = self._logits(batch)
        same = _same(batch.y)
        found = _surprisal(logits, same) + _surprisal(logits.T, same)
        return found / 2, {"temperature": jnp.exp(-self.scale)}

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Whether the nearest caption of the batch is that of the image, and the nearest image one of the caption."""
        del key
        logits, same = self._logits(batch), _same(batch.y)

        def hits(logits: Array) -> Array:
            return jnp.take_along_axis(same, logits.argmax(axis=1)[:, None], axis=1)[:, 0].astype(jnp.float32)

        return {"caption_found": Scored(hits(logits)), "image_found": Scored(hits(logits.T))}

    def _logits(self, batch: Batch) -> Float[Array, "images captions"]:
        scale = jnp.exp(jnp.minimum(self.scale, _COLDEST))
        return scale * (self.encode(batch.x) @ self.encode_target(batch.y).T)


def _unit(x: Float[Array, "batch features"]) -> Float[Array, "batch features"]:
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return x / jnp.sqrt(jnp.square(x).sum(axis=1, keepdims=True) + 1e-12)


def _same(y: Int[Array, "batch length"]) -> Bool[Array, "batch batch"]:
    """Which captions are equal: any of them is the right one."""
    return (y[:, None] == y[None]).all(axis=2)


def _surprisal(logits: Float[Array, "n n"], same: Bool[Array, "n n"]) -> Scalar:
    logs = jax.nn.log_softmax(logits, axis=1)
    return -(jnp.where(same, logs, 0).sum(axis=1) / same.sum(axis=1)).mean()


__all__ = ["PairEncoder", "PairEncoderConfig"]
