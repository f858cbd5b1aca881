"""What training minimises: the loss of the model, or the one that the settings put in its place."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.splits import Split
from chainrule.models.protocol import Criterion, HasOutputs, LossSettings, Metrics, Model, Part, parts_of
from chainrule.models.protocol.criteria import criterion
from chainrule.train.evaluation import Loss, own_loss


def trained_parts(model: Model, settings: LossSettings, split: Split) -> tuple[Sequence[Part[Any]], Loss]:
    """The parts of a model with the losses they are trained by, and the loss it is evaluated by on the way."""
    parts = parts_of(model)
    if not isinstance(model, HasOutputs):
        if settings != LossSettings():
            raise CapabilityError(
                f"{models.title(model)} minimises a loss of its own", remedy="leave the settings loss.* out"
            )
        if "weight" in split.arrays:
            raise CapabilityError(
                f"{models.title(model)} does not use weights of examples",
                remedy="load the data without them, or train a model that predicts their targets",
            )
        return parts, own_loss
    if settings == LossSettings():
        return parts, own_loss
    chosen = criterion(settings, model.schema, np.asarray(split.arrays["y"]))
    (part,) = parts
    return [replace(part, loss=_moving(chosen))], _judging(chosen)


def _moving(chosen: Criterion) -> Callable[[Any, Batch, Key], tuple[Scalar, Metrics, Any]]:
    return lambda model, batch, key: model.loss_and_state(batch, key, chosen)


def _judging(chosen: Criterion) -> Loss:
    return lambda model, batch, key: model.loss_and_state(batch, key, chosen)[:2]


__all__ = ["trained_parts"]
