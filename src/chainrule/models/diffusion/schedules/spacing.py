"""Spacing of the noise levels that a sampler visits, noisiest first."""

import jax
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.models.diffusion.process import CLEAN, Level
from chainrule.models.diffusion.schedules.schedule import Schedule

SPACINGS = ("uniform-t", "uniform-lam", "karras")


def grid(schedule: Schedule, steps: int, spacing: str = "uniform-t", *, clean: bool = True) -> Level:
    """`steps` levels from the noisiest to the cleanest of the schedule and, unless told otherwise, no noise at all.

    Spacing is uniform in time, in the log signal-to-noise ratio, or in sigma^(1/7). The last step, to the clean end,
    returns the estimate of x0.

    >>> from chainrule.models.diffusion.schedules import schedule
    >>> levels = grid(schedule("cosine"), 10)
    >>> levels.a.shape, float(levels.s[-1])
    ((11,), 0.0)
    """
    check_choice("grid", "spacing", spacing, SPACINGS)
    most = schedule.count
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ArgumentError(f"steps={steps}: the number of steps is a whole number of at least 1")
    if most is not None and steps > most:
        raise ArgumentError(
            f"steps={steps}: the schedule has {most} levels", remedy=f"use steps={most} or fewer"
        )
    lams = _between(schedule, steps, spacing)
    with jax.ensure_compile_time_eval():
        a, s = (np.asarray(part, np.float64) for part in schedule.process.level(lams))
    return Level(np.append(a, CLEAN.a), np.append(s, CLEAN.s)) if clean else Level(a, s)


def _between(schedule: Schedule, steps: int, spacing: str) -> np.ndarray:
    if spacing == "uniform-t":
        with jax.ensure_compile_time_eval():
            return np.asarray(schedule.lam(np.linspace(1.0, schedule.first, steps)))
    clean, noisy = schedule.ends()
    if not np.isfinite([clean, noisy]).all():
        raise ArgumentError(
            f'spacing="{spacing}": the schedule ends at lam={noisy:g}', remedy='use spacing="uniform-t"'
        )
    if spacing == "uniform-lam":
        return np.linspace(noisy, clean, steps)
    return -14 * np.log(np.linspace(np.exp(-noisy / 14), np.exp(-clean / 14), steps))


__all__ = ["SPACINGS", "grid"]
