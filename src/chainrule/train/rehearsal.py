"""Rehearsal: time and memory of a run, measured on its first steps, nothing kept."""

import time
from typing import Any

from chainrule.data.dataset import Data
from chainrule.models.protocol import Model
from chainrule.train import events, iterations
from chainrule.train.beginning import check_batch
from chainrule.train.loop import settled
from chainrule.train.state import initial_state
from chainrule.train.steppers import stepper_for

STEPS = 2


def rehearse(model: Model, data: Data, **settings: Any) -> events.Estimated:
    """Compile the training step, take two steps, and say what all of them would need.

    `settings` are those of `fit`. The time is that of the steps alone; evaluations and the report come on top. The
    model itself is left as it is.
    """
    iterations.check(model, settings)
    config, total = settled(iterations.defaults(model, data), settings, len(data.train))
    check_batch(model, config)
    stepper = stepper_for(model, config, data, total, most=STEPS)
    state = initial_state(model, config)
    stepper.compile(state)
    state, *_ = stepper.run(state, 0, 1)  # the first call is slower than the others
    began = time.perf_counter()
    stepper.run(state, 1, STEPS)
    seconds = (time.perf_counter() - began) / STEPS
    return events.Estimated(total, total * seconds, stepper.nbytes)


__all__ = ["rehearse"]
