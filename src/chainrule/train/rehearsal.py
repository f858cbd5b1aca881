"""Rehearsal: time and memory of a run, measured on its first steps, nothing kept."""

import time
from typing import Any

from chainrule import models
from chainrule.data.dataset import Data
from chainrule.models.protocol import Model
from chainrule.train import events
from chainrule.train.loop import settled
from chainrule.train.schedules import schedule
from chainrule.train.state import initial_state
from chainrule.train.step import Stepper

STEPS = 2


def rehearse(model: Model, data: Data, **settings: Any) -> events.Estimated:
    """Compile the training step, take two steps, and say what all of them would need.

    `settings` are those of `fit`. The time is that of the steps alone; evaluations and the report come on top. The
    model itself is left as it is.
    """
    entry = models.entry_of(model)
    config, total = settled(entry.training if entry else {}, settings, len(data.train))
    stepper = Stepper(model, config, data.train, schedule(config.schedule, total), resident=True, most=STEPS)
    state = initial_state(model, config)
    stepper.compile(state)
    state, *_ = stepper.run(state, 0, 1)  # the first call is slower than the others
    began = time.perf_counter()
    stepper.run(state, 1, STEPS)
    seconds = (time.perf_counter() - began) / STEPS
    return events.Estimated(total, total * seconds, stepper.nbytes)


__all__ = ["rehearse"]
