"""Learning where the examples are not: weights that make a source stand for a target, and what they cost.

Inputs of the source are N(0, 1), those of the target N(shift, s²), and both have the same targets: a straight line fits
neither, so that the best one depends on where one looks. The ratio of densities is known, and so is what is left of
the sample: its effective size is a share exp(-shift²) for domains of equal spread.
"""

import itertools
import math
import warnings
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core.pictures import Bars, Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Positive, Settings
from chainrule.transfer.importance import METHODS, effective_size, importance_weights, normalised

Points = Float[np.ndarray, " points"]
_LEAST = 1e-3
"""Smaller weights are drawn as this."""


@final
class ImportanceWeightingSettings(Settings):
    """The two domains."""

    n: int = Field(400, ge=20, le=5000, description="examples of each domain")
    shift: float = Field(
        1.0, ge=-10, le=10, description="of the target, in standard deviations of the source"
    )
    spread: Positive = Field(0.6, le=5, description="standard deviation of the target; 1: that of the source")
    noise: Positive = Field(0.2, le=10, description="of the targets")
    clip: float = Field(99.5, gt=0, le=100, description="percentile at which weights are cut off")
    seed: int = Field(0, ge=0, description="examples")


class _Weighted(NamedTuple):
    name: str
    weights: Points
    line: tuple[float, float]
    """Slope and height."""
    error: float
    """Mean squared error on new examples of the target."""


def run(settings: ImportanceWeightingSettings, listener: Listener) -> Outcome:
    """Weigh by every method, fit a line each, and judge it on the target."""
    rng = np.random.default_rng(settings.seed)
    x, t = rng.normal(size=settings.n), settings.shift + settings.spread * rng.normal(size=settings.n)
    new = settings.shift + settings.spread * rng.normal(size=20_000)
    y, y_new = (truth(one) + settings.noise * rng.normal(size=len(one)) for one in (x, new))
    exact = log_ratio(x, settings.shift, settings.spread)
    found = []
    for name, weights in {
        "no weights": np.ones(settings.n),
        "true ratio": normalised(np.exp(exact)),
        **{method: _estimated(x, t, method, settings.clip, listener) for method in METHODS},
    }.items():
        line = fitted(x, y, weights)
        error = float(np.square(line[0] * new + line[1] - y_new).mean())
        found.append(_Weighted(name, weights, line, error))
    plain, best = found[0], min(found[1:], key=lambda one: one.error)
    closed = effective_share(settings.shift, settings.spread)
    rows = [
        [
            one.name,
            f"{one.error:.4g}",
            f"{effective_size(one.weights) / settings.n:.3g}",
            _likeness(one, exact),
        ]
        for one in found
    ]
    expected = "none at all" if closed == 0 else f"{100 * closed:.1f} %"
    return Outcome(
        [
            f"A line fitted to the source without weights has a mean squared error of {plain.error:.3g} on the target; "
            f"with weights it is {best.error:.3g} ({best.name}).",
            f"Of {settings.n:,} examples the true weights leave {effective_size(found[1].weights):.0f} effective ones; "
            f"in the limit it is {expected}.",
            *(
                [
                    f"Below 10 % domains barely overlap: the fit rests on the {_few(found[1].weights)} largest weights."
                ]
                if effective_size(found[1].weights) < 0.1 * settings.n
                else []
            ),
        ],
        [_fits(x, y, t, found, settings), _ratios(x, found, settings), _histogram(found), _sizes(settings)],
        Table(
            "importance-weighting-table",
            "Weights and what they give",
            ["weights", "error on the target", "effective share", "correlation with the true log-ratio"],
            rows,
        ),
        {
            "methods": {
                one.name: {"error": one.error, "effective_share": effective_size(one.weights) / settings.n}
                for one in found
            },
            "effective_share_in_the_limit": closed,
        },
    )


def truth(x: Points) -> Points:
    """What is to be predicted."""
    return np.asarray(np.sinc(x / 1.5) + 0.1 * x)


def log_ratio(x: Points, shift: float, spread: float) -> Points:
    """The logarithm of the density of N(shift, spread²) over that of N(0, 1)."""
    return np.asarray(x**2 / 2 - (x - shift) ** 2 / (2 * spread**2) - math.log(spread))


def effective_share(shift: float, spread: float) -> float:
    """The effective share of a large sample, 1 / E[w²]; none where that is infinite.

    >>> round(effective_share(1.0, 1.0), 4) == round(math.exp(-1.0), 4)
    True
    """
    if spread**2 >= 2:
        return 0.0
    # E[w²] is an integral of a normal density with this precision.
    precision = 2 / spread**2 - 1
    log_square = (
        -2 * math.log(spread)
        - math.log(precision) / 2
        + shift**2 / spread**2 * (2 / (spread**2 * precision) - 1)
    )
    return math.exp(-log_square)


def fitted(x: Points, y: Points, weights: Points) -> tuple[float, float]:
    """The line of least weighted squares."""
    centre, height = (float(np.average(one, weights=weights)) for one in (x, y))
    slope = float((weights * (x - centre) * (y - height)).sum() / (weights * (x - centre) ** 2).sum())
    return slope, height - slope * centre


def _estimated(x: Points, t: Points, method: str, clip: float, listener: Listener) -> Points:
    listener(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the findings say how much of the sample is left
        return importance_weights(x[:, None], t[:, None], method, clip=clip).values


def _likeness(one: _Weighted, exact: Points) -> str:
    if np.ptp(one.weights) == 0:
        return ""
    return f"{np.corrcoef(np.log(one.weights + 1e-12), exact)[0, 1]:.3f}"


def _few(weights: Points) -> int:
    """How many of the largest weights make half of the total."""
    return int((np.cumsum(np.sort(weights)[::-1]) < weights.sum() / 2).sum()) + 1


def _fits(
    x: Points, y: Points, t: Points, found: list[_Weighted], settings: ImportanceWeightingSettings
) -> Lines:
    grid = np.linspace(min(x.min(), t.min()), max(x.max(), t.max()), 100)
    shown = [one for one in found if one.name in ("no weights", "true ratio", "classifier")]
    series: dict[str, Any] = {"truth": (grid, truth(grid))}
    series |= {f"line, {one.name}": (grid, one.line[0] * grid + one.line[1]) for one in shown}
    return Lines(
        "importance-weighting-fits",
        "Lines fitted to the source, for the target",
        "x",
        "y",
        series,
        dots=(x, y),
        marks=[(0.0, "source"), (settings.shift, "target")],
        caption="Dots are examples of the source; the marks are the centres of the two domains.",
    )


def _ratios(x: Points, found: list[_Weighted], settings: ImportanceWeightingSettings) -> Lines:
    order = np.argsort(x)
    exact = log_ratio(x[order], settings.shift, settings.spread)
    series = {"truth": (x[order], np.maximum(exact, math.log(_LEAST)))}
    for one in found[2:]:
        series[one.name] = (x[order], np.log(np.maximum(one.weights[order], _LEAST)))
    return Lines(
        "importance-weighting-ratios",
        "Logarithm of the weights",
        "x",
        "log weight",
        series,
        caption=f"Weights below {_LEAST:g} are drawn there. Kernel mean matching matches means, not the ratio point by "
        "point.",
    )


def _histogram(found: list[_Weighted]) -> Bars:
    edges = [0, 0.1, 0.3, 1, 3, 10, math.inf]
    names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges[:-1])] + ["above 10"]
    return Bars(
        "importance-weighting-histogram",
        "How many examples have which weight",
        "weight",
        "share of the examples",
        names,
        {one.name: np.histogram(one.weights, edges)[0] / len(one.weights) for one in found[1:]},
    )


def _sizes(settings: ImportanceWeightingSettings) -> Lines:
    shifts = np.linspace(0, 4, 41)
    shares = np.array([effective_share(float(shift), settings.spread) for shift in shifts])
    return Lines(
        "importance-weighting-sizes",
        "What is left of the sample",
        "shift, standard deviations",
        "effective share of the examples",
        {
            f"spread {settings.spread:g}, in the limit": (shifts, shares),
            "barely overlapping": (shifts, np.full(41, 0.1)),
        },
        marks=[(abs(settings.shift), "here")],
    )


experiment = Experiment(
    "Importance weighting: a source that stands for a target, three ways to find the weights, and what they cost.",
    ImportanceWeightingSettings,
    run,
    toy={"n": 40},
    reference="Shimodaira, Improving predictive inference under covariate shift, 2000",
)

__all__ = ["ImportanceWeightingSettings", "effective_share", "experiment", "run"]
