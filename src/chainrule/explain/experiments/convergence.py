"""The convergence board: a sequence in every mode of convergence, and a source under both limit theorems."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, final

import jax
import numpy as np
import scipy.special
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability import Bernoulli, Distribution, Exponential, Normal, StudentT, Uniform
from chainrule.probability.convergence import (
    EXAMPLES,
    ModesReport,
    RunningMeans,
    StandardizedSums,
    modes,
    running_means,
    standardized_sums,
)

SOURCES: Mapping[str, Callable[[], Distribution]] = MappingProxyType(
    {
        "exponential": lambda: Exponential(1.0),
        "bernoulli": lambda: Bernoulli(0.2),
        "uniform": lambda: Uniform(0.0, 1.0),
        "normal": lambda: Normal(0.0, 1.0),
        "student-2": lambda: StudentT(2.0),
        "cauchy": lambda: StudentT(1.0),
    }
)
_FAN = 4
"""Paths of running means that are drawn."""
_SIZES = (1, 4, 16, 64, 256)


@final
class ConvergenceSettings(Settings):
    """The sequence, the source, and how much is drawn."""

    sequence: Literal["sliding-indicators", "tall-indicators", "mirrored", "mean-of-signs"] = Field(
        "sliding-indicators", description="sequence X_n whose modes of convergence are followed"
    )
    source: Literal["exponential", "bernoulli", "uniform", "normal", "student-2", "cauchy"] = Field(
        "cauchy",
        description="source of the means and sums; student-2 has a mean and no variance, cauchy neither",
    )
    steps: int = Field(2000, ge=20, le=100_000, description="numbers of each path")
    paths: int = Field(2000, ge=10, le=100_000, description="paths")
    epsilon: float = Field(0.1, gt=0, description="how far X_n may be from its limit")
    p: float = Field(1.0, ge=1, description="moment of the distance")
    seed: int = Field(0, ge=0, description="the draws")


def run(settings: ConvergenceSettings, listener: Listener) -> Outcome:
    """Simulate both and say what was seen."""
    del listener
    one, two, three = jax.random.split(random.key(settings.seed, "convergence"), 3)
    example = EXAMPLES[settings.sequence]
    found = modes(
        example, one, steps=settings.steps, paths=settings.paths, epsilon=settings.epsilon, p=settings.p
    )
    source = SOURCES[settings.source]()
    means = running_means(source, two, steps=settings.steps, paths=min(settings.paths, 500))
    sums = standardized_sums(source, three, n=_SIZES, paths=settings.paths)
    falls = found.falls()
    seen = ", ".join(name for name, yes in falls.items() if yes) or "in no mode"
    unseen = ", ".join(name for name, yes in falls.items() if not yes)
    spread = means.spread()
    return Outcome(
        [
            f"{settings.sequence} ({example.summary}): up to n = {found.n[-1]:,} seen to converge {seen}"
            f"{f', and not {unseen}' if unseen else ''}.",
            f"Means of {settings.source} draws: nine in ten lie within {spread[0]:.3g} of each other at n = 1 and "
            f"within {spread[-1]:.3g} at n = {means.n[-1]:,}"
            + (f"; {means.broken}." if means.broken else f", around the mean {means.mean:.3g}."),
            f"Standardised sums are {sums.distance[0]:.3f} from their normal distribution (Kolmogorov) at n = 1 and "
            f"{sums.distance[-1]:.3f} at n = {sums.n[-1]}; noise alone gives up to {sums.noise:.3f}"
            + (f"; {sums.broken}." if sums.broken else "."),
        ],
        [_board(found), _fan(means), *_sums(sums)],
        Table(
            "convergence-modes",
            "Modes of convergence",
            ["mode", "first", "last", "falls"],
            [
                [name, float(curve[0]), float(curve[-1]), "yes" if falls[mode] else "no"]
                for mode, name, curve in (
                    ("almost surely", "far at n or later", found.almost_sure),
                    ("in L^p", "E |X_n - X|^p", found.moment),
                    ("in probability", "P(|X_n - X| > eps)", found.in_probability),
                    ("in distribution", "Kolmogorov distance", found.kolmogorov),
                )
            ],
        ),
        {
            "falls": dict(falls),
            "spread": [float(spread[0]), float(spread[-1])],
            "distance": dict(zip(map(str, sums.n.tolist()), sums.distance.tolist(), strict=True)),
            "broken": [one for one in (means.broken, sums.broken) if one],
        },
    )


def _board(found: ModesReport) -> Lines:
    return Lines(
        "convergence-board",
        "Distance from the limit, in every mode",
        "n",
        "",
        {
            "far at n or later": (found.n, found.almost_sure),
            "P(|X_n - X| > eps)": (found.n, found.in_probability),
            f"E |X_n - X|^{found.p:g}": (found.n, found.moment),
            "Kolmogorov distance": (found.n, found.kolmogorov),
            "Wasserstein distance": (found.n, found.wasserstein),
        },
        log_x=True,
        caption=f"Far is more than {found.epsilon:g} from the limit. A curve that goes to zero is convergence in its "
        "mode: almost sure, in probability, in L^p, in distribution (either of the last two).",
    )


def _fan(means: RunningMeans) -> Lines:
    low, middle, high = np.quantile(means.means, (0.05, 0.5, 0.95), axis=0)
    series: dict[str, tuple[np.ndarray, ...]] = {"nine in ten paths": (means.n, middle, low, high)}
    series |= {f"path {i + 1}": (means.n, means.means[i]) for i in range(_FAN)}
    if np.isfinite(means.band).all():
        middle = np.full(len(means.n), means.mean)
        series["mean, 1.96 errors"] = (means.n, middle, middle - means.band, middle + means.band)
    return Lines(
        "running-means",
        "Running means",
        "n",
        "mean of the first n draws",
        series,
        log_x=True,
        caption=means.broken or "The band of 1.96 standard errors closes as one over the root of n.",
    )


def _sums(sums: StandardizedSums) -> list[Picture]:
    ends = 4 * sums.deviation
    edges = np.linspace(-ends, ends, 61)
    centres = (edges[1:] + edges[:-1]) / 2
    normal = np.exp(-np.square(centres / sums.deviation) / 2) / (sums.deviation * np.sqrt(2 * np.pi))
    levels = np.linspace(0.01, 0.99, 99)
    quantiles = sums.deviation * scipy.special.ndtri(levels)
    shown = (0, len(sums.n) // 2, len(sums.n) - 1)
    return [
        Lines(
            "standardized-sums",
            "Standardised sums",
            "sum of n draws less their mean, over sqrt(n)",
            "density",
            {
                "normal": (centres, normal),
                **{
                    f"n = {sums.n[i]}": (
                        centres,
                        np.histogram(sums.sums[i], edges)[0] / sums.sums.shape[1] / np.diff(edges),
                    )
                    for i in shown
                },
            },
            caption=sums.broken or "Histograms of the paths.",
        ),
        Lines(
            "standardized-sums-quantiles",
            "Quantiles of standardised sums against normal ones",
            "normal quantile",
            "quantile of the sums",
            {
                f"n = {sums.n[i]}": (quantiles, _near(np.quantile(sums.sums[i], levels), 2 * ends))
                for i in shown
            },
            diagonal=True,
            caption="From the 1 % to the 99 % quantile, up to eight deviations; on the diagonal both are the same.",
        ),
    ]


def _near(values: np.ndarray, end: float) -> np.ndarray:
    """Values within the end; others, which would flatten all the rest, are left out."""
    return np.where(np.abs(values) <= end, values, np.nan)


experiment = Experiment(
    "Modes of convergence told apart by simulation; law of large numbers and central limit theorem, and their failure.",
    ConvergenceSettings,
    run,
    toy={"steps": 100, "paths": 100},
    reference="Billingsley, Probability and Measure, 1995",
)

__all__ = ["SOURCES", "ConvergenceSettings", "experiment", "run"]
