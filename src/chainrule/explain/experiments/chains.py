"""Markov chains that sample a density: their traces and ranks, how far they can be trusted, and their way over it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Lines, Picture, Scatter, Table
from chainrule.core.types import Array, Key
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.monte_carlo import (
    MCMCResult,
    bulk_ess,
    gibbs,
    hmc,
    mala,
    metropolis,
    rhat,
    tail_ess,
    ula,
)

_GRID = 120
_SHOWN = 60
"""Draws of a chain in the picture of its way."""
_TRACE = 500
_BINS = 20
_POINTS = 12
"""Lengths at which the diagnostics are taken."""


@final
@dataclass(frozen=True)
class TargetDensity:
    """A density of the plane up to a factor, with its exact moments."""

    log_density: Callable[[Array], Array]
    mean: tuple[float, float]
    deviation: tuple[float, float]
    conditionals: tuple[Callable[[Key, Array], Array], ...] = ()
    """Of each entry given the other, where they can be drawn from."""


def _banana(x: Array) -> Array:
    return -jnp.square(x[0]) / 2 - 2 * jnp.square(x[1] - jnp.square(x[0]))


def _correlated(x: Array) -> Array:
    return -(jnp.square(x).sum() - 1.8 * x[0] * x[1]) / (2 * (1 - 0.81))


def _funnel(x: Array) -> Array:
    return -jnp.square(x[0]) / 4.5 - jnp.square(x[1]) * jnp.exp(-x[0]) / 2 - x[0] / 2


def _modes(x: Array) -> Array:
    # The factors cancel: both modes have deviation one.
    return jnp.logaddexp(
        jnp.log(0.7) - jnp.square(x - jnp.array([-3.0, 0.0])).sum() / 2,
        jnp.log(0.3) - jnp.square(x - jnp.array([3.0, 0.0])).sum() / 2,
    )


def _given(other: int) -> Callable[[Key, Array], Array]:
    return lambda key, x: 0.9 * x[other] + jnp.sqrt(0.19) * jax.random.normal(key, (), x.dtype)


TARGETS: Mapping[str, TargetDensity] = MappingProxyType(
    {
        "banana": TargetDensity(_banana, (0.0, 1.0), (1.0, 1.5)),
        "correlated": TargetDensity(_correlated, (0.0, 0.0), (1.0, 1.0), (_given(1), _given(0))),
        # log E exp(v) = var/2 with var = 9/4.
        "funnel": TargetDensity(_funnel, (0.0, 0.0), (1.5, float(np.exp(9 / 16)))),
        "two-modes": TargetDensity(_modes, (-1.2, 0.0), (float(np.sqrt(1 + 9 - 1.44)), 1.0)),
    }
)
_ADAPTIVE: Mapping[str, Callable[..., MCMCResult]] = MappingProxyType(
    {"hmc": hmc, "mala": mala, "metropolis": metropolis}
)


@final
class ChainsSettings(Settings):
    """The density, the moves, and how many of them."""

    target: Literal["banana", "correlated", "funnel", "two-modes"] = Field(
        "banana", description="density: a bent one, a normal one of correlation 0.9, a funnel, two far modes"
    )
    sampler: Literal["hmc", "mala", "metropolis", "ula", "gibbs"] = Field(
        "hmc", description="moves; ula needs step_size, gibbs target=correlated"
    )
    chains: int = Field(4, ge=1, le=100, description="chains, from starts far apart")
    draws: int = Field(1000, ge=50, le=100_000, description="of each chain, after burn-in")
    burn_in: int = Field(
        1000, ge=0, le=100_000, description="moves before, in which steps and scales are found"
    )
    step_size: float | None = Field(None, gt=0, description="size of a step; found in burn-in unless given")
    target_acceptance: float | None = Field(
        None, gt=0, lt=1, description="acceptance that steps are steered to; higher where moves diverge"
    )
    seed: int = Field(0, ge=0, description="starts and moves")


def run(settings: ChainsSettings, listener: Listener) -> Outcome:
    """Run the chains and hold them against the exact moments."""
    listener(f"{settings.sampler} on {settings.target}: {settings.chains} chains")
    target = TARGETS[settings.target]
    found = _sampled(settings, target)
    off = np.abs(found.mean - target.mean) / found.standard_error
    concerns = found.concerns()
    findings = [
        f"{settings.chains * settings.draws:,} draws of {settings.sampler} are worth {np.nanmin(found.bulk_ess):,.0f} "
        f"independent ones for the centre and {np.nanmin(found.tail_ess):,.0f} for the tails; R-hat is "
        f"{np.nanmax(found.rhat):.3f}, acceptance {found.acceptance.mean():.2f}.",
        f"Means are {found.mean[0]:.3f} and {found.mean[1]:.3f}, {off[0]:.1f} and {off[1]:.1f} of their stated errors "
        f"from the exact {target.mean[0]:g} and {target.mean[1]:g}; deviations {found.deviation[0]:.3f} and "
        f"{found.deviation[1]:.3f} where {target.deviation[0]:.3f} and {target.deviation[1]:.3f} are exact.",
        *(f"Warning: {one}." for one in concerns),
    ]
    if not concerns:
        findings.append("Nothing speaks against these draws: the diagnostics are all as they should be.")
    return Outcome(
        findings,
        [_traces(found), _ranks(found), _growth(found), _way(settings, target, found)],
        Table(
            "chains",
            "What the draws are worth",
            ["entry", "mean", "error", "deviation", "R-hat", "bulk ESS", "tail ESS", "exact mean", "exact deviation"],
            [
                [*row[:1], *(round(float(value), 4) for value in row[1:]), mean, round(deviation, 4)]
                for row, mean, deviation in zip(found.table(), target.mean, target.deviation, strict=True)
            ],
        ),
        {
            "mean": found.mean.tolist(),
            "standard_error": found.standard_error.tolist(),
            "deviation": found.deviation.tolist(),
            "exact_mean": list(target.mean),
            "exact_deviation": list(target.deviation),
            "rhat": found.rhat.tolist(),
            "bulk_ess": found.bulk_ess.tolist(),
            "tail_ess": found.tail_ess.tolist(),
            "acceptance": float(found.acceptance.mean()),
            "divergences": int(found.divergences.sum()),
            "step_size": None if np.isnan(found.step_size) else found.step_size,
            "concerns": concerns,
        },
    )  # fmt: skip


def _sampled(settings: ChainsSettings, target: TargetDensity) -> MCMCResult:
    starts = np.random.default_rng(settings.seed).normal(size=(settings.chains, 2)).astype(np.float32) * 3
    lengths: dict[str, Any] = {"draws": settings.draws, "burn_in": settings.burn_in, "warn": False}
    known = {"step_size": settings.step_size, "target_acceptance": settings.target_acceptance}
    options = {name: value for name, value in known.items() if value is not None}
    key = random.key(settings.seed, "chains")
    if settings.sampler in _ADAPTIVE:
        return _ADAPTIVE[settings.sampler](target.log_density, starts, key, **lengths, **options)
    if settings.target_acceptance is not None:
        raise ArgumentError(
            f"target_acceptance={settings.target_acceptance:g}: every move of {settings.sampler} is made",
            remedy="leave it out, or use sampler=hmc",
        )
    if settings.sampler == "ula":
        if settings.step_size is None:
            raise ArgumentError(
                "sampler=ula: its step size is an error of its own, so that nobody finds it for you",
                remedy="give step_size=0.1",
            )
        return ula(target.log_density, starts, key, step_size=settings.step_size, **lengths)
    if settings.step_size is not None:
        raise ArgumentError(f"step_size={settings.step_size:g}: gibbs has no steps", remedy="leave it out")
    if not target.conditionals:
        raise ArgumentError(
            f"sampler=gibbs: the conditionals of target={settings.target} cannot be drawn from",
            remedy="use target=correlated, or sampler=hmc",
        )
    return gibbs(target.conditionals, starts, key, **lengths)


def _traces(found: MCMCResult) -> Lines:
    shown = found.draws[:4, :_TRACE, 0]
    return Lines(
        "traces",
        "First entry of every chain",
        "draw",
        "x[0]",
        {f"chain {i + 1}": (np.arange(shown.shape[1]), row) for i, row in enumerate(shown)},
        caption=f"The first {shown.shape[1]:,} draws after burn-in. Chains that agree cross each other all the time.",
    )


def _ranks(found: MCMCResult) -> Bars:
    """How the draws of each chain are ranked among all: even where the chains agree."""
    values = found.draws[:, :, 0]
    ranks = scipy.stats.rankdata(values.ravel()).reshape(values.shape)
    edges = np.linspace(0, values.size, _BINS + 1)
    return Bars(
        "ranks",
        "Ranks of the first entry",
        "rank among all draws, low to high",
        "share of a chain's draws",
        [f"{i + 1}" for i in range(_BINS)],
        {f"chain {i + 1}": np.histogram(row, edges)[0] / values.shape[1] for i, row in enumerate(ranks[:4])},
        caption=f"Chains that have seen the same distribution have a share of {1 / _BINS:g} everywhere.",
    )


def _growth(found: MCMCResult) -> Lines:
    count = found.draws.shape[1]
    lengths = np.unique(np.geomspace(min(20, count), count, _POINTS).astype(int))
    parts = [found.draws[:, :n] for n in lengths]
    chains = found.draws.shape[0]
    return Lines(
        "diagnostics",
        "What the draws are worth as they become more",
        "draws of each chain",
        "share of the draws; R-hat - 1",
        {
            "bulk ESS / draws": (lengths, np.array([np.nanmin(bulk_ess(one)) for one in parts]) / (chains * lengths)),
            "tail ESS / draws": (lengths, np.array([np.nanmin(tail_ess(one)) for one in parts]) / (chains * lengths)),
            "R-hat - 1": (lengths, np.maximum([np.nanmax(rhat(one)) - 1 for one in parts], 1e-4)),
            "0.01": (lengths[[0, -1]], np.full(2, 0.01)),
        },
        log_x=True,
        log_y=True,
        caption="Of the worst entry. R-hat below 1.01 and a steady share of effective draws are what one wants.",
    )  # fmt: skip


def _way(settings: ChainsSettings, target: TargetDensity, found: MCMCResult) -> Picture:
    reach = 3.5 * np.array(target.deviation)
    low, high = np.array(target.mean) - reach, np.array(target.mean) + reach
    axes = [np.linspace(low[i], high[i], _GRID) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    logs = np.asarray(jax.jit(jax.vmap(target.log_density))(jnp.asarray(grid, jnp.float32)), np.float64)
    density = np.exp(logs - logs.max()).reshape(_GRID, _GRID)
    groups = {f"chain {i + 1}": found.draws[i, :_SHOWN] for i in range(min(2, len(found.draws)))}
    return Scatter(
        "way",
        f"The way of {settings.sampler} over the density",
        "x[0]",
        "x[1]",
        groups,
        field=density,
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        contours=((float(np.exp(-2.0)), ""), (float(np.exp(-0.5)), "")),
        joined=True,
        caption=f"The first {_SHOWN} draws of {len(groups)} chains, joined in their order; lines where the density is "
        "exp(-1/2) and exp(-2) of its highest.",
    )


experiment = Experiment(
    "Chains that sample a density: traces, ranks, R-hat and effective draws, and where they go.",
    ChainsSettings,
    run,
    toy={"draws": 60, "burn_in": 60},
    reference="Vehtari, Gelman, Simpson, Carpenter and Buerkner, Rank-normalization, folding, and localization, 2021",
)

__all__ = ["TARGETS", "ChainsSettings", "experiment", "run"]
