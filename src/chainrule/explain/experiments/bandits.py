"""Bandits: what strategies of choosing among arms miss while they find out which is best."""

from collections.abc import Mapping
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.bandits import (
    UCB1,
    BanditProblem,
    BanditStrategy,
    BernoulliArms,
    EpsilonGreedyArms,
    GradientBandit,
    NormalArms,
    RegretCurve,
    ThompsonBernoulli,
    ThompsonNormal,
    regret,
)
from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.core.types import Array
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_NORMAL_95 = 1.959964


@final
class BanditsSettings(Settings):
    """The arms, and how long they are pulled."""

    rewards: Literal["normal", "bernoulli"] = Field(
        "normal", description="rewards: normal numbers, or 0 and 1"
    )
    means: str = Field(
        "",
        description="mean reward of each arm, with commas; default: drawn anew for every run, as many as arms",
    )
    arms: int = Field(10, ge=2, le=1000, description="arms, where means are drawn")
    steps: int = Field(1000, ge=10, le=100_000, description="pulls of a run")
    runs: int = Field(1000, ge=10, le=100_000, description="runs, side by side")
    epsilon: float = Field(0.1, ge=0, le=1, description="how often epsilon-greedy pulls any arm")
    rate: float = Field(0.1, gt=0, le=10, description="step of the gradient bandit")
    hope: float = Field(
        5.0, ge=-1000, le=1000, description="what the optimistic one expects of every arm at first"
    )
    seed: int = Field(0, ge=0, description="arms and pulls")


def run(settings: BanditsSettings, listener: Listener) -> Outcome:
    """Play all strategies on the same arms."""
    problems = _problems(settings)
    if settings.runs * settings.steps > 10**8:
        raise ArgumentError(
            f"runs={settings.runs} of steps={settings.steps}: that is more than 100 million pulls",
            remedy="ask for fewer of either",
        )
    found: dict[str, RegretCurve] = {}
    for name, strategy in _strategies(settings).items():
        listener(name)
        found[name] = regret(strategy, problems, random.key(settings.seed, "pulls"), settings.steps)
    order = sorted(found, key=lambda name: found[name].mean[-1])
    ends = {name: (found[name].mean[-1], found[name].high[-1] - found[name].mean[-1]) for name in order}
    slope = float(np.mean(jax.vmap(lambda one: one.least_regret(), (_axes(problems),))(problems)))
    best = order[0]
    findings = [
        f"After {settings.steps:,} pulls {best} has missed least: {ends[best][0]:.1f} "
        f"(95 % interval {found[best].low[-1]:.1f} to {found[best].high[-1]:.1f}, over {settings.runs:,} runs).",
        "Regret of the others: "
        + ", ".join(f"{name} {ends[name][0]:.1f} ± {ends[name][1]:.1f}" for name in order[1:])
        + ".",
        f"In the long run nobody who is good on all arms misses less than {slope:.1f} ln t on these (Lai and Robbins).",
    ]
    findings += _beaten(found, best)
    columns = ["strategy", "regret", "95 % half width", "median", "worst tenth", "best arm at the end"]
    rows: list[list[str | float | int]] = [
        [
            name,
            *(round(float(one), 3) for one in ends[name]),
            round(float(np.median(found[name].final)), 3),
            round(float(np.quantile(found[name].final, 0.9)), 3),
            round(float(found[name].best_share[-10:].mean()), 3),
        ]
        for name in order
    ]
    numbers: dict[str, Any] = {
        name: {
            "regret": float(ends[name][0]),
            "half_width": float(ends[name][1]),
            "best_share": float(found[name].best_share[-10:].mean()),
        }
        for name in order
    }
    return Outcome(
        findings,
        [_curves(found), _shares(found), _ends(found, order)],
        Table("bandits", f"After {settings.steps:,} pulls", columns, rows),
        {**numbers, "least_slope": slope},
    )


def _strategies(settings: BanditsSettings) -> Mapping[str, BanditStrategy]:
    normal = settings.rewards == "normal"
    thompson: BanditStrategy = ThompsonNormal() if normal else ThompsonBernoulli()
    return {
        f"epsilon-greedy {settings.epsilon:g}": EpsilonGreedyArms(settings.epsilon),
        f"optimistic {settings.hope:g}": EpsilonGreedyArms(0.0, settings.hope, 0.1),
        "UCB1": UCB1(),
        "Thompson": thompson,
        "gradient": GradientBandit(settings.rate),
    }


def _problems(settings: BanditsSettings) -> BanditProblem:
    normal = settings.rewards == "normal"
    means: Array
    if settings.means:
        row = written_matrix("means", settings.means)[0]
        if len(row) < 2 or not (normal or ((row >= 0) & (row <= 1)).all()):
            raise ArgumentError(
                f"means={settings.means!r}: two arms at least, and for bernoulli rewards probabilities",
                remedy="means=0.4,0.6",
            )
        means = jnp.tile(jnp.asarray(row, jnp.float32), (settings.runs, 1))
    else:
        draw = jax.random.normal if normal else jax.random.uniform
        means = draw(random.key(settings.seed, "arms"), (settings.runs, settings.arms))
    return NormalArms(means) if normal else BernoulliArms(means)


def _axes(problems: BanditProblem) -> Any:
    """Problems side by side: numbers that all share have no axis."""
    return jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) > 0 else None, problems)


def _beaten(found: Mapping[str, RegretCurve], best: str) -> list[str]:
    """Whether the order is more than luck: runs of all strategies had the same arms."""
    unsure = []
    for name, curve in found.items():
        apart = curve.final - found[best].final
        error = _NORMAL_95 * apart.std(ddof=1) / np.sqrt(len(apart))
        if name != best and apart.mean() <= error:
            unsure.append(name)
    if unsure:
        return [f"Run by run on the same arms, {best} is not surely better than {' and '.join(unsure)}."]
    return [f"Run by run on the same arms, {best} is better than every other beyond chance (95 %)."]


def _curves(found: Mapping[str, RegretCurve]) -> Lines:
    return Lines(
        "regret",
        "Regret",
        "pull",
        "missed so far",
        {name: (curve.steps, curve.mean, curve.low, curve.high) for name, curve in found.items()},
        caption="Mean over runs of what was missed by not pulling the best arm, with 95 % bands.",
    )


def _shares(found: Mapping[str, RegretCurve]) -> Lines:
    return Lines(
        "best-arm",
        "How often the best arm is pulled",
        "pull",
        "share of runs",
        {name: (curve.steps, curve.best_share) for name, curve in found.items()},
    )


def _ends(found: Mapping[str, RegretCurve], order: list[str]) -> Bars:
    errors = np.array([found[name].final.std(ddof=1) / np.sqrt(len(found[name].final)) for name in order])
    return Bars(
        "regret-end",
        "Regret at the end",
        "strategy",
        "missed in all",
        order,
        {"regret": np.array([found[name].mean[-1] for name in order])},
        errors={"regret": errors},
    )


experiment = Experiment(
    "Epsilon-greedy, optimism, UCB1, Thompson sampling and gradients on the same arms: regret with intervals.",
    BanditsSettings,
    run,
    toy={"steps": 20, "runs": 20, "arms": 3},
    reference="Sutton and Barto, Reinforcement Learning, 2018, chapter 2; Lai and Robbins, 1985; Auer et al., 2002",
)

__all__ = ["BanditsSettings", "experiment", "run"]
