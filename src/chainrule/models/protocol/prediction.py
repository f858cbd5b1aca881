"""Prediction of targets, with the loss and the output size that each kind of target asks for."""

import abc
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.data.target import Link
from chainrule.models.protocol.criteria import Criterion, usual
from chainrule.models.protocol.model import Metrics, Model
from chainrule.models.protocol.training import HasState
from chainrule.nn.matrices import GivesLogits, GivesMeans, GivesPredictions
from chainrule.probability.distributions.base import Univariate


class CanPredict(Model, GivesPredictions):
    """Predicts targets."""

    @abc.abstractmethod
    def predict(self, x: Array) -> Array:
        """Probabilities of classes, labels or votes (batch, classes), or values in model units (batch, *target_shape).

        Of boxes (batch, detections, 6): (x0, y0, x1, y1, score, class) for each, filled up with rows of class -1; of
        masks the probabilities of the classes at each pixel (batch, height, width, classes).
        """


class HasPredictiveDistribution(CanPredict, GivesMeans):
    """Predicts values, and knows how far each may be off: intervals and densities come from the model itself."""

    @abc.abstractmethod
    def predictive(self, x: Array) -> Univariate:
        """The distribution of a new value at each example, noise included: batch shape (batch, *target_shape).

        In model units; its mean is what `predict` gives.
        """


class HasLogits(CanPredict, GivesLogits):
    """Predicts by a network that ends in logits, or in values."""


def output_count(schema: Schema) -> int:
    """How many numbers a network that predicts has to give for one example.

    >>> output_count(Schema("table", (6,), target="value", target_shape=(2, 2)))
    4
    """
    return targets.of(schema).outputs(schema)


class Head(NamedTuple):
    """What one link function asks for: numbers to watch beside the loss, and the prediction outputs stand for."""

    metrics: Callable[[Float[Array, "batch outputs"], Array], Metrics]
    prediction: Callable[[Schema, Float[Array, "batch outputs"]], Array]


def _wide(out: Array) -> Array:
    return out.astype(jnp.promote_types(out.dtype, jnp.float32))


def _shares(out: Float[Array, "batch outputs"]) -> Float[Array, "batch outputs"]:
    return jax.nn.softmax(_wide(out), axis=-1)


def _grade_error(out: Float[Array, "batch outputs"], y: Float[Array, "batch outputs"]) -> Scalar:
    """How many grades, counted one by one, the mean of the votes is off by."""
    steps = jnp.arange(out.shape[1], dtype=jnp.float32)
    return jnp.abs((_shares(out) - y) @ steps).mean()


_HEADS: Mapping[Link, Head] = {
    "softmax": Head(
        lambda out, y: {"accuracy": (out.argmax(axis=-1) == y).mean()},
        lambda _, out: _shares(out),
    ),
    "sigmoid": Head(
        lambda out, y: {"exact_match": ((out > 0) == (y > 0)).all(axis=-1).mean()},
        lambda _, out: jax.nn.sigmoid(_wide(out)),
    ),
    "ordered": Head(lambda out, y: {"grade_error": _grade_error(out, y)}, lambda _, out: _shares(out)),
    "identity": Head(lambda out, y: {}, lambda schema, out: out.reshape(out.shape[0], *schema.target_shape)),
}
"""By the link function that the target names."""


def supervised_loss(
    schema: Schema,
    out: Float[Array, "batch outputs"],
    y: Array,
    *,
    weights: Float[Array, " batch"] | None = None,
    criterion: Criterion | None = None,
) -> tuple[Scalar, Metrics]:
    """Mean cross-entropy of logits with accuracy (for labels: all of an example's right), or mean squared error.

    `weights` of the examples multiply their losses; a `criterion` takes the place of the usual loss.
    """
    link = targets.of(schema).link
    values = (criterion or usual(link))(out, y)
    return weighted_mean(values, weights), _HEADS[link].metrics(out, y)


def weighted_mean(values: Float[Array, " batch"], weights: Float[Array, " batch"] | None) -> Scalar:
    """The mean of values that are multiplied by the weights of their examples, which are one on average."""
    return values.mean() if weights is None else (weights.astype(values.dtype) * values).mean()


def as_prediction(schema: Schema, out: Float[Array, "batch outputs"]) -> Array:
    """What `CanPredict.predict` promises, from logits or values."""
    return _HEADS[targets.of(schema).link].prediction(schema, out)


class HasOutputs(HasState, HasLogits):
    """Is trained by a loss of its outputs and the targets, in whose place training may put another one."""

    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def outputs(self, x: Array, key: Key) -> tuple[Array, Self]:
        """Logits or values, and the model with its state moved on when training."""

    @abc.abstractmethod
    def judge(self, out: Array, batch: Batch, criterion: Criterion | None = None) -> tuple[Scalar, Metrics]:
        """The mean loss of outputs, the model's own or by another criterion, and named numbers worth watching."""

    @abc.abstractmethod
    def loss_unit(self) -> str:
        """What its own loss is measured in; empty where that has no unit."""

    def loss_and_state(
        self, batch: Batch, key: Key, criterion: Criterion | None = None
    ) -> tuple[Scalar, Metrics, Self]:
        """The mean loss of the outputs, its metrics, and the model with its state moved on.

        Mixed images are judged by the targets of both, each for its share: exact for every loss, weighted or not.
        """
        out, moved = self.outputs(batch.x, key)
        (share, first), *rest = batch.apart()
        judged = self.judge(out, first, criterion)
        if rest:
            ((other_share, second),) = rest
            judged = jax.tree.map(
                lambda a, b: share * a + other_share * b, judged, self.judge(out, second, criterion)
            )
        return *judged, moved


__all__ = [
    "CanPredict",
    "HasLogits",
    "HasOutputs",
    "HasPredictiveDistribution",
    "as_prediction",
    "output_count",
    "supervised_loss",
    "weighted_mean",
]
