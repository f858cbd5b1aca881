"""Prediction of targets, with the loss and the output size that each kind of target asks for."""

import abc
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.data.target import Link
from chainrule.models.protocol.model import Metrics, Model
from chainrule.nn import losses


class CanPredict(Model):
    """Predicts targets."""

    @abc.abstractmethod
    def predict(self, x: Array) -> Array:
        """Probabilities of classes or labels (batch, classes), or values in model units (batch, *target_shape)."""


class HasLogits(CanPredict):
    """Predicts by a network that ends in logits, or in values."""

    @abc.abstractmethod
    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """The outputs of the network before any softmax, in inference mode."""


def output_count(schema: Schema) -> int:
    """How many numbers a network that predicts has to give for one example.

    >>> output_count(Schema("table", (6,), target="value", target_shape=(2, 2)))
    4
    """
    return targets.of(schema).outputs(schema)


class Head(NamedTuple):
    """What one link function asks for: the loss of outputs, and the prediction they stand for."""

    loss: Callable[[Float[Array, "batch outputs"], Array], tuple[Scalar, Metrics]]
    prediction: Callable[[Schema, Float[Array, "batch outputs"]], Array]


def _classes(out: Float[Array, "batch outputs"], y: Array) -> tuple[Scalar, Metrics]:
    return losses.cross_entropy(out, y).mean(), {"accuracy": (out.argmax(axis=-1) == y).mean()}


def _labels(out: Float[Array, "batch outputs"], y: Array) -> tuple[Scalar, Metrics]:
    metrics = {"exact_match": ((out > 0) == (y > 0)).all(axis=-1).mean()}
    return losses.binary_cross_entropy(out, y.astype(jnp.float32)).mean(), metrics


def _values(out: Float[Array, "batch outputs"], y: Array) -> tuple[Scalar, Metrics]:
    return losses.squared_error(out.reshape(y.shape), y).mean(), {}


def _wide(out: Array) -> Array:
    return out.astype(jnp.promote_types(out.dtype, jnp.float32))


_HEADS: Mapping[Link, Head] = {
    "softmax": Head(_classes, lambda _, out: jax.nn.softmax(_wide(out), axis=-1)),
    "sigmoid": Head(_labels, lambda _, out: jax.nn.sigmoid(_wide(out))),
    "identity": Head(_values, lambda schema, out: out.reshape(out.shape[0], *schema.target_shape)),
}
"""By the link function that the target names."""


def supervised_loss(schema: Schema, out: Float[Array, "batch outputs"], y: Array) -> tuple[Scalar, Metrics]:
    """Mean cross-entropy of logits with accuracy (for labels: all of an example's right), or mean squared error."""
    return _HEADS[targets.of(schema).link].loss(out, y)


def as_prediction(schema: Schema, out: Float[Array, "batch outputs"]) -> Array:
    """What `CanPredict.predict` promises, from logits or values."""
    return _HEADS[targets.of(schema).link].prediction(schema, out)


__all__ = ["CanPredict", "HasLogits", "as_prediction", "output_count", "supervised_loss"]
