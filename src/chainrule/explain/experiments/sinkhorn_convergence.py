"""Sinkhorn's iteration watched: alternating projections, the error left after each, and the rate known beforehand.

Rows and columns are put right in turn; each projection loses exactly the divergence between two plans. The smaller the
entropy, the slower: bounds on the rate are known before anything is solved, and a local rate afterwards.
"""

import itertools
from typing import Literal, NamedTuple, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Film, Lines, Table
from chainrule.explain.methods.film_frames import matrix_with_margins
from chainrule.explain.methods.two_histograms import TwoHistograms, two_histograms
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Positive, Settings
from chainrule.probability.transport import (
    alternating_projections,
    contraction_rate,
    cost_matrix,
    local_rate,
    sinkhorn,
)

_FRAMES = 24


@final
class SinkhornConvergenceSettings(Settings):
    """The two histograms, the entropic strengths, and how long to watch."""

    of: tuple[NonNegative, ...] = Field(
        (), description="a histogram of your own over 0, 1, 2, ...: of=0.5,0.3,0.2"
    )
    against: tuple[NonNegative, ...] = Field((), description="the one it is moved to, over 0, 1, 2, ...")
    cost: Literal["sqeuclidean", "euclidean"] = Field("sqeuclidean", description="what it costs to move mass")
    n: int = Field(
        30, ge=2, le=200, description="positions of the bumps that stand for histograms by default"
    )
    eps: tuple[Positive, ...] = Field(
        (2.0, 0.3, 0.05), description="entropic strengths, beside the mean cost"
    )
    iterations: int = Field(
        100, ge=2, le=2000, description="iterations: rows and columns put right once each"
    )


class _Watched(NamedTuple):
    """What is known of one strength."""

    eps: float
    errors: np.ndarray
    """Mass in wrong places after each iteration."""
    missing: np.ndarray
    """What the dual value lacks of the optimum."""
    divergences: np.ndarray
    """KL(P*, P) at the start and after each projection."""
    steps: np.ndarray
    """KL(P_next, P) of each projection."""
    kappa: float
    bound: float
    sure: float
    """1 - kappa², without the rounding of kappa to 1."""
    local: float
    plain: int
    accelerated: int


def run(settings: SinkhornConvergenceSettings, listener: Listener) -> Outcome:
    """Projections, errors and rates for every strength; a film of the first projections."""
    problem = two_histograms("sinkhorn-convergence", settings.of, settings.against, settings.n).with_mass()
    with jax.enable_x64(True):
        costs = np.asarray(cost_matrix(problem.x[:, None], problem.y[:, None], settings.cost))
        mean = float(problem.a @ costs @ problem.b) or 1.0
        found = []
        for share in settings.eps:
            found.append(_watched(problem, costs, share * mean, settings.iterations))
            listener(f"eps = {share * mean:.3g}: error {found[-1].errors[-1]:.1e}")
        film = _film(problem, costs, found[len(found) // 2].eps)
    first, last = max(found, key=lambda one: one.eps), min(found, key=lambda one: one.eps)
    mixed_up = _wrong_mass(problem, costs, first.eps)
    pythagoras = max(
        float(np.abs(one.divergences[:-1] - one.divergences[1:] - one.steps).max()) for one in found
    )
    findings = [
        f"With eps = {first.eps:.3g} each iteration surely removes {first.sure:.3g} of the error (kappa = "
        f"{first.kappa:.4g}), and near the end it removes {1 - first.local:.4g}. With eps = {last.eps:.3g} "
        f"{last.sure:.1e} is sure, and {1 - last.local:.3g} is removed.",
        "Plain iterations until 1e-6 of the mass is misplaced: "
        + ", ".join(f"{one.plain} with eps = {one.eps:.3g}" for one in found)
        + "; with Anderson steps "
        + ", ".join(str(one.accelerated) for one in found)
        + ".",
        "Every projection brings the plan nearer to the solution by exactly the divergence between the two plans, to "
        f"{pythagoras:.0e}.",
        f"Both scalings updated from old values are two sequences mixed up: with eps = {first.eps:.3g} their plan ends "
        f"with mass {mixed_up:.5g} instead of 1.",
    ]
    return Outcome(
        findings,
        [film, _errors(found), _values(found), _divergence(found)],
        _table(found),
        {
            "eps": [one.eps for one in found],
            "kappa": [one.kappa for one in found],
            "bound": [one.bound for one in found],
            "local": [one.local for one in found],
            "plain": [one.plain for one in found],
            "accelerated": [one.accelerated for one in found],
            "errors": [one.errors.tolist() for one in found],
            "missing": [one.missing.tolist() for one in found],
            "pythagoras": pythagoras,
            "mixed_up_mass": mixed_up,
        },
    )


def _watched(problem: TwoHistograms, costs: np.ndarray, eps: float, iterations: int) -> _Watched:
    a, b = problem.a, problem.b
    path = alternating_projections(a, b, costs, eps, 2 * iterations)
    plans = np.asarray(path.plans)
    tight = sinkhorn(a, b, costs, eps, tolerance=1e-12, max_iterations=1_000_000)
    plain, fast = (
        sinkhorn(a, b, costs, eps, tolerance=1e-6, max_iterations=1_000_000, acceleration=depth)
        for depth in (0, 5)
    )
    rate = contraction_rate(costs, eps)
    best = np.asarray(tight.plan)
    return _Watched(
        eps,
        np.asarray(path.errors)[::2],
        np.maximum(float(tight.value) - np.asarray(path.values)[::2], 0.0),
        np.array([_kl(best, plan) for plan in plans]),
        np.array([_kl(after, before) for before, after in itertools.pairwise(plans)]),
        float(rate.kappa),
        float(rate.rate),
        float(1 / np.cosh(np.minimum(float(rate.delta) / 4, 300)) ** 2),
        min(float(local_rate(tight)), 1.0),  # rounding leaves a little more where nothing is removed
        int(plain.iterations),
        int(fast.iterations),
    )


def _kl(p: np.ndarray, q: np.ndarray) -> float:
    """Of measures that need not have the same mass."""
    some = p > 0
    ratio = p[some] / np.maximum(q[some], np.finfo(np.float64).tiny)
    return float((p[some] * np.log(ratio)).sum() - p.sum() + q.sum())


def _wrong_mass(problem: TwoHistograms, costs: np.ndarray, eps: float) -> float:
    """Mass of the plan where u and v are both updated from the values before."""
    # The kernel may be scaled by any factor; this one keeps its entries from vanishing together.
    kernel = np.exp(-(costs - costs.min()) / eps)
    u, v = np.ones(len(problem.a)), np.ones(len(problem.b))
    for _ in range(2000):
        u, v = problem.a / (kernel @ v), problem.b / (u @ kernel)
    return float(u @ kernel @ v)


def _film(problem: TwoHistograms, costs: np.ndarray, eps: float) -> Film:
    path = alternating_projections(problem.a, problem.b, costs, eps, _FRAMES - 1)
    plans, errors = np.asarray(path.plans), np.asarray(path.errors)
    words = ["the kernel", *(("rows right", "columns right")[i % 2] for i in range(_FRAMES - 1))]
    return Film(
        "sinkhorn-convergence-film",
        "Projections",
        np.stack([matrix_with_margins(plan, plan.sum(axis=1), plan.sum(axis=0)) for plan in plans])[:, None],
        [f"{word}: error {error:.2g}" for word, error in zip(words, errors, strict=True)],
        seconds=9.0,
        caption=f"The plan and its own margins, with eps = {eps:.3g}. Each projection puts one side right and disturbs "
        "the other, less every time.",
    )


def _errors(found: list[_Watched]) -> Lines:
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for one in found:
        number = np.arange(len(one.errors))
        series[f"eps = {one.eps:.3g}"] = (number, np.maximum(one.errors, 1e-16))
    first = max(found, key=lambda one: one.eps)
    number = np.arange(len(first.errors))
    series["known beforehand"] = (
        number,
        np.maximum(first.errors[0] * first.bound**number, 1e-16),
    )
    return Lines(
        "sinkhorn-convergence-error",
        "Mass in wrong places",
        "iteration",
        "sum of absolute errors of both margins",
        series,
        log_y=True,
        caption="Straight lines: each iteration shrinks the error by a factor. The one known beforehand falls by "
        f"kappa² an iteration, for eps = {first.eps:.3g}.",
    )


def _values(found: list[_Watched]) -> Lines:
    return Lines(
        "sinkhorn-convergence-dual",
        "What the dual value lacks of the optimum",
        "iteration",
        "cost",
        {
            f"eps = {one.eps:.3g}": (np.arange(len(one.missing)), np.maximum(one.missing, 1e-16))
            for one in found
        },
        log_y=True,
        caption="Each step maximises over one potential with the other held, so that the value never falls.",
    )


def _divergence(found: list[_Watched]) -> Lines:
    return Lines(
        "sinkhorn-convergence-kl",
        "Divergence of the solution from every plan",
        "projection",
        "nats",
        {
            f"eps = {one.eps:.3g}": (np.arange(len(one.divergences)), np.maximum(one.divergences, 1e-16))
            for one in found
        },
        log_y=True,
        caption="It falls in every projection, by the divergence between the two plans: Pythagoras.",
    )


def _table(found: list[_Watched]) -> Table:
    rows: list[list[str | float | int]] = [
        [f"{one.eps:.3g}", one.kappa, one.bound, one.local, one.plain, one.accelerated] for one in found
    ]
    columns = [
        "eps",
        "kappa",
        "factor known beforehand",
        "factor near the end",
        "iterations",
        "with Anderson steps",
    ]
    return Table("sinkhorn-convergence-table", "By entropic strength", columns, rows)


experiment = Experiment(
    "Sinkhorn's iteration as alternating projections: a film, the error of each step, and rates known beforehand.",
    SinkhornConvergenceSettings,
    run,
    toy={"n": 5, "eps": (1.0,), "iterations": 4},
    reference="Franklin and Lorenz, On the scaling of multidimensional matrices, 1989",
)

__all__ = ["SinkhornConvergenceSettings", "experiment", "run"]
