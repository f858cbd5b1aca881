"""The learning-rate finder: raise the rate exponentially, batch by batch, and see where the loss falls fastest.

Nothing is changed: the model that goes in is not touched, and batches and noise are those of the run to come.
"""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines
from chainrule.core.types import Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.domains import training_split
from chainrule.models.protocol import Model
from chainrule.nn import lora
from chainrule.train.iterations import check_gradients
from chainrule.train.loop import settled
from chainrule.train.preparing import prepared
from chainrule.train.state import State, initial_state
from chainrule.train.step import Stepper

_SMOOTHING = 0.98
_BLOW_UP = 4.0
_NOISY = 10


@final
@dataclass(frozen=True)
class FoundRate:
    """Loss against learning rate, and two suggestions."""

    rates: np.ndarray
    losses: np.ndarray
    """Smoothed, with bias correction."""
    steepest: float
    """The rate at which the loss falls fastest per decade."""
    safe: float
    """A tenth of the rate of the lowest loss."""

    def picture(self) -> Lines:
        """The curve with both suggestions marked."""
        return Lines(
            name="learning-rate",
            title="Learning-rate finder",
            x_label="learning rate",
            y_label="loss (smoothed)",
            series={"loss": (self.rates, self.losses)},
            log_x=True,
            marks=((self.steepest, "steepest"), (self.safe, "minimum / 10")),
            caption=f"The loss falls fastest at {self.steepest:.1e}; a tenth of its minimum is {self.safe:.1e}.",
        )


def find_lr(
    model: Model, data: Data, *, low: float = 1e-7, high: float = 10.0, steps: int = 100, **settings: Any
) -> FoundRate:
    """Train on `steps` mini-batches with the rate rising from `low` to `high` (Smith, 2017, arXiv:1506.01186).

    The curve ends where the smoothed loss exceeds four times its minimum (for one below zero: where it has risen by
    three times its size or three times what it had fallen), or is no longer finite.
    """
    stepper, state = _ramp(model, data, low, high, steps, settings)
    _, metrics, done = stepper.run(state, 0, steps)
    losses = smooth(metrics["loss"][:done].astype(np.float64))
    blown = np.flatnonzero(losses > blow_up(losses))
    end = int(blown[0]) + 1 if blown.size else done
    if end < 3:
        raise ArgumentError(
            f"find_lr(low={low}): the loss blows up at once", remedy="start lower, e.g. low=1e-9"
        )
    rates, losses = (low * (high / low) ** (np.arange(done) / (steps - 1)))[:end], losses[:end]
    lowest = int(losses.argmin())
    until = max(lowest + 1, 3)
    slope = np.gradient(losses[:until], np.log(rates[:until]))
    # The average of the first few batches is mostly their noise.
    noisy = min(_NOISY, until - 2)
    steepest = noisy + int(slope[noisy:].argmin())
    return FoundRate(rates, losses, float(rates[steepest]), float(rates[lowest] / 10))


def greedy_lr(
    model: Model, data: Data, *, low: float = 1e-7, high: float = 10.0, steps: int = 100, **settings: Any
) -> float:
    """The largest rate before the first step that made its own batch worse, on the same ramp.

    Every step is judged on the batch it was made for, in inference mode; nothing is smoothed.
    """
    stepper, state = _ramp(model, data, low, high, steps, settings)
    key = random.key(stepper.config.seed, "greedy")

    @jax.jit
    def judge(arrays: Any, batch: Batch) -> Scalar:
        still = eqx.nn.inference_mode(lora.merged(eqx.combine(arrays, stepper.static)))
        return stepper.evaluated(still, batch, key)[0]

    for step in range(steps):
        batch = jax.tree.map(jnp.asarray, stepper.batch_at(step))
        before = float(judge(state.model, batch))
        state, _, done = stepper.run(state, step, 1)
        if not done or not float(judge(state.model, batch)) <= before:
            if step == 0:
                raise ArgumentError(
                    f"greedy_lr(low={low}): the first step makes its batch worse",
                    remedy="start lower, e.g. low=1e-9",
                )
            return float(low * (high / low) ** ((step - 1) / (steps - 1)))
    return high


def _ramp(
    model: Model, data: Data, low: float, high: float, steps: int, settings: dict[str, Any]
) -> tuple[Stepper, State]:
    """A compiled stepper whose rate rises exponentially, and the state to start from."""
    if not 0 < low < high or steps < 10:
        raise ArgumentError(
            f"find_lr(low={low}, high={high}, steps={steps}): needs 0 < low < high and at least 10 steps"
        )
    model = prepared(model, data)
    check_gradients("find_lr", model)
    entry = models.entry_of(model)
    config, _ = settled(entry.training_for(data.schema) if entry else {}, settings, len(data.train))
    peak = config.optimizer.lr
    stepper = Stepper(
        model,
        config,
        training_split(data),
        lambda step: low / peak * jnp.power(high / low, step / (steps - 1)),
        resident=True,
        most=steps,
    )
    state = initial_state(model, config)
    stepper.compile(state)
    return stepper, state


def blow_up(losses: np.ndarray) -> np.ndarray:
    """The loss above which the curve ends, at every step.

    >>> blow_up(np.array([8.0, 2.0, 3.0])).tolist(), blow_up(np.array([-1.0, -3.0])).tolist()
    ([32.0, 8.0, 8.0], [2.0, 6.0])
    """
    lowest = np.minimum.accumulate(losses)
    fallen = losses[0] - lowest
    below_zero = lowest + (_BLOW_UP - 1) * np.maximum(np.abs(lowest), fallen)
    return np.where(lowest > 0, _BLOW_UP * lowest, below_zero)


def smooth(values: np.ndarray, weight: float = _SMOOTHING) -> np.ndarray:
    """Exponential moving average, corrected for its start from zero.

    >>> smooth(np.array([2.0, 2.0, 2.0])).round(6).tolist()
    [2.0, 2.0, 2.0]
    """
    averages, average = [], 0.0
    for t, value in enumerate(values, start=1):
        average = weight * average + (1 - weight) * float(value)
        averages.append(average / (1 - weight**t))
    return np.array(averages)


__all__ = ["FoundRate", "blow_up", "find_lr", "greedy_lr", "smooth"]
