"""The weight report: importance weights of N(0, 1) from a normal proposal, and whether they can be trusted."""

import math
from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.monte_carlo import WeightReport, weight_report

_POINTS = 30
_BINS = 40


@final
class ImportanceWeightsSettings(Settings):
    """The proposal and the draws."""

    scale: float = Field(2.0, gt=0, le=100, description="standard deviation s of the proposal N(0, s^2)")
    draws: int = Field(5000, ge=50, le=1_000_000, description="draws of the proposal")
    seed: int = Field(0, ge=0, description="the draws")


def run(settings: ImportanceWeightsSettings, listener: Listener) -> Outcome:
    """Weigh the draws, and follow the estimate of the normalisation, which is 1, as they become more."""
    del listener
    s = settings.scale
    x = np.random.default_rng(settings.seed).normal(size=settings.draws) * s
    logs = -np.square(x) / 2 + np.square(x / s) / 2 + math.log(s)
    report = weight_report(logs, warn=False)
    finite = 2 * s**2 > 1
    exact = math.sqrt(2 * s**2 - 1) / s**2 if finite else 0.0
    share = float(report.effective_sample_size) / settings.draws
    known = (
        f"exactly {exact:.4f} of the draws" if finite else "in the limit nothing: weights have no variance"
    )
    k = float(report.pareto_k)
    return Outcome(
        [
            f"{settings.draws:,} draws of N(0, {s:g}^2) are worth {float(report.effective_sample_size):,.0f} of "
            f"N(0, 1), {share:.4f} of them; {known}.",
            f"The log of the mean weight is {float(report.corrected):.4f} +- "
            f"{float(report.standard_error):.4f}, the truth 0.",
            f"{report.concern() or f'Pareto k is {k:.2f}: the tail of the weights is light enough'}.",
        ],
        [_histogram(logs), _estimates(logs)],
        numbers={
            "effective_share": share,
            "exact_share": exact,
            "log_mean": float(report.corrected),
            "standard_error": float(report.standard_error),
            "pareto_k": k if math.isfinite(k) else None,
            "concern": report.concern(),
        },
    )


def _histogram(logs: np.ndarray) -> Lines:
    heights, edges = np.histogram(logs, _BINS)
    return Lines(
        "importance-weights",
        "Importance weights",
        "log weight",
        "draws",
        {"draws": ((edges[1:] + edges[:-1]) / 2, heights.astype(float))},
        marks=[(0.0, "weight 1")],
    )


def _estimates(logs: np.ndarray) -> Lines:
    sizes = np.unique(np.geomspace(25, len(logs), _POINTS).round().astype(int))
    found: list[WeightReport] = [weight_report(logs[:n], warn=False) for n in sizes]
    middle = np.array([float(one.corrected) for one in found])
    low, high = np.array([one.interval() for one in found]).T
    return Lines(
        "importance-weights-estimate",
        "Log of the mean weight against the number of draws",
        "draws",
        "nats",
        {"estimate": (sizes, middle, low, high), "truth": (sizes, np.zeros(len(sizes)))},
        log_x=True,
        caption="The band is 1.96 standard errors by the jackknife; with a heavy tail it is too narrow.",
    )


experiment = Experiment(
    "Importance weights from a proposal too narrow or too wide: effective draws, Pareto k, the estimate and its error.",
    ImportanceWeightsSettings,
    run,
    toy={"draws": 500},
    reference="Vehtari et al., Pareto smoothed importance sampling, 2024",
)

__all__ = ["ImportanceWeightsSettings", "experiment", "run"]
