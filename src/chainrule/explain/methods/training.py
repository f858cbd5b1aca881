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
from chainrule.data.dataset import Data
from chainrule.data.domains import training_split
from chainrule.models.protocol import Model
from chainrule.train import TrainConfig
from chainrule.train.evaluation import mean_loss
from chainrule.train.schedules import momentum_cycle, schedule
from chainrule.train.seeds import SeedStepper
from chainrule.train.state import initial_state
from chainrule.train.step import Stepper


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
    """As it was in the end, in inference mode; the averaged weights where training keeps them."""
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
    rate, momentum = schedule(config.schedule, steps), momentum_cycle(config.schedule, steps)
    stepper = Stepper(
        model, config, training_split(data), rate, resident=True, most=every, momentum=momentum, total=steps
    )
    state = initial_state(model, config)
    stepper.compile(state)
    log = _TrainingLog(data, config, model)
    done, total = 0, 0.0
    if watch is not None:
        watch(0, model)
    while done < steps and log.finite:
        count = min(every, steps - done)
        before = time.perf_counter()
        state, metrics, finished = stepper.run(state, done, count)
        total += time.perf_counter() - before
        done += finished
        now = stepper.model(state)
        log.note(metrics["loss"], now, total, finite=finished == count)
        if watch is not None:
            watch(done, now)
    return log.close()


def train_seeds(
    build: Callable[[int], Model],
    data: Data,
    seeds: Sequence[int],
    *,
    steps: int,
    every: int,
    **settings: Any,
) -> list[Trained]:
    """`train` of `build(seed)` for several seeds in one compiled program; seconds are those of all together."""
    configs = [TrainConfig.parse(steps=steps, **{**settings, "seed": seed}) for seed in seeds]
    starts = [build(seed) for seed in seeds]
    stepper = SeedStepper(starts, seeds, configs[0], training_split(data), steps=steps, most=every)
    states = stepper.start()
    logs = [_TrainingLog(data, config, start) for config, start in zip(configs, starts, strict=True)]
    done, total = 0, 0.0
    while done < steps and any(log.finite for log in logs):
        count = min(every, steps - done)
        before = time.perf_counter()
        counts = np.array([count if log.finite else 0 for log in logs])
        states, metrics, finished = stepper.run(states, done, counts)
        total += time.perf_counter() - before
        done += count
        for number, log in enumerate(logs):
            if log.finite:
                end = int(finished[number])
                now = stepper.model(states, number)
                log.note(metrics["loss"][number, :end], now, total, finite=end == count)
    return [log.close() for log in logs]


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
    for index in range(1, len(losses)):
        if losses[index] < losses[best]:
            best, waited = index, 0
        else:
            waited += 1
        if waited >= patience:
            return int(steps[index]), int(steps[best])
    return int(steps[-1]), int(steps[best])


@final
class _TrainingLog:
    """What is written down while a model is trained."""

    def __init__(self, data: Data, config: TrainConfig, model: Model) -> None:
        self.data = data
        self.config = config
        self.model = model
        self.finite = True
        self.losses: list[np.ndarray] = []
        self.steps, self.val, self.seconds = [0], [self._judge(model)], [0.0]

    def note(self, losses: np.ndarray, model: Model, seconds: float, *, finite: bool) -> None:
        """Some steps were made."""
        self.losses.append(losses)
        self.steps.append(self.steps[-1] + len(losses))
        self.val.append(self._judge(model))
        self.seconds.append(seconds)
        self.model = model
        self.finite = finite

    def close(self) -> Trained:
        """All of it, with the model as it was last."""
        columns = {name: np.array([one[name] for one in self.val]) for name in self.val[0]}
        losses, points = np.concatenate(self.losses), np.array(self.steps)
        still = eqx.nn.inference_mode(self.model)
        return Trained(losses, points, columns, np.array(self.seconds), still, self.finite)

    def _judge(self, model: Model) -> dict[str, float]:
        still, key = eqx.nn.inference_mode(model), random.key(self.config.seed, "val")
        return mean_loss(still, self.data.val, key, most=self.config.eval_examples)[0]


__all__ = ["Trained", "band", "stop_step", "train", "train_seeds"]
