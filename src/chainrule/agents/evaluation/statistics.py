"""Statistics of scores over seeds and tasks: what can be said after few runs, and how surely.

Runs of one algorithm that differ in nothing but their seed differ widely, so that a mean of three of them says little.
The interquartile mean leaves out the best and the worst quarter; intervals come from bootstrap samples that draw runs
anew within each task, never across tasks (stratified). Scores are (runs, tasks) throughout; one task may go without
its axis. Reference: Agarwal, Schwarzer, Castro, Courville and Bellemare, *Deep Reinforcement Learning at the Edge of
the Statistical Precipice*, NeurIPS 2021.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Real

from chainrule.core import checks
from chainrule.core.errors import ArgumentError

FEWEST = 5
"""Runs below which a bootstrap interval would be far too narrow to be shown."""
_SAMPLES = 2000
_AT_ONCE = 1 << 22
"""Numbers that are drawn at a time: about 32 MB."""

Scores: TypeAlias = np.ndarray
"""(runs, tasks), or (runs,)."""
Curves: TypeAlias = np.ndarray
"""(runs, points)"""
Points: TypeAlias = np.ndarray
"""(points,)"""
Statistic: TypeAlias = Callable[[Scores], Scores]
"""From (..., runs, tasks) to (...)."""


@final
@dataclass(frozen=True)
class BootstrapInterval:
    """A number, and between which ends it lies with 95 % confidence; ends are not a number after too few runs."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.value:.4g}"
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


@final
@dataclass(frozen=True)
class Band:
    """A curve, and between which ends it lies with 95 % confidence at each point; there are none after too few runs."""

    value: Real[np.ndarray, "points"]
    ends: tuple[np.ndarray, ...] = ()
    """The lower and the upper one."""


def mean(scores: Scores) -> Scores:
    """The mean over runs and tasks, the last two axes."""
    return scores.mean(axis=(-2, -1))


def interquartile_mean(scores: Scores) -> Scores:
    """The mean without the lowest and the highest quarter of all runs of all tasks, the last two axes.

    A quarter is rounded down, so that nothing is left out of fewer than four.

    >>> float(interquartile_mean(np.array([[0.0], [1.0], [2.0], [30.0]])))
    1.5
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def median(scores: Scores) -> Scores:
    """The median over tasks of the mean over runs."""
    return np.median(scores.mean(axis=-2), axis=-1)


def interval(
    scores: Scores, statistic: Statistic = interquartile_mean, *, seed: int = 0, samples: int = _SAMPLES
) -> BootstrapInterval:
    """A statistic of scores (runs, tasks), with its interval from a stratified bootstrap.

    >>> print(interval(np.array([480.0, 490.0, 500.0, 500.0, 470.0, 500.0]), mean))
    490 (480 to 498.3)
    """
    table = _table("interval", "scores", scores)
    value = float(statistic(table))
    if len(table) < FEWEST:
        return BootstrapInterval(value, np.nan, np.nan)
    low, high = _ends(_bootstrapped(table, statistic, seed, samples))
    return BootstrapInterval(value, float(low), float(high))


def band(
    curves: Curves,
    statistic: Statistic = interquartile_mean,
    *,
    seed: int = 0,
    samples: int = _SAMPLES,
) -> Band:
    """A statistic over runs at every point of their curves, with a band where there are enough runs.

    A bootstrap sample draws whole curves; points of one run stay together.
    """
    if np.ndim(curves) != 2 or not np.size(curves):
        raise ArgumentError(f"band(curves=...): shape {np.shape(curves)} must be (runs, points)")
    columns = np.asarray(curves, np.float64).T[..., None]  # (points, runs, one task)
    value = statistic(columns)
    runs = columns.shape[1]
    if runs < FEWEST:
        return Band(value)
    checks.whole("band", "samples", samples)
    drawn = np.random.default_rng(seed).integers(runs, size=(samples, runs))
    parts = max(1, columns.size * samples // _AT_ONCE)
    ends = [
        _ends(statistic(part[:, drawn, :]).T) for part in np.array_split(columns, min(parts, len(columns)))
    ]
    return Band(value, tuple(np.concatenate(side) for side in zip(*ends, strict=True)))


def improvement(a: Scores, b: Scores, *, seed: int = 0, samples: int = _SAMPLES) -> BootstrapInterval:
    """The probability that a run of A scores higher than one of B on a task chosen at random; a tie counts one half.

    >>> improvement(np.array([3.0, 4.0]), np.array([1.0, 4.0])).value
    0.625
    """
    first, second = _table("improvement", "a", a), _table("improvement", "b", b)
    if first.shape[1] != second.shape[1]:
        raise ArgumentError(
            f"improvement(a, b): {first.shape[1]} and {second.shape[1]} tasks; both must have run the same"
        )
    # Each pair of runs is compared once; a bootstrap sample only says how often each run was drawn.
    wins = np.sign(first[:, None, :] - second[None, :, :]) / 2 + 0.5
    value = float(wins.mean())
    if min(len(first), len(second)) < FEWEST:
        return BootstrapInterval(value, np.nan, np.nan)
    checks.whole("improvement", "samples", samples)
    generator = np.random.default_rng(seed)
    shares = [_shares(generator, samples, *table.shape) for table in (first, second)]
    drawn = np.einsum("srt,rqt,sqt->s", shares[0], wins, shares[1], optimize=True) / wins.shape[2]
    low, high = _ends(drawn)
    return BootstrapInterval(value, float(low), float(high))


def profile(scores: Scores, thresholds: Points, *, seed: int = 0, samples: int = _SAMPLES) -> Band:
    """The score distribution: which share of runs, averaged over tasks, scores above each threshold.

    >>> profile(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 2.0, 9.0])).value
    array([1. , 0.5, 0. ])
    """
    table = _table("profile", "scores", scores)
    thresholds = np.asarray(thresholds, np.float64)
    if thresholds.ndim != 1 or not thresholds.size:
        raise ArgumentError(f"profile(thresholds=...): shape {thresholds.shape} must be (points,)")
    above = table[..., None] > thresholds  # (runs, tasks, points)
    value = above.mean(axis=(0, 1))
    if len(table) < FEWEST:
        return Band(value)
    checks.whole("profile", "samples", samples)
    shares = _shares(np.random.default_rng(seed), samples, *table.shape)
    drawn = np.einsum("srt,rtp->sp", shares, above, optimize=True) / table.shape[1]
    return Band(value, tuple(_ends(drawn)))


def area_under_curve(steps: Points, curves: Curves) -> Real[np.ndarray, "runs"]:
    """The mean height of each curve over its steps: what was earned on the way, not only at the end.

    >>> area_under_curve(np.array([0.0, 10.0, 20.0]), np.array([[0.0, 1.0, 1.0]]))
    array([0.75])
    """
    steps, curves = _curves("area_under_curve", steps, curves)
    if len(steps) == 1:
        return curves[:, 0]
    return np.trapezoid(curves, steps, axis=1) / (steps[-1] - steps[0])


def steps_to(threshold: float, steps: Points, curves: Curves) -> Real[np.ndarray, "runs"]:
    """The first step at which each curve has reached a threshold; infinite where it never does.

    >>> steps_to(1.0, np.array([0.0, 10.0, 20.0]), np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.5]]))
    array([10., inf])
    """
    steps, curves = _curves("steps_to", steps, curves)
    reached = curves >= threshold
    return np.where(reached.any(axis=1), steps[reached.argmax(axis=1)], np.inf)


def _bootstrapped(table: Scores, statistic: Statistic, seed: int, samples: int) -> Scores:
    """The statistic of so many tables whose runs were drawn anew within each task."""
    checks.whole("interval", "samples", samples)
    generator = np.random.default_rng(seed)
    tasks = np.arange(table.shape[1])
    at_once = max(1, _AT_ONCE // table.size)
    return np.concatenate(
        [
            statistic(
                table[
                    generator.integers(len(table), size=(min(at_once, samples - done), *table.shape)), tasks
                ]
            )
            for done in range(0, samples, at_once)
        ]
    )


def _shares(generator: np.random.Generator, samples: int, runs: int, tasks: int) -> Scores:
    """How large a share of a bootstrap sample each run is: (samples, runs, tasks)."""
    counts = generator.multinomial(runs, np.full(runs, 1 / runs), size=(samples, tasks))
    return counts.swapaxes(1, 2) / runs


_ends = functools.partial(np.percentile, q=(2.5, 97.5), axis=0)


def _table(where: str, name: str, scores: Scores) -> Scores:
    table = np.asarray(scores, np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not table.size:
        raise ArgumentError(f"{where}({name}=...): shape {np.shape(scores)} must be (runs,) or (runs, tasks)")
    if not np.isfinite(table).all():
        raise ArgumentError(
            f"{where}({name}=...): it holds a score that is not finite",
            remedy="leave out runs that diverged, and say so",
        )
    return table


def _curves(where: str, steps: Scores, curves: Scores) -> tuple[Scores, Scores]:
    steps, curves = np.asarray(steps, np.float64), np.asarray(curves, np.float64)
    if steps.ndim != 1 or curves.ndim != 2 or not curves.size or curves.shape[1] != len(steps):
        raise ArgumentError(
            f"{where}(steps, curves): shapes {steps.shape} and {curves.shape} must be (points,) and (runs, points)"
        )
    if (np.diff(steps) <= 0).any():
        raise ArgumentError(f"{where}(steps=...): steps must rise from point to point")
    return steps, curves


__all__ = [
    "FEWEST",
    "Band",
    "BootstrapInterval",
    "Curves",
    "Points",
    "area_under_curve",
    "band",
    "improvement",
    "interquartile_mean",
    "interval",
    "mean",
    "median",
    "profile",
    "steps_to",
]
