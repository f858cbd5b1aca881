"""A recurrent network over series of numbers: a Gaussian for each value, given all before it."""

from collections.abc import Sequence
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.autoregressive import series_pictures
from chainrule.models.protocol import (
    CanForecast,
    CanSample,
    Config,
    HasPictures,
    HasRecurrence,
    HasStepDensity,
    Metrics,
)
from chainrule.nn import Linear, Recurrent, Stack

_LEAST = 1e-3
"""The smallest standard deviation, in model units: repeated values must not have an infinite density."""
_FUTURES = 256
_DRAWN = 2048
"""Continuations whose quantiles are taken: those of 5 % then rest on a hundred."""


@final
class SeriesRNNConfig(Config):
    """Settings of the recurrent network for series."""

    cell: Literal["rnn", "gru", "lstm"] = Field("gru", description="recurrent cell")
    width: int = Field(32, ge=1, description="units of each layer: the size of its state")
    depth: int = Field(1, ge=1, le=100, description="recurrent layers on top of each other")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the outputs of each layer dropped while training"
    )


@final
class SeriesRNN(CanSample, CanForecast, HasStepDensity, HasRecurrence, HasPictures):
    """`x_t ~ N(m(h_t), s(h_t)²)`, where the state h_t has read `x_1 ... x_(t-1)`; the numbers of a step independent."""

    body: Stack
    head: Linear
    config: SeriesRNNConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SeriesRNNConfig, schema: Schema, key: Key) -> None:
        key_body, key_head = jax.random.split(key)
        features = schema.shape[1]
        self.body = Stack(
            features,
            config.width,
            depth=config.depth,
            cell=config.cell,
            dropout=config.dropout,
            recurrent_initializer="orthogonal",
            key=key_body,
        )
        self.head = Linear(config.width, 2 * features, initializer="xavier", key=key_head)
        self.config = config
        self.schema = schema

    def loss_unit(self) -> str:
        """That of a log-density."""
        return "nats per number"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-density of a number, in nats."""
        return self.anomaly(batch.x, key).mean() / self.schema.shape[1], {}

    def log_prob(self, x: Float[Array, "batch time features"]) -> Float[Array, " batch"]:
        """Log-density of each series."""
        return -self.anomaly(x).sum(axis=1)

    def anomaly(
        self, x: Float[Array, "batch time features"], key: Key | None = None
    ) -> Float[Array, "batch time"]:
        """How unexpected each step is: minus its log-density given all before it, in nats."""
        out, _ = self.body(_delayed(x), key=key)
        mean, scale = self._gaussian(out if key is None else self.body.dropout(out, key))
        return -jax.scipy.stats.norm.logpdf(x, mean, scale).sum(axis=-1)

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int, *, length: int | None = None
    ) -> Float[Array, "n time features"]:
        """New series."""
        steps = self.schema.shape[0] if length is None else length
        if steps < 1:
            raise ArgumentError(f"length={length}: a series has at least one step")
        start = self.body(jnp.zeros((n, 1, self.schema.shape[1])))
        return _continued(self, key, start, steps)

    def forecast(
        self, key: Key, history: Float[Array, "batch past features"], steps: int, futures: int = _FUTURES
    ) -> Float[Array, "futures batch steps features"]:
        """Possible continuations of each history: their quantiles are forecasts with intervals."""
        if steps < 1:
            raise ArgumentError(f"forecast(steps={steps}): forecast at least one step")
        first = jnp.zeros_like(history[:, :1])
        out, states = self.body(jnp.concatenate([first, history], axis=1))
        start = out[:, -1:], states
        keys = jax.random.split(key, futures)
        return jax.lax.map(lambda key: _continued(self, key, start, steps), keys)

    def forecast_quantiles(
        self, key: Key, history: Float[Array, "batch past features"], steps: int, levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """Those of many continuations."""
        return np.quantile(np.asarray(self.forecast(key, history, steps, _DRAWN)), levels, axis=0)

    def recurrence(
        self, x: Float[Array, "batch time features"]
    ) -> list[tuple[Recurrent, Float[Array, "batch time inputs"]]]:
        """Every layer with its inputs over time."""
        return self.body.inputs(_delayed(x))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """A held-out series continued from its middle, and how unexpected its steps are."""
        x = jnp.asarray(data.val.batch(np.arange(1)).x)
        known = max(1, x.shape[1] // 2)
        futures = self.forecast(random.named(key, "forecast"), x[:, :known], x.shape[1] - known + 1)
        return [
            series_pictures.forecast(np.asarray(x)[0], np.asarray(futures)[:, 0, :-1]),
            series_pictures.unexpected(np.asarray(self.anomaly(x))[0]),
        ]

    def _gaussian(self, out: Array) -> tuple[Array, Array]:
        mean, spread = jnp.split(self.head(out), 2, axis=-1)
        return mean, _LEAST + jax.nn.softplus(spread)


def _delayed(x: Array) -> Array:
    """What is known before each step: the value one step earlier, and zeros before the first."""
    return jnp.concatenate([jnp.zeros_like(x[:, :1]), x[:, :-1]], axis=1)


def _continued(model: SeriesRNN, key: Key, start: tuple[Array, Tree], steps: int) -> Array:
    """Draw step after step from the last output and the states after it."""

    def move(carry: tuple[Array, Tree], key: Key) -> tuple[tuple[Array, Tree], Array]:
        out, states = carry
        mean, scale = model._gaussian(out)
        drawn = mean + scale * jax.random.normal(key, mean.shape, mean.dtype)
        return model.body(drawn, states), drawn[:, 0]

    return jnp.swapaxes(jax.lax.scan(move, start, jax.random.split(key, steps))[1], 0, 1)


__all__ = ["SeriesRNN", "SeriesRNNConfig"]
