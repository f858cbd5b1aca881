"""Learning-rate schedules by name, as a factor of the peak and a pure function of the step.

`plateau` is constant here: the loop lowers the rate itself when the validation loss stops falling.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.train.config import LearningRateSchedule

_STAGES = 8

shapes: Registry[Callable[[LearningRateSchedule, int], optax.Schedule]] = Registry("schedule")

shapes.add("constant", lambda s, n: optax.constant_schedule(1.0))
shapes.add("plateau", lambda s, n: optax.constant_schedule(1.0))
shapes.add("cosine", lambda s, n: optax.cosine_decay_schedule(1.0, n, alpha=s.floor))
shapes.add("linear", lambda s, n: optax.linear_schedule(1.0, s.floor, n))
shapes.add("polynomial", lambda s, n: optax.polynomial_schedule(1.0, s.floor, s.power, n))
# What adversarial adaptation is trained with (Ganin et al., 2016, arXiv:1505.07818).
shapes.add("inverse", lambda s, n: lambda step: (1 + 10 * jnp.asarray(step) / n) ** -0.75)
# Constant, then straight down over the last fifth (Hägele et al., 2024, arXiv:2405.18392).
shapes.add(
    "stable",
    lambda s, n: optax.linear_schedule(1.0, s.floor, n - 4 * n // 5, transition_begin=4 * n // 5),
)
shapes.add("exponential", lambda s, n: optax.exponential_decay(1.0, n, s.floor or 1e-3))
shapes.add("step", lambda s, n: optax.exponential_decay(1.0, s.every, s.gamma, staircase=True))
# Eight stages, each three times as long as the one before, the rate falling by 10^(1/7) from one to the next, as in
# "Importance weighted autoencoders" (Burda et al., 2016).
shapes.add("tripling", lambda s, n: _tripling(n))
# Rise from 1/25 of the peak over the first 30 % of the steps, then fall to 1/250,000 (Smith and Topin, 2017).
shapes.add("1cycle", lambda s, n: optax.cosine_onecycle_schedule(n, 1.0))


def schedule(settings: LearningRateSchedule, steps: int) -> optax.Schedule:
    """The factor of the peak learning rate at each step of a run of that many steps.

    >>> factor = schedule(LearningRateSchedule(name="cosine", warmup=10), steps=110)
    >>> [round(float(factor(step)), 3) for step in (0, 5, 10, 60, 110)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if settings.warmup >= steps:
        raise ArgumentError(
            f"schedule.warmup={settings.warmup}: the warm-up must be shorter than the run of {steps} steps"
        )
    shape = shapes[settings.name](settings, steps - settings.warmup)
    if not settings.warmup:
        return shape
    return optax.join_schedules([optax.linear_schedule(0.0, 1.0, settings.warmup), shape], [settings.warmup])


def _tripling(steps: int) -> optax.Schedule:
    """Stage i takes 3^i of 3,280 parts of the run."""
    ends = steps * (3.0 ** np.arange(1, _STAGES) - 1) / (3**_STAGES - 1)
    return lambda step: 10.0 ** (-(jnp.asarray(step) >= ends).sum() / (_STAGES - 1))


def momentum_cycle(settings: LearningRateSchedule, steps: int) -> optax.Schedule | None:
    """The momentum at each step where it moves against the rate of a 1cycle schedule, or `None` where it is fixed.

    >>> momentum = momentum_cycle(LearningRateSchedule(name="1cycle", cycle_momentum=True), steps=100)
    >>> [round(float(momentum(step)), 3) for step in (0, 15, 30, 100)]
    [0.95, 0.9, 0.85, 0.95]
    """
    if not settings.cycle_momentum:
        return None
    if settings.name != "1cycle":
        raise ArgumentError(
            f"schedule.cycle_momentum=true: the {settings.name} schedule has no cycle",
            remedy="add schedule.name=1cycle",
        )
    low, high, top = 0.85, 0.95, int(0.3 * (steps - settings.warmup))
    down = optax.cosine_decay_schedule(high - low, max(top, 1))
    up = optax.cosine_decay_schedule(high - low, max(steps - settings.warmup - top, 1))
    return optax.join_schedules(
        [
            optax.constant_schedule(high),
            lambda step: low + down(step),
            lambda step: high - up(step),
        ],
        [settings.warmup, settings.warmup + top],
    )


__all__ = ["momentum_cycle", "schedule", "shapes"]
