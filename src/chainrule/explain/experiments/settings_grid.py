"""A grid of settings: agents that differ in two numbers of their algorithm, all trained in one program."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents import algorithms, envs
from chainrule.agents.learning import loop
from chainrule.agents.training.judging import judge
from chainrule.core import random
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.formatting import number
from chainrule.core.pictures import Heatmap, Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_MOST = 4096
"""Agents of one program."""


@final
class SettingsGridSettings(Settings):
    """The algorithm, its world, and the two numbers."""

    algorithm: str = Field("ppo", description="chainrule models ls lists them")
    env: str = Field("cartpole", description="environment: chainrule data ls")
    x: str = Field("learning_rate", description="a number of the algorithm, such as gamma, clip, entropy")
    x_values: tuple[float, ...] = Field((1e-4, 1e-3, 1e-2), min_length=1, description="with commas")
    y: str = Field("entropy", description="another one")
    y_values: tuple[float, ...] = Field((0.0, 0.01, 0.1), min_length=1, description="with commas")
    steps: int = Field(20_000, ge=1, le=10**9, description="steps of each agent")
    seeds: int = Field(2, ge=1, le=1000, description="agents of each pair, the same seeds for all pairs")
    episodes: int = Field(20, ge=1, le=10_000, description="by which each agent is judged at the end")
    seed: int = Field(0, ge=0, lt=2**32, description="of the first agents")


def run(settings: SettingsGridSettings, listener: Listener) -> Outcome:
    """Train all pairs side by side, and judge each."""
    entry = algorithms.entry(settings.algorithm)
    world = envs.make(settings.env)
    env = world if entry.whole_numbers else envs.vector_observations(world)
    learner = entry.build(entry.config(), env, settings.steps)
    agents, hyper = agents_of(settings, learner.hyper)
    listener(f"{agents} agents of {settings.algorithm}, {settings.steps:,} steps each")
    shape = (len(settings.y_values), len(settings.x_values), settings.seeds)
    keys = jax.random.split(random.key(settings.seed, "grid"), settings.seeds)
    trained = loop.train(
        learner, jnp.concatenate([keys] * (agents // settings.seeds)), settings.steps, hyper=hyper
    )
    judged = judge(learner, env, trained.states, random.key(settings.seed, "judged"), settings.episodes)
    returns = judged.by_agent.reshape(shape)
    means = returns.mean(axis=2)
    row, column = np.unravel_index(means.argmax(), means.shape)
    best = (settings.x_values[column], settings.y_values[row])
    rows: list[list[str | float | int]] = [
        [x, y, float(returns[j, i].mean()), float(returns[j, i].min()), float(returns[j, i].max())]
        for j, y in enumerate(settings.y_values)
        for i, x in enumerate(settings.x_values)
    ]
    said = f"{settings.x}={number(best[0])} with {settings.y}={number(best[1])}"
    few = (
        ""
        if settings.seeds >= 5
        else f" {settings.seeds} seeds of each pair are few: differences may be luck."
    )
    return Outcome(
        [
            f"{said} returns most: {number(means.max())} an episode, greedy, mean of {settings.seeds} agents; the "
            f"worst pair returns {number(means.min())}.{few}"
        ],
        [
            Heatmap(
                "returns",
                f"Greedy returns of {settings.algorithm} on {settings.env}",
                settings.x,
                settings.y,
                means,
                [number(y) for y in settings.y_values],
                [number(x) for x in settings.x_values],
                numbers=True,
                caption=f"Means of {settings.seeds} agents after {settings.steps:,} steps; all in one program.",
            ),
            _curves(settings, trained.metrics["return_mean"].reshape(*shape, -1), int(row), learner),
        ],
        Table("grid", "Every pair", [settings.x, settings.y, "return", "lowest", "highest"], rows),
        {"returns": returns.tolist(), "best": {settings.x: best[0], settings.y: best[1]}},
    )


def agents_of(settings: SettingsGridSettings, hyper: Any) -> tuple[int, Any]:
    """How many agents there are, and the numbers of each."""
    known = [name for name, value in hyper._asdict().items() if np.ndim(value) == 0 and _is_number(value)]
    for word in ("x", "y"):
        check_choice("settings-grid", word, getattr(settings, word), known)
    if settings.x == settings.y:
        raise ArgumentError(f"x={settings.x}, y={settings.y}: two different numbers make a grid")
    agents = len(settings.x_values) * len(settings.y_values) * settings.seeds
    if agents > _MOST:
        raise ArgumentError(f"{agents} agents are more than {_MOST}", remedy="fewer values, or fewer seeds")
    for name, values in ((settings.x, settings.x_values), (settings.y, settings.y_values)):
        if name in algorithms.entry(settings.algorithm).config.model_fields:  # which says what range it has
            for value in values:
                algorithms.configure(settings.algorithm, **{name: value})
    y, x, _ = np.meshgrid(settings.y_values, settings.x_values, np.arange(settings.seeds), indexing="ij")
    return agents, hyper._replace(**{settings.x: jnp.array(x.ravel()), settings.y: jnp.array(y.ravel())})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | jax.Array | np.ndarray)


def _curves(settings: SettingsGridSettings, returns: np.ndarray, row: int, learner: Any) -> Lines:
    """Returns while learning, in the row of the best pair; iterations in which no episode ended have none."""
    at = learner.steps_per_iteration * (1 + np.arange(returns.shape[-1]))
    series = {}
    for column, x in enumerate(settings.x_values):
        seen = np.isfinite(returns[row, column])
        there = seen.any(axis=0)
        total = np.where(seen, returns[row, column], 0).sum(axis=0)
        series[f"{settings.x}={number(x)}"] = (at[there], total[there] / seen.sum(axis=0)[there])
    return Lines(
        "learning",
        f"While learning, at {settings.y}={number(settings.y_values[row])}",
        "steps",
        "return of an episode",
        series,
    )


experiment = Experiment(
    "Two numbers of an algorithm on a grid, every pair an agent of one compiled program: returns as a heat map.",
    SettingsGridSettings,
    run,
    toy={
        "algorithm": "tabular",
        "env": "frozen-lake",
        "x": "alpha",
        "x_values": (0.1, 0.5),
        "y": "gamma",
        "y_values": (0.9,),
        "steps": 200,
        "episodes": 2,
    },
    reference="Lu et al., Discovered policy optimisation, NeurIPS 2022 (agents side by side in one program)",
)

__all__ = ["SettingsGridSettings", "agents_of", "experiment", "run"]
