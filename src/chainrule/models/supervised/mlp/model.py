"""The multi-layer perceptron: affine maps with a nonlinearity between them."""

from typing import Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config
from chainrule.models.supervised.supervised_model import Supervised, chain, output_count
from chainrule.nn import Dropout, Linear, Norm, activation, norm
from chainrule.nn.activations import ActivationName
from chainrule.nn.normalize import normalised


@final
class MLPConfig(Config):
    """Settings of the multi-layer perceptron."""

    depth: int = Field(3, ge=1, le=100, description="number of affine layers; 1 is a linear model")
    width: int = Field(512, ge=1, description="units of each hidden layer")
    activation: ActivationName = Field("relu", description="nonlinearity after every hidden layer")
    final_activation: ActivationName = Field(
        "identity", description="after the last layer; anything but identity throws away part of the logits"
    )
    normalization: Literal["none", "batch", "layer"] = Field(
        "none", description="of every hidden layer; normalize says where"
    )
    normalize: Literal["before", "after"] = Field(
        "before", description="the nonlinearity, or what comes out of it"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="share of hidden units dropped while training")
    initializer: Literal["he", "xavier", "lecun", "orthogonal", "torch"] = Field(
        "he", description="distribution of the initial weights; the gain follows the activation"
    )


@final
class Block(eqx.Module):
    """One hidden layer: affine map, normalisation and nonlinearity in either order, dropout."""

    linear: Linear
    norm: Norm
    dropout: Dropout
    activation: str = eqx.field(static=True)
    after: bool = eqx.field(static=True)
    """Whether the normaliser comes after the nonlinearity."""

    def __init__(self, inputs: int, config: MLPConfig, key: Key) -> None:
        gain = activation(config.activation).gain
        self.linear = Linear(inputs, config.width, key=key, initializer=config.initializer, gain=gain)
        self.norm = norm(config.normalization, config.width)
        self.dropout = Dropout(config.dropout)
        self.activation = config.activation
        self.after = config.normalize == "after"

    def __call__(self, x: Float[Array, "batch inputs"], key: Key) -> tuple[Float[Array, "batch width"], Self]:
        """The hidden activations, and the block with its running statistics moved on when training."""
        act = activation(self.activation)
        x = act(self.linear(x)) if self.after else self.linear(x)
        x, moved = normalised(self.norm, x, not self.dropout.inference)
        x = self.dropout(x if self.after else act(x), key)
        return x, eqx.tree_at(lambda block: block.norm, self, moved)


@final
class MLP(Supervised):
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
        self.blocks = tuple(Block(n, config, k) for n, k in zip(widths[:-1], keys, strict=True))
        self.head = Linear(
            widths[-1], output_count(schema), key=key_head, initializer=config.initializer, gain=1.0
        )
        self.config = config
        self.schema = schema

    def outputs(self, x: Array, key: Key) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""
        h, moved = chain(self.blocks, x.reshape(x.shape[0], self.schema.dimensions), key)
        out = activation(self.config.final_activation)(self.head(h))
        return out, eqx.tree_at(lambda model: model.blocks, self, moved)


__all__ = ["MLP", "MLPConfig"]
