"""A classifier of noisy data, for guidance by its gradient (Dhariwal and Nichol, 2021).

It is trained on data noised at all levels of a schedule: a classifier of clean data says nothing of noise, and its
gradient there means nothing. Like a denoiser it is given lam, so that it serves diffusion models of every schedule.
"""

from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.process import Level, noised, per_example
from chainrule.models.protocol import CanPredict, Config, Metrics
from chainrule.networks import units
from chainrule.networks.mlp import ResidualMLP
from chainrule.nn import Linear
from chainrule.nn.losses import cross_entropy


@final
class NoisyClassifierConfig(Config):
    """Settings of the classifier."""

    noise: Literal["cosine", "linear", "vp-linear", "logsnr-linear"] = Field(
        "cosine", description="noise schedule whose levels it is trained at"
    )
    width: int = Field(256, ge=1, description="units of a layer")
    depth: int = Field(2, ge=1, le=100, description="residual blocks")


@final
class NoisyClassifier(CanPredict):
    """Class probabilities of noisy data, given the noise level: the body of a dense denoiser and a layer of classes."""

    body: ResidualMLP
    head: Linear
    config: NoisyClassifierConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: NoisyClassifierConfig, schema: Schema, key: Key) -> None:
        one, two = jax.random.split(key)
        self.body = ResidualMLP(schema.dimensions, width=config.width, depth=config.depth, key=one)
        self.head = Linear(config.width, len(schema.classes), key=two)
        self.config, self.schema = config, schema

    @property
    def schedule(self) -> schedules.Schedule:
        """The noise schedule."""
        return schedules.schedule(self.config.noise)

    def logits(self, x: Float[Array, "batch ..."], level: Level) -> Float[Array, "batch classes"]:
        """Logits of noisy data, as the denoiser sees them."""
        unit = x / jnp.sqrt(per_example(jnp.square(level.a) + jnp.square(level.s), x))
        return self.head(self.body.features(unit, level.lam))

    def log_prob(self, x: Float[Array, "batch ..."], level: Level, condition: Any) -> Float[Array, " batch"]:
        """log p(condition | x) for each example."""
        logs = jax.nn.log_softmax(self.logits(x, level), axis=-1)
        wanted = jnp.broadcast_to(jnp.asarray(condition), (len(x),))
        return jnp.take_along_axis(logs, wanted[:, None], axis=1)[:, 0]

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Cross-entropy at noise levels spread evenly over the batch."""
        x0, schedule = self._inside(batch.x), self.schedule
        for_times, for_noise = jax.random.split(key)
        even = (
            jax.random.uniform(for_times, (), x0.dtype) + jnp.arange(len(x0), dtype=x0.dtype) / len(x0)
        ) % 1
        level = schedule.level(schedule.first + (1 - schedule.first) * even)
        noise = jax.random.normal(for_noise, x0.shape, x0.dtype)
        logits = self.logits(noised(x0, noise, level), level)
        return cross_entropy(logits, batch.y).mean(), {"accuracy": (logits.argmax(axis=1) == batch.y).mean()}

    def predict(self, x: Array) -> Float[Array, "batch classes"]:
        """Class probabilities of data with the least noise of the schedule."""
        level = self.schedule.level(jnp.asarray(self.schedule.first, x.dtype))
        return jax.nn.softmax(self.logits(self._inside(x) * level.a, level), axis=-1)

    def _inside(self, x: Array) -> Array:
        return units.to_network(self.schema, x.astype(jnp.promote_types(x.dtype, jnp.float32)))


__all__ = ["NoisyClassifier", "NoisyClassifierConfig"]
