"""A transport plan and its proof: from the plan that ignores costs to the cheapest one, with bounds that close on it.

Two histograms on a line, or of your own, and two clouds in the plane. Entropy of falling strength leads from the
independent plan to the exact one. Potentials prove each: what they earn stays below what any plan costs, and where mass
moves the two meet.
"""

import math
from typing import Literal, NamedTuple, final

import jax
import numpy as np
import scipy.special
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Film, Lines, Picture, Scatter, Table
from chainrule.explain.methods.film_frames import FilmFrame, matrix_with_margins
from chainrule.explain.methods.two_histograms import two_histograms
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Settings
from chainrule.probability.transport import (
    ExactTransport,
    cost_matrix,
    exact,
    monotone_coupling,
    sinkhorn,
    slack,
)

_STILL = 0.9
"""Opacity of a line that carries all the mass of its point."""


@final
class TransportPlanSettings(Settings):
    """The two histograms, the cost, and the ladder of entropic strengths."""

    of: tuple[NonNegative, ...] = Field(
        (), description="a histogram of your own over 0, 1, 2, ...: of=0.5,0.3,0.2"
    )
    against: tuple[NonNegative, ...] = Field((), description="the one it is moved to, over 0, 1, 2, ...")
    cost: Literal["sqeuclidean", "euclidean"] = Field("sqeuclidean", description="what it costs to move mass")
    n: int = Field(
        40, ge=2, le=200, description="positions of the two bumps that stand for histograms by default"
    )
    cloud: int = Field(25, ge=2, le=200, description="points of each cloud in the plane")
    most: float = Field(10.0, gt=0, description="largest strength, beside the mean cost")
    least: float = Field(0.003, gt=0, description="smallest strength")
    steps: int = Field(14, ge=2, le=60, description="strengths, both included")
    seed: int = Field(0, ge=0, description="the clouds")


class _Rung(NamedTuple):
    """One entropic strength."""

    eps: float
    plan: np.ndarray
    cost: float
    value: float
    bounds: tuple[float, float]


def run(settings: TransportPlanSettings, listener: Listener) -> Outcome:
    """Plans by falling entropy, potentials, bounds, slackness; lines between clouds."""
    if settings.least >= settings.most:
        raise ArgumentError(
            f"least={settings.least:g} is not below most={settings.most:g}", remedy="least=0.003"
        )
    a, b, *positions = two_histograms("transport-plan", settings.of, settings.against, settings.n)
    with jax.enable_x64(True):
        x, y = positions[0][:, None], positions[1][:, None]
        costs = np.asarray(cost_matrix(x, y, settings.cost))
        best = exact(a, b, costs)
        listener(f"exact: {float(best.cost):.6g}")
        ladder = _ladder(settings, a, b, costs, listener)
        film = _clouds(settings)
        room = np.asarray(slack(costs, *best.potentials))
    plan, lowest = np.asarray(best.plan), ladder[-1]
    entropy = min(float(scipy.special.entr(weights).sum()) for weights in (a, b))
    count = len(best.entries.mass)
    tight = float(np.abs(room[plan > 0]).max())
    findings = [
        f"The cheapest plan costs {float(best.cost):.6g} and has {count} entr{'y' if count == 1 else 'ies'} "
        f"(at most {len(a)} + {len(b)} - 1); its potentials leave a gap of {best.gap:.1e}.",
        f"Where it moves mass, potentials earn the cost to {tight:.0e}; elsewhere they earn less, by up to "
        f"{room.max():.4g}.",
        f"With eps = {lowest.eps:.3g} bounds [{lowest.bounds[0]:.6g}, {lowest.bounds[1]:.6g}] hold it, with "
        f"eps = {ladder[0].eps:.3g} only [{ladder[0].bounds[0]:.4g}, {ladder[0].bounds[1]:.4g}].",
        f"OT_eps exceeds it by {lowest.value - float(best.cost):.3g} at the smallest eps; eps times the smaller "
        f"entropy, {lowest.eps * entropy:.3g}, is the most it can.",
    ]
    return Outcome(
        findings,
        [
            _film(ladder, best, a, b),
            film,
            _bracket(ladder, best),
            _envelope(best, costs, positions),
            _slackness(room, best),
            _quantiles(a, b, positions),
        ],
        _table(ladder, best),
        {
            "cost": float(best.cost),
            "gap": best.gap,
            "entries": count,
            "slack_on_plan": tight,
            "eps": [rung.eps for rung in ladder],
            "costs": [rung.cost for rung in ladder],
            "values": [rung.value for rung in ladder],
            "lower": [rung.bounds[0] for rung in ladder],
            "upper": [rung.bounds[1] for rung in ladder],
        },
    )


def _ladder(
    settings: TransportPlanSettings, a: np.ndarray, b: np.ndarray, costs: np.ndarray, listener: Listener
) -> list[_Rung]:
    """The entropic plan for every strength, largest first."""
    mean = float(a @ costs @ b) or 1.0
    rungs = []
    for eps in mean * np.geomspace(settings.most, settings.least, settings.steps):
        found = sinkhorn(a, b, costs, eps, max_iterations=100_000)
        lower, upper = (float(bound) for bound in found.bounds)
        rungs.append(
            _Rung(float(eps), np.asarray(found.plan), float(found.cost), float(found.value), (lower, upper))
        )
        listener(f"eps = {eps:.3g}: between {lower:.6g} and {upper:.6g}")
    return rungs


def _film(ladder: list[_Rung], best: ExactTransport, a: np.ndarray, b: np.ndarray) -> Film:
    """The matrix of the plan, from next to independent to exact."""
    plans = [*(rung.plan for rung in ladder), np.asarray(best.plan)]
    labels = [f"eps {rung.eps:.2g}: cost {rung.cost:.4g}" for rung in ladder]
    return Film(
        "transport-plan-matrix",
        "Plans by entropy",
        np.stack([matrix_with_margins(plan, a, b) for plan in plans])[:, None],
        [*labels, f"exact: cost {float(best.cost):.4g}"],
        seconds=7.0,
        caption="How much mass goes from each row (bars at the left) to each column (bars on top), darker for more, "
        "on a scale of square roots. Every plan has the same margins.",
    )


def _clouds(settings: TransportPlanSettings) -> Film:
    """Lines between two clouds in the plane, as dense as the mass they carry."""
    draw = np.random.default_rng(settings.seed)
    angle = np.linspace(0, 2 * math.pi, settings.cloud, endpoint=False)
    x = 0.35 * draw.normal(size=(settings.cloud, 2))
    y = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 1.6 + 0.08 * draw.normal(size=(settings.cloud, 2))
    even = np.full(settings.cloud, 1 / settings.cloud)
    costs = np.asarray(cost_matrix(x, y, settings.cost))
    strengths = costs.mean() * np.geomspace(settings.most, max(settings.least, 0.003), settings.steps)
    plans = [np.asarray(sinkhorn(even, even, costs, eps, max_iterations=100_000).plan) for eps in strengths]
    best = exact(even, even, costs)
    frames = []
    for plan in [*plans, np.asarray(best.plan)]:
        sheet = FilmFrame.around(x, y)
        share = plan * settings.cloud
        rows, columns = np.nonzero(share > 1e-3)
        sheet.lines(x[rows], y[columns], "soft", alpha=_STILL * share[rows, columns])
        sheet.dots(x, "1", radius=3.5, alpha=0.95)
        sheet.dots(y, "2", radius=3.5, alpha=0.95)
        frames.append(sheet.image)
    return Film(
        "transport-plan-lines",
        "Lines between two clouds",
        np.stack(frames)[:, None],
        [*(f"eps {eps:.2g}" for eps in strengths), "exact"],
        seconds=7.0,
        caption="A line is as dense as the mass it carries. With equal weights the cheapest plan is an assignment.",
    )


def _bracket(ladder: list[_Rung], best: ExactTransport) -> Lines:
    eps = np.array([rung.eps for rung in ladder])
    low, high = np.array([rung.bounds for rung in ladder]).T
    middle = np.array([rung.cost for rung in ladder])
    return Lines(
        "transport-plan-bounds",
        "Bounds that close on the cheapest cost",
        "eps",
        "cost",
        {
            "entropic plan": (eps, middle, low, high),
            "exact": (eps, np.full(len(eps), float(best.cost))),
        },
        log_x=True,
        caption="The band ends above at the entropic plan, rounded to a coupling, below at what its potentials earn, "
        "made feasible by c-transforms.",
    )


def _envelope(best: ExactTransport, costs: np.ndarray, positions: list[np.ndarray]) -> Picture:
    f, g = (np.asarray(one) for one in best.potentials)
    chosen = np.unique(np.linspace(0, len(g) - 1, min(len(g), 30)).astype(int))
    threads = costs[:, chosen].T - g[chosen][:, None]
    # Far from where they touch, costs would leave nothing of the rest of the picture.
    threads = np.where(threads <= f.max() + 1.5 * np.ptp(f) + 1e-9, threads, np.nan)
    return Lines(
        "transport-plan-potentials",
        "Potentials, and the envelope that one is of the other",
        "position",
        "cost",
        {"f of the rows": (positions[0], f), "g of the columns": (positions[1], g)},
        threads=(positions[0], threads),
        caption="Thin: C(x, y) - g(y) for several y. f is the lowest of them everywhere, the c-transform of g.",
    )


def _slackness(room: np.ndarray, best: ExactTransport) -> Scatter:
    rows, columns = room.shape
    entries = best.entries
    mass = np.stack([np.asarray(entries.columns) + 0.5, np.asarray(entries.rows) + 0.5], axis=1)
    return Scatter(
        "transport-plan-slackness",
        "Mass moves only where potentials earn the whole cost",
        "column",
        "row",
        {"mass of the plan": mass},
        field=np.sqrt(np.maximum(room, 0.0)),
        extent=(0.0, float(columns), 0.0, float(rows)),
        contours=((float(np.sqrt(np.maximum(room, 0.0)).max()) / 8, ""),),
        caption="Shaded: root of the slack C - f - g, nowhere negative.",
    )


def _quantiles(a: np.ndarray, b: np.ndarray, positions: list[np.ndarray]) -> Lines:
    """Both quantile functions as steps over the levels of the monotone coupling."""
    rows, columns, mass = (np.asarray(one) for one in monotone_coupling(positions[0], positions[1], a, b))
    levels = np.concatenate([[0.0], np.cumsum(mass)])
    over = np.repeat(levels, 2)[1:-1]
    steps = {
        "rows": (over, np.repeat(positions[0][rows], 2)),
        "columns": (over, np.repeat(positions[1][columns], 2)),
    }
    return Lines(
        "transport-plan-quantiles",
        "Quantile functions",
        "share of the mass",
        "position",
        steps,
        caption="On a line the cheapest plan keeps the order: mass moves from one curve to the other at every level.",
    )


def _table(ladder: list[_Rung], best: ExactTransport) -> Table:
    rows: list[list[str | float | int]] = [
        [f"{rung.eps:.3g}", rung.cost, rung.value, rung.bounds[0], rung.bounds[1]] for rung in ladder
    ]
    rows.append(["exact", float(best.cost), float(best.cost), float(best.lower), float(best.cost)])
    columns = ["eps", "<C, P>", "<C, P> + eps KL(P | ab')", "lower bound", "upper bound"]
    return Table("transport-plan-table", "By entropic strength", columns, rows)


experiment = Experiment(
    "A transport plan from independent to exact: matrix, lines, potentials, bounds that close, slackness.",
    TransportPlanSettings,
    run,
    toy={"n": 8, "cloud": 4, "steps": 2, "least": 0.1},
    reference="Peyré and Cuturi, Computational Optimal Transport, 2019",
)

__all__ = ["TransportPlanSettings", "experiment", "run"]
