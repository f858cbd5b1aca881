"""Supervised models in general: loss, prediction, running statistics.

A network says how its outputs (logits or values) come about; everything else follows from the schema of the data.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.models.protocol import (
    Criterion,
    HasOutputs,
    Metrics,
    as_prediction,
    output_count,
    supervised_loss,
)
from chainrule.nn.sequential import running_statistics

L = TypeVar("L")


class Supervised(HasOutputs):
    """A network that ends in logits (cross-entropy: of one class, or of each label) or values (squared error)."""

    def judge(
        self, out: Float[Array, "batch outputs"], batch: Batch, criterion: Criterion | None = None
    ) -> tuple[Scalar, Metrics]:
        """Mean cross-entropy with accuracy (for labels: all of an example's right), or mean squared error."""
        return supervised_loss(self.schema, out, batch.y, weights=batch.weights, criterion=criterion)

    def loss_unit(self) -> str:
        """That of the usual loss of the target."""
        return targets.of(self.schema).loss_unit

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers."""
        return running_statistics(self)

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
