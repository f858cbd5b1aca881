"""Teachers: the run whose answers another one learns, opened and compared with the data it teaches."""

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.models.protocol import HasLogits, Model
from chainrule.train.config import TrainConfig
from chainrule.train.run import Run
from chainrule.train.tuning import Distillation


def teacher_of(config: TrainConfig, data: Data) -> Model | None:
    """The trained model whose answers are learned; nothing where none is named."""
    name = config.distill.teacher
    if not name:
        usual = Distillation()
        for setting in ("temperature", "weight"):
            if getattr(config.distill, setting) != getattr(usual, setting):
                raise ArgumentError(
                    f"distill.{setting}={getattr(config.distill, setting):g}: there is no teacher",
                    remedy="name one: distill.teacher=RUN",
                )
        return None
    run = Run.open(name)
    if not isinstance(run.model, HasLogits) or not targets.of(data.schema).one_class:
        raise CapabilityError(
            f"distill.teacher={name}: {models.title(run.model)} gives no logits of classes",
            remedy="a teacher is a classifier, and so is who learns from it",
        )
    ours, theirs = data.schema, run.schema
    if (ours.shape, ours.classes) != (theirs.shape, theirs.classes):
        raise ArgumentError(
            f"distill.teacher={name}: it was trained on examples or classes of another kind",
            remedy="teacher and pupil see the same examples and classes, in one order",
        )
    return run.model


__all__ = ["teacher_of"]
