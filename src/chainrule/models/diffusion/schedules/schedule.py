"""Noise schedules: the signal-to-noise ratio as a function of time, for one process.

Time runs from 0 (data) to 1 (noise). A schedule of finitely many levels is a table with linear interpolation of `lam`,
so that all schedules can be used in discrete and in continuous time.
"""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.models.diffusion.process import Level, Process, VarianceExploding, VariancePreserving


class Rates(NamedTuple):
    """Derivatives in time of a, s and lam."""

    a: Array
    s: Array
    lam: Array


class Schedule(abc.ABC):
    """Noise level as a function of time in [0, 1]."""

    process: Process
    first: float
    """The earliest time with noise; samplers and training do not go below it."""
    count: int | None
    """Number of levels of a discrete chain; `None` in continuous time."""

    @abc.abstractmethod
    def lam(self, t: Any) -> Array:
        """Log signal-to-noise ratio at a time."""

    def level(self, t: Any) -> Level:
        """The noise level at a time."""
        return self.process.level(self.lam(t))

    def ends(self) -> tuple[float, float]:
        """lam at the earliest time with noise and at time 1, as plain numbers, inside a compiled function too."""
        with jax.ensure_compile_time_eval():
            return float(self.lam(self.first)), float(self.lam(1.0))

    def time(self, lam: float) -> float:
        """The time at which the log signal-to-noise ratio has fallen to `lam`; where it never does, the nearest end.

        >>> from chainrule.models.diffusion.schedules import schedule
        >>> round(schedule("logsnr-linear").time(-5.0), 4)
        0.75
        """
        low, high = self.first, 1.0
        with jax.ensure_compile_time_eval():
            for _ in range(4):  # each look leaves one of 64 parts
                times = np.linspace(low, high, 65)
                after = int(np.searchsorted(-np.asarray(self.lam(times)), -lam).clip(1, 64))
                low, high = times[after - 1], times[after]
        return float(low + high) / 2

    def rates(self, t: Any) -> Rates:
        """Derivatives of a, s and lam at a time."""
        t = jnp.asarray(t)
        one = jnp.ones_like(t)
        moved = jax.jvp(lambda t: (*self.level(t), self.lam(t)), (t,), (one,))[1]
        return Rates(*moved)


@final
@dataclass(frozen=True, eq=False)
class TabulatedSchedule(Schedule):
    """A discrete chain: `lams[i]` is the log signal-to-noise ratio after i + 1 steps, at time (i + 1) / count."""

    lams: np.ndarray
    process: Process

    def __post_init__(self) -> None:
        bad = np.flatnonzero(np.diff(self.lams) >= 0)
        if len(bad):
            raise ArgumentError(
                f"the signal-to-noise ratio does not fall at index {int(bad[0]) + 1} of the schedule",
                remedy="every level has to be noisier than the one before it",
            )

    @property
    def count(self) -> int:  # type: ignore[override]  # known from the table, never set
        """Number of levels."""
        return len(self.lams)

    @property
    def first(self) -> float:  # type: ignore[override]  # known from the table, never set
        """Time of the first level."""
        return 1 / len(self.lams)

    @property
    def alpha_bar(self) -> np.ndarray:
        """Share of the variance that is signal after each step, a² of the variance preserving process."""
        return 1 / (1 + np.exp(-self.lams))

    @property
    def alpha(self) -> np.ndarray:
        """The same for each step alone; `alpha_bar` is the running product."""
        bar = self.alpha_bar
        return bar / np.concatenate([[1.0], bar[:-1]])

    def lam(self, t: Any) -> Array:
        t = jnp.asarray(t)
        levels = jnp.asarray(np.arange(1, len(self.lams) + 1), t.dtype)
        return jnp.interp(t * len(self.lams), levels, jnp.asarray(self.lams, t.dtype))


def from_alpha_bar(values: Any) -> TabulatedSchedule:
    """A variance preserving chain from `alpha_bar` of every level.

    >>> from_alpha_bar([0.9, 0.5, 0.6])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: the signal-to-noise ratio does not fall at index 2 of the schedule
           every level has to be noisier than the one before it
    """
    bar = _between_0_and_1("alpha_bar", values)
    return TabulatedSchedule(np.log(bar) - np.log1p(-bar), VariancePreserving())


def from_beta(values: Any) -> TabulatedSchedule:
    """A variance preserving chain from the variance 1 - alpha that each step adds."""
    log_bar = np.cumsum(np.log1p(-_between_0_and_1("beta", values)))
    return TabulatedSchedule(log_bar - np.log(-np.expm1(log_bar)), VariancePreserving())


def from_sigma(values: Any) -> TabulatedSchedule:
    """A variance exploding chain from the noise of every level, smallest first."""
    sigma = np.asarray(values, np.float64)
    if not (sigma > 0).all():
        raise ArgumentError(
            f"sigma[{int(np.argmin(sigma > 0))}] is not positive", remedy="every level has noise"
        )
    return TabulatedSchedule(-2 * np.log(sigma), VarianceExploding())


def _between_0_and_1(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values, np.float64)
    valid = (array > 0) & (array < 1)
    if array.ndim != 1 or not array.size or not valid.all():
        where = (
            f"{name}[{int(np.argmin(valid))}]={array[np.argmin(valid)]:g}"
            if array.ndim == 1 and array.size
            else name
        )
        raise ArgumentError(f"{where}: {name} is a list of numbers between 0 and 1, ends excluded")
    return array


__all__ = ["Rates", "Schedule", "TabulatedSchedule", "from_alpha_bar", "from_beta", "from_sigma"]
