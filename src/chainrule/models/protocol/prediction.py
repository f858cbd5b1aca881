"""Prediction of targets, with the loss and the output size that each kind of target asks for."""

import abc
import math

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.data.schema import Schema
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
    return len(schema.classes) if schema.target == "class" else math.prod(schema.target_shape)


def supervised_loss(schema: Schema, out: Float[Array, "batch outputs"], y: Array) -> tuple[Scalar, Metrics]:
    """Mean cross-entropy of logits with accuracy (for labels: all of an example's right), or mean squared error."""
    if schema.target == "class":
        return losses.cross_entropy(out, y).mean(), {"accuracy": (out.argmax(axis=-1) == y).mean()}
    if schema.target == "labels":
        metrics = {"exact_match": ((out > 0) == (y > 0)).all(axis=-1).mean()}
        return losses.binary_cross_entropy(out, y.astype(jnp.float32)).mean(), metrics
    return losses.squared_error(out.reshape(y.shape), y).mean(), {}


def as_prediction(schema: Schema, out: Float[Array, "batch outputs"]) -> Array:
    """What `CanPredict.predict` promises, from logits or values."""
    wide = out.astype(jnp.promote_types(out.dtype, jnp.float32))
    if schema.target == "class":
        return jax.nn.softmax(wide, axis=-1)
    if schema.target == "labels":
        return jax.nn.sigmoid(wide)
    return out.reshape(out.shape[0], *schema.target_shape)


__all__ = ["CanPredict", "HasLogits", "as_prediction", "output_count", "supervised_loss"]
