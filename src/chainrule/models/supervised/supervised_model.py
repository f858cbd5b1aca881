"""Supervised models in general: loss, prediction, running statistics.

A network says how its outputs (logits or values) come about; everything else follows from the schema of the data.
"""

import abc
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import equinox as eqx
import jax

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    HasLogits,
    HasState,
    Metrics,
    as_prediction,
    output_count,
    supervised_loss,
)
from chainrule.nn import Norm

L = TypeVar("L")


class Supervised(HasState, HasLogits):
    """A network that ends in logits (cross-entropy: of one class, or of each label) or values (squared error)."""

    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def outputs(self, x: Array, key: Key) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model with its state moved on when training."""

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """Mean cross-entropy with accuracy (for labels: all of an example's right), or mean squared error."""
        out, moved = self.outputs(batch.x, key)
        return *supervised_loss(self.schema, out, batch.y), moved

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers."""
        nodes = jax.tree.leaves(self, is_leaf=lambda node: isinstance(node, Norm))
        return [array for node in nodes if isinstance(node, Norm) for array in node.state()]

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """The outputs of the network before any softmax, in inference mode."""
        still = eqx.nn.inference_mode(self)
        out, _ = still.outputs(x, jax.random.key(0))  # in inference mode the key is not used
        return out

    def predict(self, x: Array) -> Array:
        """Class probabilities, the probability of each label, or values in model units."""
        return as_prediction(self.schema, self.logits(x))


def chain(layers: Sequence[L], x: Array, key: Key) -> tuple[Array, tuple[L, ...]]:
    """The layers in turn, each with a key of its own, and all of them with their state moved on."""
    moved = []
    for i, layer in enumerate(layers):
        step: Any = layer
        x, after = step(x, jax.random.fold_in(key, i))
        moved.append(after)
    return x, tuple(moved)


__all__ = ["Supervised", "chain", "output_count"]
