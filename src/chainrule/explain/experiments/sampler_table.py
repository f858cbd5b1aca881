"""Every sampler on a distribution whose denoiser is known exactly: what is wrong is the sampler's own error.

Two modes far apart, of unequal weight: a sampler has to find the weights, the width of each mode, and the distribution
as a whole. All start from the same draws of the distribution at its noisiest and evaluate the denoiser equally often.
"""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import check_choice
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser

_WEIGHT, _MEAN, _STD = 0.8, 4.0, 0.5
_HIGH = 50.0
_MOVES = 10
"""Langevin moves at each level: with equal cost, more of them leave too few levels."""

_SHOWN = ("ddim", "ddpm", "heun, churn=10", "langevin")
"""Samplers whose histograms are shown: more than a few lines cannot be told apart."""


_WAYS: dict[str, samplers.NamedSampler] = {
    "ddim": samplers.DDIM(),
    "ddim, eta=1": samplers.DDIM(1.0),
    "ddpm": samplers.Ancestral(),
    "ddpm, variance=large": samplers.Ancestral("large"),
    "euler-ancestral": samplers.EulerAncestral(),
    "sigma, mu=0.25": samplers.SigmaFamily(0.25),
    "sigma, mu=0.75": samplers.SigmaFamily(0.75),
    "gradient-estimation, g=2": samplers.GradientEstimation(),
    "gradient-estimation, g=ab2": samplers.GradientEstimation("ab2"),
    "heun": samplers.Heun(),
    "heun, churn=10": samplers.Heun(10.0),
    "dpm-solver": samplers.DPMSolver(),
    "dpm-solver-2s": samplers.DPMSolver2S(),
    "dpm-solver-3m": samplers.DPMSolver3M(),
    "dpm-solver-sde": samplers.DPMSolverSDE(),
    "unipc": samplers.UniPC(),
    "reverse-sde": samplers.ReverseSDE(),
    "reverse-sde, corrections=1": samplers.ReverseSDE(corrections=1),
    "langevin": samplers.AnnealedLangevin(_MOVES),
}


@final
class SamplerTableSettings(Settings):
    """The walks."""

    evaluations: tuple[Count, ...] = Field(
        (10, 20, 50, 200), min_length=1, description="evaluations of the denoiser, rising"
    )
    samplers: tuple[str, ...] = Field(tuple(_WAYS), description="which samplers, by their names in the table")
    n: int = Field(10_000, ge=20, description="samples for each walk")
    seed: int = Field(0, ge=0, description="where all walks start from, and their noise")


def run(settings: SamplerTableSettings, listener: Listener) -> Outcome:
    """Every sampler with every number of evaluations, held against the distribution."""
    for name in settings.samplers:
        check_choice("sampler-table", "samplers", name, tuple(_WAYS))
    mixture = MixtureDenoiser([1 - _WEIGHT, _WEIGHT], [[-_MEAN], [_MEAN]], [_STD**2, _STD**2])
    begin, walk = jax.random.split(random.key(settings.seed, "sampler-table"))
    clean = _draw(np.random.default_rng([settings.seed, 1]), settings.n)[:, None]
    start = jnp.asarray(clean, jnp.float32) + _HIGH * jax.random.normal(begin, (settings.n, 1))
    schedule = schedules.LogLinear(low=0.01, high=_HIGH)
    drawn: dict[str, list[np.ndarray]] = {}
    for name in settings.samplers:
        sampler = _WAYS[name]
        listener(name)
        drawn[name] = [
            np.asarray(
                samplers.walk(
                    mixture, start, schedules.grid(schedule, sampler.steps_within(count)), sampler, walk
                ).samples
            )[:, 0]
            for count in settings.evaluations
        ]
    distances = {name: [distance(x) for x in found] for name, found in drawn.items()}
    exact = distance(_draw(np.random.default_rng(settings.seed), settings.n))
    return _outcome(settings, drawn, distances, exact)


def distance(x: np.ndarray) -> float:
    """Mean distance by which samples have to be moved to become the distribution (1-Wasserstein, by quantiles).

    >>> round(distance(_quantiles(1000) + 0.5), 3)
    0.5
    """
    return float(np.abs(np.sort(x) - _quantiles(len(x))).mean())


def _quantiles(n: int) -> np.ndarray:
    """Those of the distribution at the middles of n equal parts."""
    grid = np.linspace(-_MEAN - 8 * _STD, _MEAN + 8 * _STD, 20_001)
    share = (1 - _WEIGHT) * scipy.stats.norm.cdf(grid, -_MEAN, _STD)
    share += _WEIGHT * scipy.stats.norm.cdf(grid, _MEAN, _STD)
    return np.interp((np.arange(n) + 0.5) / n, share, grid)


def _draw(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < _WEIGHT, _MEAN, -_MEAN) + _STD * rng.normal(size=n)


def _outcome(
    settings: SamplerTableSettings,
    drawn: dict[str, list[np.ndarray]],
    distances: dict[str, list[float]],
    exact: float,
) -> Outcome:
    counts = np.asarray(settings.evaluations)
    rows: list[list[str | float | int]] = []
    for name, found in drawn.items():
        x = found[-1]
        within = np.where(x > 0, x - _MEAN, x + _MEAN)
        rows.append([name, *distances[name], float((x > 0).mean()), float(within.std())])
    first, last = (min((values[i], name) for name, values in distances.items()) for i in (0, -1))
    few = f"With {counts[0]} evaluations {first[1]} is nearest to the distribution ({first[0]:.3f})"
    many = f"with {counts[-1]}, {last[1]} ({last[0]:.3f})"
    heads = [f"distance, {count}" for count in counts]
    return Outcome(
        [
            f"{few}; {many}. {settings.n:,} draws from the distribution itself are {exact:.3f} away from it.",
            f"The right mode has weight {_WEIGHT:g} and both have deviation {_STD:g}; the last two columns are for "
            f"{counts[-1]} evaluations.",
        ],
        [_distances(distances, counts, exact), _histogram(drawn, int(counts[-1])), _noise_of_mu()],
        Table(
            "sampler-table", "Samplers on an exact mixture", ["sampler", *heads, "weight", "deviation"], rows
        ),
        {
            "evaluations": counts.tolist(),
            "distance": distances,
            "weight": {str(row[0]): row[-2] for row in rows},
            "deviation": {str(row[0]): row[-1] for row in rows},
            "draws": exact,
        },
    )


def _distances(distances: dict[str, list[float]], counts: np.ndarray, exact: float) -> Picture:
    series = {name: (counts, np.asarray(values)) for name, values in distances.items()}
    return Lines(
        "sampler-distance",
        "Distance of samples from the distribution",
        "evaluations of the denoiser",
        "1-Wasserstein distance",
        {**series, "draws from the distribution": (counts, np.full(len(counts), exact))},
        log_x=True,
        log_y=True,
    )


def _histogram(drawn: dict[str, list[np.ndarray]], count: int) -> Picture:
    edges = np.linspace(-_MEAN - 4 * _STD, _MEAN + 4 * _STD, 61)
    middle = (edges[1:] + edges[:-1]) / 2
    density = (1 - _WEIGHT) * scipy.stats.norm.pdf(middle, -_MEAN, _STD)
    density += _WEIGHT * scipy.stats.norm.pdf(middle, _MEAN, _STD)
    series: dict[str, tuple[np.ndarray, ...]] = {"exact": (middle, density)}
    for name in (name for name in _SHOWN if name in drawn):
        last = drawn[name][-1]
        series[name] = (middle, np.histogram(last, edges)[0] / (len(last) * (edges[1] - edges[0])))
    return Lines(
        "sampler-histogram",
        "Samples over the exact density",
        "x",
        "density",
        series,
        caption=f"{count} evaluations each.",
    )


def _noise_of_mu() -> Picture:
    mus = np.linspace(0, 0.95, 96)
    return Lines(
        "noise-of-mu",
        "How much noise mu adds",
        "mu",
        "eta of DDIM with as much noise",
        {
            f"to {ratio:g} sigma": (
                mus,
                np.asarray([samplers.implied_eta(mu, jnp.asarray(ratio)) for mu in mus.tolist()]),
            )
            for ratio in (0.5, 0.8, 0.95)
        },
        marks=((0.5, "ancestral sampling"),),
        caption="For steps in which sigma falls to a share of itself. mu=0 is DDIM without noise; at mu=0.5 eta is 1 "
        "however long the step.",
    )


experiment = Experiment(
    "Every sampler of diffusion models on a mixture whose denoiser is exact, at equal numbers of evaluations.",
    SamplerTableSettings,
    run,
    toy={"n": 200, "evaluations": (12,), "samplers": ("ddim", "langevin")},
    reference="Song et al., Score-based generative modeling through stochastic differential equations, ICLR 2021",
)

__all__ = ["SamplerTableSettings", "distance", "experiment", "run"]
