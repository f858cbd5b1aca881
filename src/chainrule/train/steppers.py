"""Which way a model is trained: by gradients of batches, or by an algorithm of its own."""

from typing import TypeAlias

from chainrule.data.dataset import Data
from chainrule.data.domains import training_split
from chainrule.models.protocol import HasOwnTraining, Model
from chainrule.train import anchoring
from chainrule.train.config import TrainConfig
from chainrule.train.iterations import Iterations
from chainrule.train.run import Run
from chainrule.train.schedules import momentum_cycle, schedule
from chainrule.train.step import Stepper
from chainrule.train.teaching import teacher_of

AnyStepper: TypeAlias = Stepper | Iterations

MOST_STEPS_PER_CALL = 256
_RESIDENT_BYTES = 4 << 30


def stepper_for(
    model: Model,
    config: TrainConfig,
    data: Data,
    total: int,
    most: int = MOST_STEPS_PER_CALL,
    run: Run | None = None,
) -> AnyStepper:
    """What runs the steps of a run of `total`, up to `most` in a call; a `run` may hold parameters where they began."""
    split = training_split(data)
    if isinstance(model, HasOwnTraining):
        return Iterations(model, config, split)
    resident = split.nbytes <= _RESIDENT_BYTES and not split.mapped
    return Stepper(
        model,
        config,
        split,
        schedule(config.schedule, total),
        resident=resident,
        # Streamed data are copied into every call: keep those calls small.
        most=most if resident else min(most, 8),
        momentum=momentum_cycle(config.schedule, total),
        total=total,
        anchor=None if run is None else anchoring.kept(run, model),
        teacher=teacher_of(config, data),
    )


__all__ = ["AnyStepper", "stepper_for"]
