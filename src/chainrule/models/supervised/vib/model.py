"""The deep variational information bottleneck (Alemi et al., 2017): a classifier with a noisy code that has a price."""

import math
from collections.abc import Mapping
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanEncode,
    Config,
    HasLogits,
    HasScores,
    Metrics,
    Scored,
    as_prediction,
    supervised_loss,
    weighted_mean,
)
from chainrule.nn import Linear, activation
from chainrule.nn.activations import ActivationName
from chainrule.nn.losses import cross_entropy

_NARROW = 5.0
"""Codes begin with little noise: softplus(-5) is a deviation of 0.007."""
_LEAST = 1e-4
"""The smallest deviation of a code: the price of one without noise would be infinite."""


@final
class VIBConfig(Config):
    """Settings of the deep variational bottleneck."""

    latent: int = Field(16, ge=1, description="entries of the code")
    beta: float = Field(
        1e-3,
        ge=0,
        description="price of a nat of the code, in nats of the class; 0: an ordinary noisy network",
    )
    depth: int = Field(2, ge=1, le=100, description="hidden layers of the encoder")
    width: int = Field(256, ge=1, description="units of each of them")
    activation: ActivationName = Field("relu", description="nonlinearity after every hidden layer")


class _Code(NamedTuple):
    mean: Float[Array, "batch size"]
    deviation: Float[Array, "batch size"]


@final
class VIB(HasLogits, CanEncode, HasScores):
    """`z ~ N(m(x), s(x)²)`, `q(y|z)` linear in z; the loss is `E -log q(y|z) + beta KL(N(m, s²) || N(0, 1))`.

    The first term bounds I(Z; Y) from below by `H(Y)` minus it, the second I(X; Z) from above by itself.
    """

    layers: tuple[Linear, ...]
    code: Linear
    head: Linear
    config: VIBConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: VIBConfig, schema: Schema, key: Key) -> None:
        *keys, key_code, key_head = jax.random.split(key, config.depth + 2)
        gain = activation(config.activation).gain
        sizes = [schema.dimensions] + [config.width] * config.depth
        self.layers = tuple(
            Linear(n, m, key=k, initializer="he", gain=gain)
            for n, m, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.code = Linear(config.width, 2 * config.latent, key=key_code)
        self.head = Linear(config.latent, targets.of(schema).outputs(schema), key=key_head)
        self.config = config
        self.schema = schema

    def loss_unit(self) -> str:
        """Cross-entropy and price are both in nats."""
        return "nats"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean cross-entropy of the class given a drawn code, and the price of the code."""
        code = self._code(batch.x)
        out = self.head(_drawn(code, key))
        rate = weighted_mean(_rate(code), batch.weights)
        judged, metrics = supervised_loss(self.schema, out, batch.y, weights=batch.weights)
        return judged + self.config.beta * rate, {**metrics, "cross_entropy": judged, "rate": rate}

    def encode(self, x: Array) -> Float[Array, "batch size"]:
        """The mean of each code."""
        return self._code(x).mean

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Those of the mean code."""
        return self.head(self.encode(x))

    def predict(self, x: Array) -> Array:
        """Class probabilities, read from the mean code."""
        return as_prediction(self.schema, self.logits(x))

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Bits that a code costs, a bound of I(X; Z) from above, and bits of the class that are missing given it."""
        code = self._code(batch.x)
        missing = cross_entropy(self.head(_drawn(code, key)), batch.y)
        return {
            "rate": Scored(_rate(code) / math.log(2), "bits"),
            "missing": Scored(missing / math.log(2), "bits"),
        }

    def _code(self, x: Array) -> _Code:
        h = x.reshape(x.shape[0], self.schema.dimensions)
        for layer in self.layers:
            h = activation(self.config.activation)(layer(h))
        mean, raw = jnp.split(self.code(h), 2, axis=-1)
        return _Code(mean, jax.nn.softplus(raw - _NARROW) + _LEAST)


def _drawn(code: _Code, key: Key) -> Float[Array, "batch size"]:
    return code.mean + code.deviation * jax.random.normal(key, code.mean.shape, code.mean.dtype)


def _rate(code: _Code) -> Float[Array, " batch"]:
    """`KL(N(m, s²) || N(0, 1))` in nats."""
    squares = jnp.square(code.mean) + jnp.square(code.deviation)
    return (0.5 * (squares - 1) - jnp.log(code.deviation)).sum(axis=-1)


__all__ = ["VIB", "VIBConfig"]
