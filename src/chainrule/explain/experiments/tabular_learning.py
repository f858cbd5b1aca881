"""Tabular learning on a grid: rules side by side, what they earn while learning, and where they go."""

import itertools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.agents import envs, mdp
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.agents.tabular import (
    DoubleQLearning,
    EpsilonGreedyBehaviour,
    ExpectedSarsa,
    NStepSarsa,
    QLearning,
    Sarsa,
    TabularHyper,
    TabularLearner,
    TabularRule,
)
from chainrule.core import random
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.pictures import Heatmap, Lines, Picture, Slides, Table
from chainrule.explain.methods.decision_drawings import value_grid
from chainrule.explain.methods.grids import grid_of, is_closed
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_NORMAL_95 = 1.959964
_POINTS = 60
_LATE = 0.2
"""Share of the steps, at the end, that say what a rule earns."""
_EARLY = 0.1
RULES: Mapping[str, TabularRule] = {
    "q-learning": QLearning(),
    "sarsa": Sarsa(),
    "expected-sarsa": ExpectedSarsa(),
    "double-q": DoubleQLearning(),
    "n-step": NStepSarsa(4),
    "sarsa-lambda": Sarsa(0.8),
    "q-lambda": QLearning(0.8),
}


@final
class TabularLearningSettings(Settings):
    """The world, the rules, and how they learn."""

    env: Literal["cliff-walking", "frozen-lake", "grid-world"] = Field(
        "cliff-walking", description="the grid"
    )
    rules: str = Field("q-learning,sarsa", description=f"with commas: {', '.join(RULES)}")
    steps: int = Field(20_000, ge=100, le=10_000_000, description="steps of a run")
    seeds: int = Field(30, ge=5, le=1000, description="runs of each rule, side by side")
    alpha: float = Field(0.5, gt=0, le=1, description="step size")
    power: float = Field(0.0, ge=0, le=1, description="step sizes fall like 1 / visits^power; 0: constant")
    gamma: float = Field(1.0, gt=0, le=1, description="discount")
    epsilon: float = Field(0.1, ge=0, le=1, description="how often any action is taken, at first")
    epsilon_end: float = Field(0.1, ge=0, le=1, description="and at the end")
    initial: float = Field(0.0, ge=-1e6, le=1e6, description="values to begin with; high ones explore")
    seed: int = Field(0, ge=0, description="of the first run")


class _Learnt(NamedTuple):
    """What the runs of a rule came to."""

    at: np.ndarray
    """Steps at which returns are averaged."""
    returns: Float[np.ndarray, "seeds points"]
    late: Float[np.ndarray, "seeds"]
    values: Float[np.ndarray, "states"]
    q: Float[np.ndarray, "states actions"]
    visits: Float[np.ndarray, "states"]
    greedy: Float[np.ndarray, "seeds"]
    """Exact return of acting by each run's table without exploring, within the limit of time."""


def run(settings: TabularLearningSettings, listener: Listener) -> Outcome:
    """Train every rule on the same seeds, and judge what it learnt exactly."""
    env = envs.make(settings.env)
    if not isinstance(env, FiniteEnvironment):
        raise ArgumentError(f"env={settings.env}: its states cannot be counted")
    names = [name.strip() for name in settings.rules.split(",")]
    for name in names:
        check_choice("tabular-learning", "rules", name, RULES)
    table = mdp.enumerated(env)
    best = mdp.optimal_return(env)
    found = {}
    for name in dict.fromkeys(names):
        listener(f"{name}: {settings.seeds} runs of {settings.steps:,} steps")
        found[name] = _learnt(settings, env, table, RULES[name])
    findings = [f"{settings.env}: the best that can be had is {best:.6g} an episode."]
    numbers: dict[str, Any] = {"optimal_return": best}
    rows: list[list[str | float | int]] = []
    for name, one in found.items():
        half = _NORMAL_95 * one.late.std(ddof=1) / np.sqrt(len(one.late))
        findings.append(
            f"{name} earns {one.late.mean():.4g} ± {half:.2g} an episode while it still explores (95 %, "
            f"{settings.seeds} seeds), and {np.median(one.greedy):.4g} (median) by what it learnt, without exploring."
        )
        numbers[name] = {
            "return": float(one.late.mean()),
            "half_width": float(half),
            "greedy": one.greedy.tolist(),
        }
        rows.append(
            [
                name,
                *(
                    round(float(value), 4)
                    for value in (one.late.mean(), half, np.median(one.greedy), one.greedy.min())
                ),
            ]
        )
    if {"q-learning", "sarsa"} <= found.keys() and settings.env == "cliff-walking":
        findings.append(
            "Q-learning values the best actions and walks along the edge, from which exploring falls; SARSA counts its "
            "own exploring in and keeps a distance."
        )
    pictures: list[Picture] = [_curves(found, best), _slides(env, table, found)]
    pictures += [_map(env, name, one) for name, one in found.items()]
    columns = [
        "rule",
        "return while exploring",
        "95 % half width",
        "median return without",
        "worst seed without",
    ]
    return Outcome(findings, pictures, Table("rules", "What the rules earn", columns, rows), numbers)


@eqx.filter_jit
def _runs(learner: TabularLearner, keys: Any, steps: int) -> Any:
    return jax.vmap(lambda key: learner.run(learner.start(key), steps))(keys)


def _learnt(
    settings: TabularLearningSettings,
    env: FiniteEnvironment,
    table: mdp.EnumeratedEnvironment,
    rule: TabularRule,
) -> _Learnt:
    behaviour = EpsilonGreedyBehaviour(settings.epsilon, settings.epsilon_end, settings.steps)
    hyper = TabularHyper(settings.alpha, settings.power, settings.gamma, settings.initial, behaviour)
    keys = jax.random.split(random.key(settings.seed, "tabular"), settings.seeds)
    state, trace = jax.tree.map(
        np.asarray, eqx.filter(_runs(TabularLearner(env, rule, hyper), keys, settings.steps), _is_number)
    )
    edges = np.linspace(0, settings.steps, min(_POINTS, settings.steps // 10) + 1).astype(int)
    late = np.arange(settings.steps) >= (1 - _LATE) * settings.steps
    q = state.q.mean(1)
    visits = state.visits.sum(-1).mean(0)
    return _Learnt(
        edges[1:],
        np.stack([_mean_return(trace, slice(a, b)) for a, b in itertools.pairwise(edges)], 1),
        _mean_return(trace, late),
        q.max(-1).mean(0),
        q.mean(0),
        visits,
        np.array([_followed(env, table, one) for one in q]),
    )


def _is_number(leaf: Any) -> bool:
    """Keys of random numbers are no numbers for the host."""
    return eqx.is_array(leaf) and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _mean_return(trace: Any, part: Any) -> Float[np.ndarray, "seeds"]:
    """Mean return of episodes that end in a part of the steps, by seed; not a number where none does."""
    over, earned = trace.over[:, part], trace.episode_return[:, part]
    with np.errstate(invalid="ignore"):
        mean: np.ndarray = (earned * over).sum(1) / over.sum(1)
    return mean


def _followed(env: FiniteEnvironment, table: mdp.EnumeratedEnvironment, q: np.ndarray) -> float:
    """Expected return of acting by a table, within the environment's limit of time."""
    greedy = np.append(q.argmax(-1), 0)
    everywhere = np.arange(len(greedy))
    moves, rewards = table.transition[everywhere, greedy], table.rewards[everywhere, greedy]
    values = mdp.sweeps(moves, rewards, 1.0, int(np.asarray(env.limit(env.params))))
    return float(table.start @ values[-1])


def _curves(found: Mapping[str, _Learnt], best: float) -> Lines:
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for name, one in found.items():
        # The first episodes are so much worse that nothing else could be told apart.
        seen = np.isfinite(one.returns).all(0) & (one.at > _EARLY * one.at[-1])
        mean = one.returns[:, seen].mean(0)
        half = _NORMAL_95 * one.returns[:, seen].std(0, ddof=1) / np.sqrt(len(one.returns))
        series[name] = (one.at[seen], mean, mean - half, mean + half)
    last = max(int(one.at[-1]) for one in found.values())
    series["optimum"] = (np.array([_EARLY * last, last]), np.full(2, best))
    return Lines(
        "learning-curves",
        "Returns while learning",
        "step",
        "return of an episode",
        series,
        caption=f"Means over seeds of the episodes that end in each stretch of steps, with 95 % bands; the first "
        f"{_EARLY:.0%} of the steps are left out.",
    )


def _slides(env: FiniteEnvironment, table: mdp.EnumeratedEnvironment, found: Mapping[str, _Learnt]) -> Slides:
    colors, shape = grid_of(env)
    closed = is_closed(table)
    drawings, notes = [], []
    for name, one in found.items():
        actions = [
            () if end else (table.actions[int(row.argmax())],) for row, end in zip(one.q, closed, strict=True)
        ]
        scale = float(np.abs(one.values[~closed]).max(initial=0.0))
        drawings.append(value_grid(one.values.reshape(shape), actions, colors, name, scale).to_svg())
        notes.append(f"{name}\nvalues and best moves at the end, means over seeds")
    return Slides("learnt-values", "What the rules have learnt", drawings, notes)


def _map(env: FiniteEnvironment, name: str, one: _Learnt) -> Heatmap:
    shape = grid_of(env)[1]
    return Heatmap(
        f"visits-{name}",
        f"Where {name} has been",
        "column",
        "row",
        np.log10(1 + one.visits).reshape(shape),
        caption="Visits of each cell in a run, mean over seeds: 0 none, 1 nine, 2 ninety-nine, 3 a thousand.",
    )


experiment = Experiment(
    "Q-learning, SARSA and their relatives on a cliff, a lake or a grid: returns, policies and where they have been.",
    TabularLearningSettings,
    run,
    toy={"steps": 300, "seeds": 5, "rules": "q-learning"},
    reference="Sutton and Barto, Reinforcement Learning, 2018, chapters 6, 7 and 12",
)

__all__ = ["RULES", "TabularLearningSettings", "experiment", "run"]
