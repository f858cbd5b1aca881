"""Learned critics beside the best ones, f'(p/q), for every f-divergence between two normals whose values are known."""

import re
from typing import Any, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.information import DivergenceEstimate, divergence_estimate
from chainrule.probability import Normal
from chainrule.probability.divergences.named import named
from chainrule.probability.divergences.points import integral


@final
class CriticsSettings(Settings):
    """The two normals and the critics."""

    divergences: tuple[str, ...] = Field(
        (
            *("KL", "reverse KL", "Pearson chi-square", "Jeffreys"),
            *("full squared Hellinger", "2 JSD", "GAN", "total variation"),
        ),
        min_length=1,
        description="which: any of the table, divergences='KL,2 JSD', by short names (kl,2-jsd), or formulas of u",
    )
    mean: float = Field(1.0, ge=-100, le=100, description="of the second normal; the first has 0")
    deviation: float = Field(2.0, gt=0, le=100, description="of the second normal; the first has 1")
    n: int = Field(20_000, ge=20, le=1_000_000, description="draws of each")
    steps: int = Field(1500, ge=1, le=1_000_000, description="of training, at most")
    width: int = Field(64, ge=1, le=4096, description="hidden units of a critic, two layers of them")
    seed: int = Field(0, ge=0, description="draws and weights")


def run(settings: CriticsSettings, listener: Listener) -> Outcome:
    """Fit a critic for each divergence on one half, score it on the other, and hold T against f'(p/q)."""
    p, q = Normal(0.0, 1.0), Normal(settings.mean, settings.deviation)
    one, two, fits = jax.random.split(random.key(settings.seed, "critics"), 3)
    x, y = np.asarray(p.sample(one, settings.n)), np.asarray(q.sample(two, settings.n))
    found: dict[str, tuple[DivergenceEstimate, float]] = {}
    for name in settings.divergences:
        estimate = divergence_estimate(
            x, y, named(name), steps=settings.steps, width=settings.width, key=fits
        )
        exact = float(integral("critics", estimate.divergence.term, p, q, None, settings.n))
        listener(f"{name}: at least {estimate.value:.4g} ± {estimate.error:.2g}, exactly {exact:.4g}")
        found[name] = (estimate, exact)
    return _outcome(settings, found, x, y, p, q)


def _outcome(
    settings: CriticsSettings,
    found: dict[str, tuple[DivergenceEstimate, float]],
    x: np.ndarray,
    y: np.ndarray,
    p: Normal,
    q: Normal,
) -> Outcome:
    above = [name for name, (one, exact) in found.items() if one.value > exact + 3 * one.error]
    shares = {
        name: (one.value - one.divergence.at_one) / (exact - one.divergence.at_one)
        for name, (one, exact) in found.items()
        if exact > one.divergence.at_one
    }
    said = [
        "No bound is more than three standard errors above the exact divergence."
        if not above
        else f"More than three standard errors above the exact value: {', '.join(above)}."
    ]
    if shares:
        least, most = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
        said.append(
            f"With {settings.n:,} draws of each and half of them to fit on, critics reach {100 * shares[least]:.0f} % "
            f"({least}) to {100 * shares[most]:.0f} % ({most}) of the exact value."
        )
    remarks = {name: one.remarks for name, (one, _) in found.items() if one.remarks}
    said += [f"{name}: {' '.join(words)}" for name, words in remarks.items()]
    # Where both have draws; farther out critics of steep f run off and hide everything else.
    ends = np.array([np.quantile(points, [0.001, 0.999]) for points in (x, y)])
    low, high = ends[:, 0].max(), ends[:, 1].min()
    grid = np.linspace(*((low, high) if low < high else (ends.min(), ends.max())), 201)
    return Outcome(
        said,
        [_picture(one, grid, p, q) for one, _ in found.values()],
        Table(
            "critics",
            "Lower bounds and exact values",
            ["divergence", "f(u)", "bound", "±", "exact", "on the fitted half", "domain of T", "f'(1)"],
            [
                [
                    name,
                    one.divergence.formula,
                    *(float(f"{value:.4g}") for value in (one.value, one.error, exact, one.on_fitted)),
                    one.divergence.domain,
                    float(f"{one.divergence.threshold:.4g}"),
                ]
                for name, (one, exact) in found.items()
            ],
            caption="Bounds on the half the critic never saw; exact values by quadrature.",
        ),
        {
            name: {"bound": one.value, "error": one.error, "exact": exact, "on_fitted": one.on_fitted}
            for name, (one, exact) in found.items()
        },
    )


def _picture(one: DivergenceEstimate, grid: np.ndarray, p: Normal, q: Normal) -> Lines:
    learned = one.critic(grid)
    best = np.asarray(one.divergence.critic(p.log_prob(grid), q.log_prob(grid)), dtype=float)
    best = np.where(np.isfinite(best), best, np.nan)
    series: dict[str, tuple[Any, ...]] = {
        "learned T(x)": (grid, learned),
        "best T*(x) = f'(p/q)": (grid, best),
        "f'(1)": (grid[[0, -1]], np.full(2, one.divergence.threshold)),
    }
    remark = f" {one.divergence.remark}" if one.divergence.remark else ""
    return Lines(
        f"critics-{'-'.join(re.findall('[a-z0-9]+', one.divergence.name.lower()))}",
        f"{one.divergence.name}: f(u) = {one.divergence.formula}",
        "x",
        "critic",
        series,
        caption=f"At least {one.value:.4g} ± {one.error:.2g}. Drawn where both have points; above f'(1) a "
        f"point looks like one of p.{remark}",
    )


experiment = Experiment(
    "Learned critics T(x) beside the best ones f'(p/q), and the bounds they give, for every f-divergence.",
    CriticsSettings,
    run,
    toy={"divergences": ("2 JSD", "GAN"), "n": 100, "steps": 20, "width": 4},
    reference="Nowozin, Cseke and Tomioka, f-GAN, NeurIPS 2016",
)

__all__ = ["CriticsSettings", "experiment", "run"]
