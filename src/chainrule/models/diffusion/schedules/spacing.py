"""Spacing of the noise levels that a sampler visits, noisiest first."""

import math

import jax
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.models.diffusion.process import CLEAN, Level
from chainrule.models.diffusion.schedules.schedule import Schedule

SPACINGS = ("uniform-t", "uniform-lam", "karras")
_MISMATCH = 0.002
"""Nats by which data with enough noise may differ from noise alone."""
_MOST = 160.0
"""Enough noise for data of every size; the published linear schedule ends at 157."""


def enough_noise(dimensions: int) -> float:
    """sigma from which data of unit size are no longer told from noise: their divergence from it is d/(2 sigma²) nats.

    More would only multiply errors: an estimate of the noise that is wrong by e puts the clean data wrong by sigma e.

    >>> round(enough_noise(2), 1), enough_noise(3072)
    (22.4, 160.0)
    """
    return min(math.sqrt(dimensions / (2 * _MISMATCH)), _MOST)


def grid(
    schedule: Schedule,
    steps: int,
    spacing: str = "uniform-t",
    *,
    clean: bool = True,
    sigma_min: float | None = None,
    sigma_max: float | None = None,
) -> Level:
    """`steps` levels from the noisiest to the cleanest of the schedule and, unless told otherwise, no noise at all.

    Spacing is uniform in time, in the log signal-to-noise ratio, or in sigma^(1/7). `sigma_max` and `sigma_min` are the
    noise s/a of the first and of the last level, where these are not to be the ends of the schedule. The last step, to
    the clean end, returns the estimate of x0.

    >>> from chainrule.models.diffusion.schedules import schedule
    >>> levels = grid(schedule("cosine"), 10)
    >>> levels.a.shape, float(levels.s[-1])
    ((11,), 0.0)
    >>> round(float(grid(schedule("cosine"), 10, sigma_max=80).sigma[0]), 3)
    80.0
    """
    check_choice("grid", "spacing", spacing, SPACINGS)
    most = schedule.count
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ArgumentError(f"steps={steps}: the number of steps is a whole number of at least 1")
    if most is not None and steps > most:
        raise ArgumentError(
            f"steps={steps}: the schedule has {most} levels", remedy=f"use steps={most} or fewer"
        )
    lams = _between(schedule, steps, spacing, _asked(schedule, sigma_min, sigma_max))
    with jax.ensure_compile_time_eval():
        a, s = (np.asarray(part, np.float64) for part in schedule.process.level(lams))
    return Level(np.append(a, CLEAN.a), np.append(s, CLEAN.s)) if clean else Level(a, s)


def _asked(
    schedule: Schedule, sigma_min: float | None, sigma_max: float | None
) -> tuple[float | None, float | None]:
    """lam of the clean and of the noisy end that are asked for, each within the schedule."""
    ends = [math.exp(-lam / 2) for lam in schedule.ends()]
    for name, sigma in (("sigma_min", sigma_min), ("sigma_max", sigma_max)):
        # Ends are known in single precision.
        if sigma is not None and not (0.999 * ends[0] <= sigma <= 1.001 * ends[1]):
            raise ArgumentError(
                f"{name}={sigma:g}: the noise of the schedule goes from {ends[0]:.3g} to {ends[1]:.3g}",
                remedy=f"leave {name} out, or stay within that",
            )
    low, high = (ends[0] if sigma_min is None else sigma_min), (ends[1] if sigma_max is None else sigma_max)
    if low >= high:
        raise ArgumentError(f"sigma_min={low:g}, sigma_max={high:g}: noise runs from much to little")
    clean, noisy = (None if sigma is None else -2 * math.log(sigma) for sigma in (sigma_min, sigma_max))
    return clean, noisy


def _between(
    schedule: Schedule, steps: int, spacing: str, asked: tuple[float | None, float | None]
) -> np.ndarray:
    clean, noisy = (end if lam is None else lam for lam, end in zip(asked, schedule.ends(), strict=True))
    if spacing == "uniform-t":
        first, last = (
            end if lam is None else schedule.time(lam)
            for lam, end in zip(asked, (schedule.first, 1.0), strict=True)
        )
        with jax.ensure_compile_time_eval():
            lams = np.array(schedule.lam(np.linspace(last, first, steps)))
        lams[-1], lams[0] = (
            clean,
            noisy,
        )  # the ends as they were asked for; the first step is from the noisy one
        return lams
    if not np.isfinite([clean, noisy]).all():
        raise ArgumentError(
            f'spacing="{spacing}": the schedule ends at lam={noisy:g}',
            remedy=f'give sigma_max={_MOST:g}, or use spacing="uniform-t"',
        )
    if spacing == "uniform-lam":
        return np.linspace(noisy, clean, steps)
    return -14 * np.log(np.linspace(np.exp(-noisy / 14), np.exp(-clean / 14), steps))


__all__ = ["SPACINGS", "enough_noise", "grid"]
