"""Training for experiments: in memory, with what happens on the way, and without a run folder.

The same compiled steps, batches and random numbers as `fit`, stopped every few steps to look at the validation split or
at anything else.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import numpy as np

from chainrule.core import random
from chainrule.data.base import Data
from chainrule.models.base import Model
from chainrule.train import TrainConfig
from chainrule.train.metrics import mean_loss
from chainrule.train.schedules import schedule
from chainrule.train.step import Stepper, initial_state


@final
@dataclass(frozen=True)
class Trained:
    """What happened: the loss of every step, and the validation split every few steps."""

    losses: np.ndarray
    steps: np.ndarray
    """Steps after which the validation split was looked at; the first is 0."""
    val: dict[str, np.ndarray]
    """Loss and metrics on the validation split at `steps`."""
    seconds: np.ndarray
    """Seconds of training until then, compilation and validation left out."""
    model: Model
    """As it was in the end, in inference mode."""
    is_finite: bool
    """Whether every step was; training ends at the first that is not."""


def train(
    model: Model,
    data: Data,
    *,
    steps: int,
    every: int,
    watch: Callable[[int, Model], None] | None = None,
    **settings: Any,
) -> Trained:
    """Train for some steps, with settings of `TrainConfig`; `watch(step, model)` is called every few steps."""
    config = TrainConfig.parse(steps=steps, **settings)
    stepper = Stepper(model, config, data.train, schedule(config.schedule, steps), resident=True, most=every)
    state = initial_state(model, config)
    stepper.compile(state)
    losses, points, val, seconds = [], [0], [_judge(model, data, config)], [0.0]
    done, total, finite = 0, 0.0, True
    if watch is not None:
        watch(0, model)
    while done < steps and finite:
        count = min(every, steps - done)
        before = time.perf_counter()
        state, metrics, finished = stepper.run(state, done, count)
        total += time.perf_counter() - before
        losses.append(metrics["loss"])
        done, finite = done + finished, finished == count
        now = eqx.combine(state.model, stepper.static)
        points.append(done)
        val.append(_judge(now, data, config))
        seconds.append(total)
        if watch is not None:
            watch(done, now)
    now = eqx.nn.inference_mode(eqx.combine(state.model, stepper.static))
    columns = {name: np.array([one[name] for one in val]) for name in val[0]}
    return Trained(np.concatenate(losses), np.array(points), columns, np.array(seconds), now, finite)


def band(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest of several curves, as long as the shortest.

    >>> [values.tolist() for values in band([np.array([1.0, 2.0]), np.array([3.0, 2.0, 9.0])])]
    [[2.0, 2.0], [1.0, 2.0], [3.0, 2.0]]
    """
    length = min(len(curve) for curve in curves)
    stack = np.stack([curve[:length] for curve in curves])
    return stack.mean(axis=0), stack.min(axis=0), stack.max(axis=0)


def stop_step(steps: np.ndarray, losses: np.ndarray, patience: int) -> tuple[int, int]:
    """Where early stopping would have ended, and the best step it would have gone back to.

    >>> stop_step(np.array([0, 10, 20, 30, 40]), np.array([3.0, 1.0, 2.0, 2.0, 0.5]), patience=2)
    (30, 10)
    """
    best, waited = 0, 0
    for place in range(1, len(losses)):
        if losses[place] < losses[best]:
            best, waited = place, 0
        else:
            waited += 1
        if waited >= patience:
            return int(steps[place]), int(steps[best])
    return int(steps[-1]), int(steps[best])


def _judge(model: Model, data: Data, config: TrainConfig) -> dict[str, float]:
    still = eqx.nn.inference_mode(model)
    return mean_loss(still, data.val, random.key(config.seed, "val"), most=config.eval_examples)[0]


__all__ = ["Trained", "band", "stop_step", "train"]
