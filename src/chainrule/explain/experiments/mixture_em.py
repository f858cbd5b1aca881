"""EM for a mixture of Gaussians as a film: responsibilities and ellipses, the bound it climbs, and how many to have.

Points of three clouds of known densities, or two moons. EM is followed step by step: the expectation lifts the lower
bound to the log-likelihood, the maximisation lifts both. Gradients climb from the same start for comparison, and
criteria are held against the number of components.
"""

from typing import Literal, final

import numpy as np
import scipy.stats
from pydantic import Field

from chainrule import data
from chainrule.core.palette import GROUPS, LIGHT
from chainrule.core.pictures import Film, Lines, Picture, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.mixtures import (
    Covariances,
    FittedMixture,
    MixtureParameters,
    ascend_mixture,
    em_step,
    fit_mixture,
    lower_bound,
    responsibilities,
    start_mixture,
)
from chainrule.probability.mixtures.fitting import collapsed

_WEIGHTS = np.array([0.5, 0.3, 0.2])
_MEANS = np.array([[0.0, 0.0], [2.5, 0.5], [0.5, 2.5]])
_FACTORS = np.array([[[1.0, 0.0], [0.6, 0.5]], [[0.5, 0.0], [-0.3, 0.9]], [[0.8, 0.0], [0.0, 0.3]]])
_SIDE = 360
"""Pixels of a frame."""
_FRAMES = 40
_DOT = 2.2
"""Radius of a point in pixels."""
_RADIUS = 2.0
"""Deviations at which an ellipse is drawn: 86 % of a component lie within."""
_STAIRS = 8
"""Steps of which the bound is drawn."""
_ENOUGH = 1e-7
"""Rise of the mean log-likelihood below which EM has arrived."""


@final
class MixtureEMSettings(Settings):
    """The points, the mixture, and where EM begins."""

    points: Literal["clouds", "moons"] = Field(
        "clouds", description="what the points are drawn from; clouds are a mixture of three"
    )
    n: int = Field(500, ge=20, le=20_000, description="points")
    components: int = Field(3, ge=1, le=10, description="Gaussians of the mixture that is followed")
    covariance: Covariances = Field("full", description="kind of the covariances")
    start: Literal["random", "k-means"] = Field(
        "random", description="means at random points, for a longer way; or clusters, as in training"
    )
    steps: int = Field(200, ge=1, le=5000, description="of EM at most")
    most: int = Field(6, ge=1, le=20, description="components up to which criteria are compared")
    seed: int = Field(0, ge=0, description="points and starts")


def run(settings: MixtureEMSettings, listener: Listener) -> Outcome:
    """Follow EM, climb by gradients from the same start, and compare numbers of components."""
    x, truth = _points(settings)
    begin = _start(settings, x)
    path, values, half = _followed(settings, x, begin)
    listener(f"EM: {len(path) - 1} steps")
    gradient = ascend_mixture(x, begin, covariance=settings.covariance, iterations=settings.steps)
    fits = {
        k: fit_mixture(x, k, covariance=settings.covariance, seed=settings.seed, restarts=5)
        for k in range(1, settings.most + 1)
    }
    rises = np.diff(values)
    best = min(fits, key=lambda k: fits[k].bic)
    touch = max(
        abs(value - lower_bound(found, x, responsibilities(found, x)))
        for value, found in zip(values[:-1], path[:-1], strict=True)
    )
    at_floor = collapsed(path[-1], 1e-6)
    findings = [
        f"EM raises the mean log-likelihood of a point from {values[0]:.4f} to {values[-1]:.4f} nats in {len(rises)} "
        f"steps" + (f", the smallest rise {rises.min():.1e}." if len(rises) else "."),
        f"After every expectation the lower bound touches the log-likelihood (to {touch:.0e}); every maximisation "
        f"raises it by at least {float(np.min(half - values[:-1])):.1e}, and the log-likelihood by as much or more.",
        f"Gradients (L-BFGS) end at {gradient.log_likelihood:.4f} after {len(gradient.trace) - 1} steps from the same "
        "start.",
        f"BIC is lowest with {best} component{'s' * (best > 1)}, AIC with {min(fits, key=lambda k: fits[k].aic)}"
        + ("; the points were drawn from 3." if truth is not None else "."),
    ]
    if (known := fits.get(settings.components)) and known.log_likelihood > values[-1] + 1e-3:
        findings.append(
            f"It is a local maximum: the best of several starts reaches {known.log_likelihood:.4f} with as many "
            "components."
        )
    if truth is not None:
        findings.append(f"The density they were drawn from gives the same points {truth:.4f} nats each.")
    if at_floor:
        findings.append(
            f"Component{'s' * (len(at_floor) > 1)} {', '.join(map(str, at_floor))} collapsed: only the "
            "regularisation keeps a variance above zero, and the likelihood is one of its making."
        )
    return Outcome(
        findings,
        [_film(x, path, values), _climb(values, gradient, truth), _stairs(values, half), _criteria(fits)],
        _table(fits),
        {
            "log_likelihood": values.tolist(),
            "bound_after_maximisation": half.tolist(),
            "touch": touch,
            "gradient": gradient.log_likelihood,
            "truth": truth,
            "best": {"bic": best, "aic": min(fits, key=lambda k: fits[k].aic)},
            "collapsed": list(at_floor),
        },
    )


def _points(settings: MixtureEMSettings) -> tuple[np.ndarray, float | None]:
    """The points, and what their own density gives each on average."""
    if settings.points == "moons":
        return np.asarray(data.load("moons", seed=settings.seed, n=settings.n).train.x, np.float64), None
    draw = np.random.default_rng(settings.seed)
    chosen = draw.choice(3, settings.n, p=_WEIGHTS)
    x = _MEANS[chosen] + np.einsum("nij,nj->ni", _FACTORS[chosen], draw.normal(size=(settings.n, 2)))
    density = sum(
        weight * scipy.stats.multivariate_normal(mean, factor @ factor.T).pdf(x)
        for weight, mean, factor in zip(_WEIGHTS, _MEANS, _FACTORS, strict=True)
    )
    return x, float(np.log(density).mean())


def _start(settings: MixtureEMSettings, x: np.ndarray) -> MixtureParameters:
    k = settings.components
    if settings.start == "k-means":
        return start_mixture(x, k, covariance=settings.covariance, seed=settings.seed)
    draw = np.random.default_rng((settings.seed, 1))
    spread = np.eye(2) * x.var(axis=0).mean() / k
    return MixtureParameters(
        np.full(k, 1 / k), x[draw.choice(len(x), k, replace=False)], np.broadcast_to(spread, (k, 2, 2)).copy()
    )


def _followed(
    settings: MixtureEMSettings, x: np.ndarray, begin: MixtureParameters
) -> tuple[list[MixtureParameters], np.ndarray, np.ndarray]:
    """Parameters and log-likelihoods at every step, and the bound between: after a maximisation, before q follows."""
    path, values, half = [begin], [], []
    for _ in range(settings.steps):
        new, value = em_step(path[-1], x, settings.covariance)
        values.append(value)
        if len(values) > 1 and values[-1] - values[-2] < _ENOUGH:
            break
        half.append(lower_bound(new, x, responsibilities(path[-1], x)))
        path.append(new)
    else:
        values.append(em_step(path[-1], x, settings.covariance)[1])
    return path, np.array(values), np.array(half)


def _film(x: np.ndarray, path: list[MixtureParameters], values: np.ndarray) -> Film:
    """Early steps change most, so that frames grow apart."""
    chosen = np.unique(np.round(np.linspace(0, np.sqrt(len(path) - 1), _FRAMES) ** 2).astype(int))
    low, high = x.min(axis=0), x.max(axis=0)
    middle, side = (low + high) / 2, 1.08 * float((high - low).max())
    frames = np.stack([_frame(x, path[at], middle, side) for at in chosen])
    return Film(
        "em",
        "EM, step by step",
        frames[:, None],
        [f"step {at}: {values[at]:.4f} nats a point" for at in chosen],
        seconds=8.0,
        caption=f"Points have the colours of the components in their shares; ellipses lie {_RADIUS:g} deviations from "
        "the means.",
    )


def _frame(x: np.ndarray, parameters: MixtureParameters, middle: np.ndarray, side: float) -> np.ndarray:
    """One moment as an image: points mixed of the colours of their components, under the ellipses."""
    colours = np.array([_rgb(LIGHT[role]) for role in GROUPS])[: len(parameters.weights)]
    image = np.ones((_SIDE, _SIDE, 3))
    positions = (x - (middle - side / 2)[None]) / side * _SIDE
    offsets = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 2), axis=-1).reshape(-1, 2)
    cells = np.round(positions).astype(int)[:, None] + offsets[None]
    cover = np.clip(_DOT + 0.5 - np.linalg.norm(cells - positions[:, None], axis=-1), 0, 1)
    inside = (cells >= 0).all(axis=-1) & (cells < _SIDE).all(axis=-1) & (cover > 0)
    blend = responsibilities(parameters, x) @ colours
    which, part = np.nonzero(inside)
    column, row = cells[which, part].T
    alpha = 0.8 * cover[which, part]
    for channel in range(3):
        # Later points lie over earlier ones where they meet; within a point pixels are all different.
        image[_SIDE - 1 - row, column, channel] = 1 - alpha + alpha * blend[which, channel]
    axis = (np.arange(_SIDE) + 0.5) / _SIDE * side
    grid = np.stack(np.meshgrid(axis, axis[::-1]), axis=-1) + (middle - side / 2)[None, None]
    for weight, mean, covariance, colour in zip(*parameters, colours, strict=True):
        apart = grid - mean[None, None]
        inverse = np.linalg.inv(covariance)
        distance = np.sqrt(np.einsum("hwi,ij,hwj->hw", apart, inverse, apart))
        slope = np.linalg.norm(apart @ inverse, axis=-1) / np.maximum(distance, 1e-9)
        width = 1 + 2 * weight
        line = np.clip(width / 2 + 0.5 - np.abs(distance - _RADIUS) / slope / side * _SIDE, 0, 1)[..., None]
        image = (1 - line) * image + line * colour[None, None]
    return image


def _rgb(value: str) -> np.ndarray:
    return np.array([int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _climb(values: np.ndarray, gradient: FittedMixture, truth: float | None) -> Lines:
    series: dict[str, tuple[np.ndarray, ...]] = {
        "EM": (np.arange(len(values)), values),
        "gradients (L-BFGS)": (np.arange(len(gradient.trace)), gradient.trace),
    }
    if truth is not None:
        ends = np.array([0, max(len(values), len(gradient.trace)) - 1])
        series["density of the clouds"] = (ends, np.full(2, truth))
    return Lines(
        "log-likelihood",
        "Log-likelihood over the steps",
        "step",
        "nats a point",
        series,
        caption="A step of EM passes once over the points; one of L-BFGS once or more, with gradients.",
    )


def _stairs(values: np.ndarray, half: np.ndarray) -> Lines:
    """Differences from the end, over half steps: expectation, maximisation, expectation."""
    # The first step is the longest by far, and the stairs after it would not be seen beside it.
    first = 1 if len(half) > _STAIRS else 0
    at = np.arange(first, min(len(half), first + _STAIRS))
    end = values[-1]
    bound_x = np.repeat(at, 2) + np.tile([0.0, 1.0], len(at))
    bound_y = np.stack([values[at], half[at]], axis=1).ravel() - end
    seen = np.arange(first, first + len(at) + 1)
    return Lines(
        "bound",
        "EM as ascent of the lower bound",
        "step",
        "nats a point below the end",
        {"log-likelihood": (seen, values[seen] - end), "lower bound": (bound_x, bound_y)},
        caption="Slanted: a maximisation raises the bound with the responsibilities held. Upright: the expectation "
        "sets them to the posterior, and the bound touches the log-likelihood again.",
    )


def _criteria(fits: dict[int, FittedMixture]) -> Picture:
    k = np.array(list(fits))
    rows = next(iter(fits.values())).rows
    return Lines(
        "components",
        "How many components",
        "components",
        "nats a point",
        {
            "BIC": (k, np.array([one.bic for one in fits.values()]) / (2 * rows)),
            "AIC": (k, np.array([one.aic for one in fits.values()]) / (2 * rows)),
            "minus log-likelihood": (k, -np.array([one.log_likelihood for one in fits.values()])),
        },
        caption="Criteria are divided by twice the number of points. More components always fit the points better; "
        "the criteria charge for them, and the lowest is chosen.",
    )


def _table(fits: dict[int, FittedMixture]) -> Table:
    return Table(
        "criteria",
        "By the number of components",
        ["components", "log-likelihood", "parameters", "BIC", "AIC", "collapsed"],
        [
            [k, round(one.log_likelihood, 4), one.free_parameters, round(one.bic, 1), round(one.aic, 1),
             len(one.collapsed)]
            for k, one in fits.items()
        ],
    )  # fmt: skip


experiment = Experiment(
    "EM as a film: responsibilities and ellipses, the lower bound it climbs, gradients instead, and BIC.",
    MixtureEMSettings,
    run,
    toy={"n": 60, "components": 2, "steps": 5, "most": 2},
    reference="Neal and Hinton, A view of the EM algorithm that justifies incremental and other variants, 1998",
)

__all__ = ["MixtureEMSettings", "experiment", "run"]
