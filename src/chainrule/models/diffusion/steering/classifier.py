"""A classifier of noisy data, for guidance by its gradient (Dhariwal and Nichol, 2021).

It is trained on data noised by the schedule of the model it is to guide, at all levels: a classifier of clean data says
nothing of noise, and its gradient there means nothing.
"""

import warnings
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.denoisers.guided import ClassifierGuided, Unconditional
from chainrule.models.diffusion.process import Level, noised, per_example
from chainrule.models.diffusion.schedules.schedule import Schedule
from chainrule.models.protocol import CanPredict, Metrics
from chainrule.networks import units
from chainrule.networks.mlp import ResidualMLP
from chainrule.nn import Linear
from chainrule.nn.losses import cross_entropy


@final
class NoisyClassifier(CanPredict):
    """Class probabilities of noisy data, given the noise level: the body of a dense denoiser and a layer of classes.

    Train it with `chainrule.fit` on the data of the diffusion model, with that model's `schedule`.
    """

    body: ResidualMLP
    head: Linear
    schedule: Schedule = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(
        self, schema: Schema, schedule: Schedule, key: Key, *, width: int = 256, depth: int = 2
    ) -> None:
        if not targets.of(schema).one_class:
            raise CapabilityError("a classifier needs data with classes")
        one, two = jax.random.split(key)
        self.body = ResidualMLP(schema.dimensions, width=width, depth=depth, key=one)
        self.head = Linear(width, len(schema.classes), key=two)
        self.schedule, self.schema = schedule, schema

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
        x0 = _inside(self.schema, batch.x)
        for_times, for_noise = jax.random.split(key)
        even = (
            jax.random.uniform(for_times, (), x0.dtype) + jnp.arange(len(x0), dtype=x0.dtype) / len(x0)
        ) % 1
        level = self.schedule.level(self.schedule.first + (1 - self.schedule.first) * even)
        noise = jax.random.normal(for_noise, x0.shape, x0.dtype)
        logits = self.logits(noised(x0, noise, level), level)
        return cross_entropy(logits, batch.y).mean(), {"accuracy": (logits.argmax(axis=1) == batch.y).mean()}

    def predict(self, x: Array) -> Float[Array, "batch classes"]:
        """Class probabilities of data with the least noise of the schedule."""
        level = self.schedule.level(jnp.asarray(self.schedule.first, x.dtype))
        return jax.nn.softmax(self.logits(_inside(self.schema, x) * level.a, level), axis=-1)


def by_classifier(denoiser: Denoiser, classifier: Any, weight: float, schema: Schema) -> Denoiser:
    """The denoiser led towards a class by a classifier: `w=1` is Bayes' rule, 0 no guidance.

    A classifier that never saw noise is taken with a warning.
    """
    if isinstance(classifier, NoisyClassifier):
        return ClassifierGuided(Unconditional(denoiser), classifier.log_prob, weight)
    if not isinstance(classifier, CanPredict):
        raise CapabilityError(f"{type(classifier).__name__} predicts no classes")
    warnings.warn(
        f"{type(classifier).__name__} never saw noisy data: its gradient means little before the last steps; "
        "train a NoisyClassifier",
        stacklevel=3,
    )

    def log_prob(x: Array, level: Level, condition: Any) -> Array:
        clean = x / per_example(level.a, x)
        logs = jnp.log(classifier.predict(units.to_model(schema, clean)))
        return jnp.take_along_axis(logs, jnp.broadcast_to(condition, (len(x),))[:, None], axis=1)[:, 0]

    return ClassifierGuided(Unconditional(denoiser), log_prob, weight)


def _inside(schema: Schema, x: Array) -> Array:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return units.to_network(schema, wide)


__all__ = ["NoisyClassifier", "by_classifier"]
