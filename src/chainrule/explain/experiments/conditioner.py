"""Normal variables before and after some of them are observed: joint contours, conditional densities, pairs."""

import itertools
from typing import final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Picture, Scatter, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability import MultivariateNormal, gaussian


@final
class ConditionerSettings(Settings):
    """A normal distribution and what is known of it."""

    mean: tuple[float, ...] = Field(
        (1.0, 2.0, 3.0), min_length=2, max_length=6, description="one for each variable"
    )
    covariance: tuple[float, ...] = Field(
        (2.0, 0.6, 0.3, 0.6, 1.0, 0.2, 0.3, 0.2, 1.5), description="row after row"
    )
    observed: tuple[int, ...] = Field(
        (1, 2), min_length=1, description="variables that are known, counted from 0"
    )
    values: tuple[float, ...] = Field((2.5, 2.0), description="their values")
    draws: int = Field(300, ge=0, le=5000, description="points in the pictures of pairs")
    seed: int = Field(0, ge=0, description="points")


def run(settings: ConditionerSettings, listener: Listener) -> Outcome:
    """Condition, and draw what changed."""
    del listener
    size = len(settings.mean)
    if len(settings.covariance) != size * size:
        raise ArgumentError(
            f"conditioner: covariance has {len(settings.covariance)} entries, {size} variables need {size * size}",
            remedy="give it row after row: covariance=2,0.6,0.6,1 for mean=1,2",
        )
    if len(settings.values) != len(settings.observed):
        raise ArgumentError(
            f"conditioner: {len(settings.observed)} variables are observed and {len(settings.values)} values given",
            remedy="observed=1,2 values=2.5,2.0",
        )
    mean, covariance = np.array(settings.mean), np.reshape(settings.covariance, (size, size))
    known = dict(zip(settings.observed, settings.values, strict=True))
    after = gaussian.condition(mean, covariance, known)
    free = [index for index in range(size) if index not in {one % size for one in settings.observed}]
    if not free:
        raise ArgumentError("conditioner: every variable is observed", remedy="leave one out of observed=")
    conditional, spread = np.asarray(after.mean, dtype=float), np.asarray(after.covariance, dtype=float)
    rows: list[list[str | float | int]] = [
        [f"x{index}", mean[index], covariance[index, index] ** 0.5, conditional[at], spread[at, at] ** 0.5]
        for at, index in enumerate(free)
    ]
    shown = ", ".join(f"x{index} = {value:g}" for index, value in known.items())
    findings = [
        f"Given {shown}, x{index} has mean {conditional[at]:.6g} (before: {mean[index]:.6g}) and variance "
        f"{spread[at, at]:.6g} (before: {covariance[index, index]:.6g})."
        for at, index in enumerate(free)
    ]
    findings.append(
        "How far variances shrink does not depend on the values that were observed, only on which."
    )
    pictures: list[Picture] = [
        _densities(index, mean, covariance, conditional[at], spread[at, at], shown)
        for at, index in enumerate(free)
    ]
    pictures += [_joint(mean, covariance, free[0], settings.observed[0] % size, known[settings.observed[0]])]
    pictures += [_sweep(mean, covariance, free[0], settings.observed[0] % size)]
    pictures += _corner(mean, covariance, free, conditional, spread, settings)
    return Outcome(
        findings,
        pictures,
        Table(
            "conditioner",
            f"Given {shown}",
            ["variable", "mean before", "deviation before", "mean after", "deviation after"],
            rows,
        ),
        {"mean": conditional.tolist(), "covariance": spread.tolist(), "variables": free},
    )


def _bell(x: np.ndarray, mean: float, variance: float) -> np.ndarray:
    found: np.ndarray = np.exp(-np.square(x - mean) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    return found


def _reach(mean: float, variance: float, widths: float = 3.5) -> tuple[float, float]:
    return mean - widths * variance**0.5, mean + widths * variance**0.5


def _densities(
    index: int, mean: np.ndarray, covariance: np.ndarray, after: float, variance: float, shown: str
) -> Lines:
    ends = (*_reach(mean[index], covariance[index, index]), *_reach(after, variance))
    x = np.linspace(min(ends), max(ends), 300)
    return Lines(
        f"conditioner-x{index}",
        f"x{index} before and after",
        f"x{index}",
        "density",
        {
            "before": (x, _bell(x, mean[index], covariance[index, index])),
            "after": (x, _bell(x, after, variance)),
        },
        caption=f"After: given {shown}.",
    )


def _joint(mean: np.ndarray, covariance: np.ndarray, first: int, second: int, value: float) -> Scatter:
    """The joint density of two variables, the observed value, and the mean of the one for every value of the other."""
    pair = [first, second]
    block = covariance[np.ix_(pair, pair)]
    left, right = _reach(mean[first], block[0, 0])
    low, high = _reach(mean[second], block[1, 1])
    low, high = min(low, value), max(high, value)
    grid = np.stack(np.meshgrid(np.linspace(left, right, 121), np.linspace(low, high, 121)), axis=-1)
    away = grid - mean[pair]
    square = np.einsum("...i,ij,...j->...", away, np.linalg.inv(block), away)
    heights = np.linspace(low, high, 50)
    slope = block[0, 1] / block[1, 1]
    mass = {0.5: "50 %", 0.9: "90 %", 0.99: "99 %"}
    return Scatter(
        "conditioner-joint",
        f"x{first} and x{second} together",
        f"x{first}",
        f"x{second}",
        {
            f"x{second} = {value:g}": np.stack([np.linspace(left, right, 50), np.full(50, value)], axis=1),
            f"mean of x{first} given x{second}": np.stack(
                [mean[first] + slope * (heights - mean[second]), heights], axis=1
            ),
        },
        field=np.exp(-square / 2),
        extent=(left, right, low, high),
        contours=[(1 - share, label) for share, label in mass.items()],
        joined=True,
        caption="Lines around half, 90 % and 99 % of the mass. The mean given x"
        f"{second} passes through the points where they are level.",
    )


def _sweep(mean: np.ndarray, covariance: np.ndarray, first: int, second: int) -> Lines:
    """The conditional density for several values of one observed variable alone."""
    x = np.linspace(*_reach(mean[first], covariance[first, first]), 300)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for widths in (-2, -1, 0, 1, 2):
        value = mean[second] + widths * covariance[second, second] ** 0.5
        found = gaussian.condition(*gaussian.marginal(mean, covariance, [first, second]), {1: value})
        series[f"x{second} = {value:.3g}"] = (
            x,
            _bell(x, float(found.mean[0]), float(found.covariance[0, 0])),
        )
    return Lines(
        "conditioner-sweep",
        f"x{first} given each value of x{second}",
        f"x{first}",
        "density",
        series,
        caption="The bell moves and keeps its width.",
    )


def _corner(
    mean: np.ndarray,
    covariance: np.ndarray,
    free: list[int],
    conditional: np.ndarray,
    spread: np.ndarray,
    settings: ConditionerSettings,
) -> list[Picture]:
    """Every pair of which one is unknown, as points."""
    if not settings.draws:
        return []
    keys = jax.random.split(random.key(settings.seed, "conditioner"))
    before, after = (
        np.asarray(MultivariateNormal(centre, matrix).sample(key, settings.draws))
        for key, centre, matrix in zip(keys, (mean, conditional), (covariance, spread), strict=True)
    )
    full = np.tile(mean, (settings.draws, 1))
    full[:, free] = after
    for index, value in zip(settings.observed, settings.values, strict=True):
        full[:, index] = value
    return [
        Scatter(
            f"conditioner-x{first}-x{second}",
            f"x{first} and x{second}",
            f"x{first}",
            f"x{second}",
            {"before": before[:, [first, second]], "after": full[:, [first, second]]},
        )
        for first, second in itertools.combinations(range(len(mean)), 2)
        if first in free or second in free
    ]


experiment = Experiment(
    "Normal variables of which some are observed: densities before and after, on numbers of your own.",
    ConditionerSettings,
    run,
    toy={"draws": 20},
    reference="Bishop, Pattern Recognition and Machine Learning, 2006, section 2.3.1",
)

__all__ = ["ConditionerSettings", "experiment", "run"]
