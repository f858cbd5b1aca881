"""WaveNet: series and sound, every value predicted by dilated causal convolutions over those before it."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import EntryCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.autoregressive import series_pictures
from chainrule.models.autoregressive.wavenet.coding import series_code
from chainrule.models.autoregressive.wavenet.mu_law import MuLawOutput
from chainrule.models.autoregressive.wavenet.network import CausalStack, Queues
from chainrule.models.protocol import CanForecast, CanSample, Config, HasPictures, HasStepDensity, Metrics
from chainrule.probability.distributions.outputs import GaussianMixtureOutput, OutputDistribution

_DRAWN = 2048
"""Continuations whose quantiles are taken: those of 5 % then rest on a hundred."""
_AT_ONCE = 256
_MOST_LAYERS = 10


@final
class WaveNetConfig(Config):
    """Settings of WaveNet."""

    output: Literal["auto", "mu-law", "mixture"] = Field(
        "auto",
        description="distribution of a value: one of the levels of mu-law, or a mixture of Gaussians; auto: mu-law for "
        "sound, a mixture for other numbers",
    )
    levels: int = Field(256, ge=2, le=2**16, description="mu-law: how many levels")
    limit: float = Field(
        6.0, gt=0, description="mu-law of numbers without ends: how many standard deviations the levels cover"
    )
    components: int = Field(5, ge=1, le=100, description="mixture: Gaussians for each value")
    width: int = Field(32, ge=1, description="features of each layer")
    layers: int = Field(
        _MOST_LAYERS,
        ge=1,
        le=20,
        description="layers of a cycle, with dilations 1, 2, 4, ...; fewer for short series",
    )
    cycles: int = Field(1, ge=1, le=100, description="how often the dilations are gone through")
    kernel: int = Field(2, ge=2, le=64, description="values that a layer reads, dilation steps apart")

    @property
    def dilations(self) -> list[int]:
        """Of all layers.

        >>> WaveNetConfig(layers=3, cycles=2).dilations
        [1, 2, 4, 1, 2, 4]
        """
        return [2**number for number in range(self.layers)] * self.cycles


def suited(config: WaveNetConfig, schema: Schema, examples: int | None) -> dict[str, int]:
    """As many layers as see a whole example, if those of the settings are more."""
    del examples
    needed = math.ceil(math.log2(max(2, 1 + (schema.shape[0] - 1) / (config.kernel - 1))))
    return {"layers": min(config.layers, needed)}


@final
class WaveNet(CanSample, CanForecast, HasStepDensity, HasPictures, HasCode):
    """`p(x) = Π_t p(x_t | x_(t-R) ... x_(t-1))` with R the receptive field; numbers of one step independent."""

    network: CausalStack
    output: OutputDistribution
    config: WaveNetConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: WaveNetConfig, schema: Schema, key: Key) -> None:
        features = schema.shape[1]
        self.output = _output(config, schema)
        network = CausalStack(
            features + 1,
            features * self.output.parameter_count,
            width=config.width,
            kernel=config.kernel,
            dilations=config.dilations,
            key=key,
        )
        start = jnp.tile(jnp.asarray(self.output.initial_parameters(), jnp.float32), features)
        self.network = eqx.tree_at(lambda one: one.last.bias, network, start)
        self.config = config
        self.schema = schema

    @property
    def receptive_field(self) -> int:
        """How many values before it a value depends on."""
        return self.network.receptive_field

    def loss_unit(self) -> str:
        """That of a log-density."""
        return "nats per number"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-density of a number, in nats."""
        del key
        return self.anomaly(batch.x).mean() / self.schema.shape[1], {}

    def log_prob(self, x: Float[Array, "batch time features"]) -> Float[Array, " batch"]:
        """Log-density of each series."""
        return -self.anomaly(x).sum(axis=1)

    def anomaly(self, x: Float[Array, "batch time features"]) -> Float[Array, "batch time"]:
        """How unexpected each step is: minus its log-density given those before it, in nats."""
        return -self.output.log_prob(self.parameters(x), x).sum(axis=-1)

    def parameters(
        self, x: Float[Array, "batch time features"]
    ) -> Float[Array, "batch time features parameters"]:
        """Of the distributions of all steps, in one pass."""
        return self._split(self.network(self._delayed(x)[:, :-1]))

    def begun(
        self, history: Float[Array, "batch past features"]
    ) -> tuple[Float[Array, "batch features parameters"], Queues]:
        """The distribution of what follows a history, which may be empty, and what the layers remember of it."""
        out, queues = self.network.begun(self._delayed(history))
        return self._split(out), queues

    def step(
        self, queues: Queues, x: Float[Array, "batch features"]
    ) -> tuple[Float[Array, "batch features parameters"], Queues]:
        """The distribution of what follows one more value, at the cost of one step."""
        out, queues = self.network.step(queues, self._inputs(x))
        return self._split(out), queues

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        length: Annotated[int | None, Field(description="steps; none: as many as an example has")] = None,
        temperature: Annotated[
            float, Field(ge=0, description="below 1 likelier series, above 1 more varied ones")
        ] = 1.0,
    ) -> Float[Array, "n time features"]:
        """New series, each step at the cost of one step."""
        steps = self.schema.shape[0] if length is None else length
        if steps < 1:
            raise ArgumentError(f"length={length}: a series has at least one step")
        if temperature < 0:
            raise ArgumentError(f"temperature={temperature}: temperature must be at least 0")
        nothing = jnp.zeros((n, 0, self.schema.shape[1]))
        return _continued(self, nothing, key, jnp.asarray(temperature), steps)

    def forecast(
        self, key: Key, history: Float[Array, "batch past features"], steps: int, futures: int = _AT_ONCE
    ) -> Float[Array, "futures batch steps features"]:
        """Possible continuations of each history: their quantiles are forecasts with intervals."""
        if steps < 1:
            raise ArgumentError(f"forecast(steps={steps}): forecast at least one step")
        at_once = min(futures, _AT_ONCE)
        rows = jnp.tile(history, (at_once, 1, 1))
        keys = jax.random.split(key, -(-futures // at_once))
        drawn = [_continued(self, rows, one, jnp.ones(()), steps) for one in keys]
        return jnp.concatenate(drawn).reshape(-1, len(history), *drawn[0].shape[1:])[:futures]

    def forecast_quantiles(
        self, key: Key, history: Float[Array, "batch past features"], steps: int, levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """Those of many continuations."""
        return np.quantile(np.asarray(self.forecast(key, history, steps, _DRAWN)), levels, axis=0)

    def code(self) -> EntryCode:
        """Step after step, each value by its level of mu-law and its place in that."""
        return series_code(self)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """A held-out series continued from its middle, how unexpected its steps are, and how far back it looks."""
        x = jnp.asarray(data.val.batch(np.arange(1)).x)
        known = max(1, x.shape[1] // 2)
        futures = self.forecast(random.named(key, "forecast"), x[:, :known], x.shape[1] - known + 1)
        return [
            series_pictures.forecast(np.asarray(x)[0], np.asarray(futures)[:, 0, :-1]),
            series_pictures.unexpected(np.asarray(eqx.filter_jit(WaveNet.anomaly)(self, x))[0]),
            series_pictures.memory(np.asarray(influence(self, x)), self.receptive_field),
        ]

    def _delayed(self, x: Float[Array, "batch time features"]) -> Float[Array, "batch later inputs"]:
        """What is read before each step and after the last: zeros before the first, then the values."""
        return jnp.pad(self._inputs(x), ((0, 0), (1, 0), (0, 0)))

    def _inputs(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading inputs"]:
        """Values as the network reads them, and a one: a value of zero is not the same as none."""
        values = self.output.compressed(x) if isinstance(self.output, MuLawOutput) else x
        return jnp.concatenate([values, jnp.ones_like(x[..., :1])], axis=-1)

    def _split(self, out: Float[Array, "*leading numbers"]) -> Float[Array, "*leading features parameters"]:
        return out.reshape(*out.shape[:-1], self.schema.shape[1], self.output.parameter_count)


def _output(config: WaveNetConfig, schema: Schema) -> OutputDistribution:
    grid = schema.levels
    if config.output == "mixture" and grid:
        raise CapabilityError(
            f"output=mixture: the density of numbers with only {grid} values has no upper limit",
            remedy="use output=mu-law",
        )
    sound = kinds.of(schema).has_amplitudes
    if config.output == "mixture" or (config.output == "auto" and not grid and not sound):
        return GaussianMixtureOutput(config.components)
    return MuLawOutput(config.levels, 1.0 if sound else config.limit, grid)


@eqx.filter_jit
def _continued(
    model: WaveNet, history: Float[Array, "batch past features"], key: Key, temperature: Scalar, steps: int
) -> Float[Array, "batch steps features"]:
    """Values drawn step after step after a history; one program for all steps."""

    def move(carry: tuple[Array, Queues], key: Key) -> tuple[tuple[Array, Queues], Array]:
        parameters, queues = carry
        drawn = model.output.sample(parameters, key, temperature)
        return model.step(queues, drawn), drawn

    drawn = jax.lax.scan(move, model.begun(history), jax.random.split(key, steps))[1]
    return jnp.swapaxes(drawn, 0, 1)


@eqx.filter_jit
def influence(model: WaveNet, x: Float[Array, "batch time features"]) -> Float[Array, " time"]:
    """The mean size of the derivative of the last distribution by what was read, the latest first."""

    def said(x: Array) -> Array:
        parameters = model.begun(x)[0]
        # Weights without a pattern: changes of the parameters must not cancel.
        return (parameters * jnp.cos(1.0 + jnp.arange(parameters.shape[-1]))[None, None]).sum()

    return jnp.flip(jnp.abs(jax.grad(said)(x)).mean(axis=(0, 2)))


__all__ = ["WaveNet", "WaveNetConfig", "influence", "suited"]
