"""The multi-layer perceptron: affine maps with a nonlinearity between them."""

import math
from collections.abc import Sequence
from typing import Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.base import Batch, Schema
from chainrule.models.base import CanPredict, Config, HasState, Metrics
from chainrule.nn import Dropout, Linear, Norm, activation, losses, norm


@final
class MLPConfig(Config):
    """Settings of the multi-layer perceptron."""

    depth: int = Field(3, ge=1, le=100, description="number of affine layers; 1 is a linear model")
    width: int = Field(512, ge=1, description="units of each hidden layer")
    activation: Literal[
        "relu", "leaky-relu", "elu", "tanh", "sigmoid", "gelu", "silu", "softplus", "identity"
    ] = Field("relu", description="nonlinearity after every hidden layer")
    final_activation: Literal["identity", "relu"] = Field(
        "identity", description="after the last layer; anything but identity throws away part of the logits"
    )
    normalization: Literal["none", "batch", "layer"] = Field("none", description="before every nonlinearity")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of hidden units dropped while training")
    initializer: Literal["he", "xavier", "lecun", "orthogonal", "torch"] = Field(
        "he", description="distribution of the initial weights; the gain follows the activation"
    )


@final
class Block(eqx.Module):
    """One hidden layer: affine map, normalisation, nonlinearity, dropout."""

    linear: Linear
    norm: Norm
    dropout: Dropout
    activation: str = eqx.field(static=True)

    def __init__(self, inputs: int, config: MLPConfig, key: Key) -> None:
        gain = activation(config.activation).gain
        self.linear = Linear(inputs, config.width, key=key, initializer=config.initializer, gain=gain)
        self.norm = norm(config.normalization, config.width)
        self.dropout = Dropout(config.dropout)
        self.activation = config.activation

    def __call__(self, x: Float[Array, "batch inputs"], key: Key) -> tuple[Float[Array, "batch width"], Self]:
        """The hidden activations, and the block with its running statistics moved on when training."""
        x = self.linear(x)
        x, moved = (self.norm(x), self.norm) if self.dropout.inference else self.norm.advance(x)
        x = self.dropout(activation(self.activation)(x), key)
        return x, eqx.tree_at(lambda block: block.norm, self, moved)


@final
class MLP(HasState, CanPredict):
    """Hidden blocks and a last affine map, by default without a nonlinearity after it.

    Class targets are trained by cross-entropy, numeric targets by mean squared error. Inputs of any shape are
    flattened.
    """

    blocks: tuple[Block, ...]
    head: Linear
    config: MLPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: MLPConfig, schema: Schema, key: Key) -> None:
        *keys, key_head = jax.random.split(key, config.depth)
        widths = [schema.dimensions] + [config.width] * (config.depth - 1)
        outputs = len(schema.classes) if schema.target == "class" else math.prod(schema.target_shape)
        self.blocks = tuple(Block(n, config, k) for n, k in zip(widths[:-1], keys, strict=True))
        self.head = Linear(widths[-1], outputs, key=key_head, initializer=config.initializer)
        self.config = config
        self.schema = schema

    def outputs(self, x: Array, key: Key) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""
        h = x.reshape(x.shape[0], self.schema.dimensions)
        moved = []
        for i, block in enumerate(self.blocks):
            h, after = block(h, jax.random.fold_in(key, i))
            moved.append(after)
        out = activation(self.config.final_activation)(self.head(h))
        return out, eqx.tree_at(lambda model: model.blocks, self, tuple(moved))

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """Mean cross-entropy with accuracy, or mean squared error."""
        out, moved = self.outputs(batch.x, key)
        if self.schema.target == "class":
            metrics = {"accuracy": (out.argmax(axis=-1) == batch.y).mean()}
            return losses.cross_entropy(out, batch.y).mean(), metrics, moved
        return losses.squared_error(out.reshape(batch.y.shape), batch.y).mean(), {}, moved

    def state(self) -> Sequence[Array]:
        """The running statistics of batch normalisation."""
        return [array for block in self.blocks for array in block.norm.state()]

    def predict(self, x: Array) -> Array:
        """Class probabilities, or values in model units."""
        model = eqx.nn.inference_mode(self)
        out, _ = model.outputs(x, jax.random.key(0))  # in inference mode the key is not used
        if self.schema.target == "class":
            return jax.nn.softmax(out.astype(jnp.promote_types(out.dtype, jnp.float32)), axis=-1)
        return out.reshape(x.shape[0], *self.schema.target_shape)


__all__ = ["MLP", "MLPConfig"]
