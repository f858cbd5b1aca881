"""AR(p): linear Gaussian series, exact in likelihood, samples and forecasts."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.stats
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.ar import pictures
from chainrule.models.autoregressive.ar.process import ARProcess, Forecast, Start, predictors
from chainrule.models.protocol import CanForecast, CanSample, Config, HasPictures, HasStepDensity, Metrics


@final
class ARConfig(Config):
    """Settings of AR(p)."""

    order: int = Field(2, ge=1, le=64, description="past values that a value depends on")
    start: Start = Field(
        "stationary",
        description="how a series begins: stationary, at its mean, or with values that are not scored",
    )


@final
class AR(CanSample, CanForecast, HasStepDensity, HasPictures):
    """`x_t = mean + Σ_k a_k (x_{t-k} - mean) + e_t`.

    With a stationary start the free parameters are the inverse hyperbolic tangents of the partial autocorrelations:
    every value of them is a stationary process, so that training cannot leave the domain of the likelihood. With other
    starts they are the coefficients themselves.
    """

    mean: Scalar
    free: Float[Array, " order"]
    log_variance: Scalar
    config: ARConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ARConfig, schema: Schema, key: Key) -> None:
        del key  # it begins as white noise
        steps, features = schema.shape
        if features != 1:
            raise CapabilityError(
                f"ar models one number in time; these sequences have {features}",
                remedy="keep one column, for example data.drop=...",
            )
        if steps <= config.order:
            raise ArgumentError(f"order={config.order}: sequences of {steps} steps fit orders below {steps}")
        self.mean = jnp.zeros(())
        self.free = jnp.zeros(config.order)
        self.log_variance = jnp.zeros(())
        self.config = config
        self.schema = schema

    @property
    def process(self) -> ARProcess:
        """The process with the parameters as they are."""
        a = self.free if self.config.start != "stationary" else predictors(jnp.tanh(self.free)).weights[-1]
        return ARProcess(self.mean, a, jnp.exp(self.log_variance))

    def loss_unit(self) -> str:
        """That of a log-density."""
        return "nats per scored value"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-likelihood of a scored value, in nats."""
        del key
        steps = self.schema.shape[0] - (self.config.order if self.config.start == "given" else 0)
        return -self.log_prob(batch.x).mean() / steps, {}

    def log_prob(self, x: Float[Array, "batch time 1"]) -> Float[Array, " batch"]:
        """Exact log-likelihood of each series (with `start=given`, of all but its first p values)."""
        return self.process.log_prob(x[..., 0], self.config.start)

    def anomaly(self, x: Float[Array, "batch time 1"]) -> Float[Array, "batch scored"]:
        """How unexpected each scored value is: minus its log-density given those before it, in nats."""
        return -self.process.log_densities(x[..., 0], self.config.start)

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int, *, length: int | None = None
    ) -> Float[Array, "batch time 1"]:
        """New series; where `start` is given they begin in the stationary distribution, or at the mean without one."""
        process, start = self.process, self.config.start
        if start == "given":
            start = "stationary" if process.is_stationary else "noise"
        steps = self.schema.shape[0] if length is None else length
        if steps < 1:
            raise ArgumentError(f"length={length}: a series has at least one step")
        return process.sample(key, n, steps, start)[..., None]

    def forecast(self, history: Float[Array, "batch past 1"], steps: int, level: float = 0.95) -> Forecast:
        """The values that follow a history, with intervals, in model units."""
        return self.process.forecast(history[..., 0], steps, level)

    @property
    def history_needed(self) -> int:
        """As many values as the next one depends on."""
        return self.config.order

    def forecast_quantiles(
        self, key: Key, history: Float[Array, "batch past 1"], steps: int, levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps 1"]:
        """Those of the Gaussians that the process implies, the parameters taken as true."""
        del key
        found = self.forecast(history, steps)
        z = scipy.stats.norm.ppf(np.asarray(levels))[:, None, None]
        return (found.mean[None] + z * found.std[None])[..., None]

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Autocorrelations of data and model, the roots, forecasts, and the coefficients by every method."""
        del key
        return pictures.all_of(self.process, np.asarray(data.train.x)[..., 0], np.asarray(data.val.x)[..., 0])


__all__ = ["AR", "ARConfig"]
