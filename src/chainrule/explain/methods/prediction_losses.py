"""Losses of predictions, row by row, as methods that ask what features are worth take them.

For classes and labels the negative log-probability of what is true, for values the squared error in the units of the
data: both of the function that `run_outputs` gives for raw examples.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.run_outputs import RunOutput, numbers_of, output_function
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run

_TINY = 1e-30
TracedLosses: TypeAlias = Callable[[Array, Array], Array]


class JudgedPredictions(NamedTuple):
    """A function of raw examples, and the loss of its outputs beside true targets."""

    function: RunOutput
    loss: TracedLosses
    """From outputs (rows, outputs) and targets to a number for each row; of NumPy or JAX arrays."""
    name: str
    unit: str = ""

    @property
    def label(self) -> str:
        """What the loss is, with its unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


def _of_classes(out: Float[Array, "rows classes"], y: Array) -> Float[Array, " rows"]:
    own = jnp.take_along_axis(out, jnp.asarray(y).astype(int)[:, None], axis=1)[:, 0]
    return -jnp.log(jnp.maximum(own, _TINY))


def _of_labels(out: Float[Array, "rows labels"], y: Array) -> Float[Array, " rows"]:
    true = jnp.where(jnp.asarray(y) > 0, out, 1 - out)
    return -jnp.log(jnp.maximum(true, _TINY)).sum(axis=1)


def _of_values(out: Float[Array, "rows outputs"], y: Array) -> Float[Array, " rows"]:
    return jnp.square(out - jnp.asarray(y).reshape(out.shape)).sum(axis=1)


def can_be_judged(model: Model, schema: Schema) -> bool:
    """Whether predictions and true targets can be compared."""
    usual = {"logit", "log-odds", "probability", "value"}
    return isinstance(model, CanPredict) and bool(usual & set(numbers_of(model, schema)))


def judged_predictions(run: Run, data: Data) -> JudgedPredictions:
    """The predictions of a run and the loss that goes with its target."""
    target = targets.of(run.schema)
    if target.has_values:
        return JudgedPredictions(output_function(run, data, "value"), _of_values, "squared error")
    loss = _of_labels if target.has_labels else _of_classes
    return JudgedPredictions(output_function(run, data, "probability"), loss, "loss", "nats")


def raw_targets(run: Run, y: np.ndarray) -> np.ndarray:
    """Targets as a split keeps them, values in the units of the data."""
    if not targets.of(run.schema).has_values or run.target_scaling is None:
        return np.asarray(y)
    return np.asarray(run.target_scaling.inverse(np.asarray(y, np.float64)), np.float32)


__all__ = ["JudgedPredictions", "TracedLosses", "can_be_judged", "judged_predictions", "raw_targets"]
