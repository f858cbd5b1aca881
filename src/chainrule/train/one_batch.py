"""Overfitting a single batch: the quickest test of a model and its settings.

A loss that does not fall on the same few examples seen over and over will not fall on many. What is wrong then is the
model, its targets or the learning rate, not the data.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule import models
from chainrule.core.errors import DivergedError
from chainrule.core.pictures import Lines
from chainrule.data.dataset import Data
from chainrule.data.domains import training_split
from chainrule.models.protocol import Model
from chainrule.train.iterations import check_gradients
from chainrule.train.loop import merge, settled
from chainrule.train.preparing import prepared
from chainrule.train.state import initial_state
from chainrule.train.step import Stepper

STEPS = 200


@final
@dataclass(frozen=True)
class OneBatch:
    """What became of the loss."""

    losses: np.ndarray
    """Before every step."""
    examples: int

    @property
    def summary(self) -> str:
        """One line for people."""
        first, last = self.losses[0], self.losses[-1]
        return f"{first:.4g} to {last:.4g} in {len(self.losses)} steps on the same {self.examples} examples"

    def picture(self) -> Lines:
        """The loss against steps."""
        steps = np.arange(len(self.losses), dtype=np.float64)
        return Lines(
            "one-batch", "One batch over and over", "step", "loss", {"training loss": (steps, self.losses)}
        )


def overfit_one_batch(model: Model, data: Data, **settings: Any) -> OneBatch:
    """Train on the first batch alone, 200 steps unless said otherwise, at a constant learning rate; keep nothing.

    `settings` are those of `fit`. The model itself is left as it is.
    """
    model = prepared(model, data)
    check_gradients("overfit_one_batch", model)
    entry = models.entry_of(model)
    defaults = merge(entry.training_for(data.schema) if entry else {}, {"steps": STEPS})
    config, steps = settled(defaults, settings, len(data.train))
    stepper = Stepper(model, config, training_split(data), lambda step: 1.0, resident=True, most=steps)
    stepper.batches = replace(stepper.batches, examples=config.batch, shuffle=False)
    state = initial_state(model, config)
    stepper.compile(state)
    _, metrics, done = stepper.run(state, 0, steps)
    if done < steps:
        raise DivergedError(
            f"the loss of one batch was not finite after {done} steps",
            remedy=f"try a lower rate: optimizer.lr={config.optimizer.lr / 10:g}",
        )
    return OneBatch(metrics["loss"], config.batch)


__all__ = ["OneBatch", "overfit_one_batch"]
