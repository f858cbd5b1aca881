"""What training minimises: the loss of the model, or the one that the settings put in its place."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.splits import Split
from chainrule.models.protocol import (
    Criterion,
    HasLogits,
    HasOutputs,
    LossSettings,
    Metrics,
    Model,
    Part,
    parts_of,
)
from chainrule.models.protocol.criteria import criterion
from chainrule.train.config import Distillation, TrainConfig
from chainrule.train.evaluation import Loss, own_loss


def trained_parts(
    model: Model, config: TrainConfig, split: Split, teacher: Model | None = None
) -> tuple[Sequence[Part[Any]], Loss]:
    """The parts of a model with the losses they are trained by, and the loss it is evaluated by on the way."""
    parts, settings = parts_of(model), config.loss
    if not isinstance(model, HasOutputs):
        if teacher is not None:
            raise CapabilityError(
                f"{models.title(model)} minimises a loss of its own",
                remedy="leave the settings distill.* out",
            )
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
    if settings == LossSettings() and teacher is None:
        return parts, own_loss
    usual = settings == LossSettings()
    chosen = None if usual else criterion(settings, model.schema, np.asarray(split.arrays["y"]))
    (part,) = parts
    loss = _moving(chosen) if teacher is None else taught(teacher, config.distill, chosen)
    return [replace(part, loss=loss)], own_loss if chosen is None else _judging(chosen)


def taught(
    teacher: Model, settings: Distillation, chosen: Criterion | None = None
) -> Callable[[Any, Batch, Key], tuple[Scalar, Metrics, Any]]:
    """The loss of outputs with a share of `T² KL(softmax(teacher / T) || softmax(student / T))` (Hinton et al., 2015).

    T² keeps the size of the gradient whatever the temperature T.
    """
    heat, share = settings.temperature, settings.weight

    def loss(model: Any, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Any]:
        assert isinstance(teacher, HasLogits), "checked when it was opened"
        out, moved = model.outputs(batch.x, key)
        judged = [(part, *model.judge(out, own, chosen)) for part, own in batch.apart()]
        own = sum((part * value for part, value, _ in judged), start=jnp.zeros(()))
        said = jax.lax.stop_gradient(teacher.logits(batch.x))
        apart = heat**2 * categorical_divergence(said / heat, out / heat).mean()
        return (1 - share) * own + share * apart, {**judged[0][2], "teacher_divergence": apart}, moved

    return loss


def categorical_divergence(
    p: Float[Array, "batch classes"], q: Float[Array, "batch classes"]
) -> Float[Array, " batch"]:
    """The Kullback-Leibler divergence of two categorical distributions given by their logits, in nats."""
    p, q = jax.nn.log_softmax(p), jax.nn.log_softmax(q)
    return (jnp.exp(p) * (p - q)).sum(axis=-1)


def _moving(chosen: Criterion | None) -> Callable[[Any, Batch, Key], tuple[Scalar, Metrics, Any]]:
    return lambda model, batch, key: model.loss_and_state(batch, key, chosen)


def _judging(chosen: Criterion) -> Loss:
    return lambda model, batch, key: model.loss_and_state(batch, key, chosen)[:2]


__all__ = ["categorical_divergence", "taught", "trained_parts"]
