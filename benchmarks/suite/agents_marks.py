"""Returns after whole trainings, over many agents, beside published marks.

`MARK_AGENTS` (16) agents of each algorithm, all in one program, with the settings that the marks were published for
(CleanRL's benchmark: 500,000 steps, mean and standard deviation over seeds of the episodes at the end of training).
*Training* is the mean return of episodes in the last twentieth of the training, *greedy* that of 20 episodes of the
finished agent; +/- is the standard deviation between agents. Algorithms without published marks run by their names
only (`--case sac`). Times are for a step of one agent. `--smoke` runs a few steps of two agents.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np

from benchmarks.harness import Case, Options, Report, Times
from chainrule.agents import algorithms, envs
from chainrule.agents.evaluation.statistics import interval
from chainrule.agents.learning import loop
from chainrule.agents.learning.base import Learner
from chainrule.agents.training.judging import judge

SMOKE = True
AGENTS = int(os.environ.get("MARK_AGENTS", "16"))
_PIECES = 20
"""Calls that a training is cut into: the last of them is what *training* is about."""


@final
@dataclass(frozen=True)
class _Mark:
    """An environment, and what was published for it."""

    env: str
    published: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    """The algorithm's own number where there is none."""


_FOUR = {"environments": 4, "length": 128}
"""Worlds and steps of the published PPO, which by default differ on accelerators."""
MARKS: dict[str, tuple[_Mark, ...]] = {
    "ppo": (
        _Mark("cartpole", "490.0 +/- 6.1", _FOUR),
        _Mark("acrobot", "-86.4 +/- 1.3", _FOUR),
        _Mark("mountain-car", "-200.0 +/- 0.0", _FOUR),
    ),
    "dqn": (
        _Mark("cartpole", "488.7 +/- 16.1"),
        _Mark("acrobot", "-91.5 +/- 7.2"),
        _Mark("mountain-car", "-195.0 +/- 8.5"),
    ),
    "a2c": (_Mark("cartpole"),),
    "actor-critic": (_Mark("cartpole"),),
    "reinforce": (_Mark("cartpole"),),
    "trpo": (_Mark("cartpole"),),
    "pqn": (_Mark("cartpole"),),
    "sac": (_Mark("pendulum"),),
}
CHOICES = tuple(MARKS)


def run(options: Options) -> Report:
    """Train and judge what was asked for."""
    options.chosen([])  # nobody to compare with: the published figures are
    cases, notes = [], []
    for name, marks in MARKS.items():
        if options.case != name and (options.case or not marks[0].published):
            continue
        for mark in marks[: 1 if options.smoke else None]:
            case, note = _trained(name, mark, options.smoke)
            cases.append(case)
            notes.append(note)
            print(note, flush=True)
    return Report(tuple(cases), notes=tuple(notes), versions={"device": jax.devices()[0].device_kind})


def _trained(name: str, mark: _Mark, smoke: bool) -> tuple[Case, str]:
    entry = algorithms.entry(name)
    env = envs.make(mark.env)
    settings = {**mark.settings, **entry.toy} if smoke else mark.settings
    steps = 2 * entry.toy_steps if smoke else mark.steps or entry.steps
    agents = 2 if smoke else AGENTS
    learner = entry.build(algorithms.configure(name, **settings), env, steps)
    states, at_end, compiled, seconds = _to_the_end(learner, steps, agents)
    greedy = judge(learner, env, states, jax.random.key(1), 20).by_agent
    label = f"{name} on {mark.env}, {agents} agents"
    said = (
        f"{label}, {steps:,} steps each: training {_spread(at_end)}, greedy {_spread(greedy)}, "
        f"interquartile mean {interval(greedy)}"
    )
    return (
        Case(f"{label}, a step", (Times("chainrule", compiled, seconds),), 0),
        said + (f" (published {mark.published})" if mark.published else ""),
    )


def _to_the_end(
    learner: Learner[Any], steps: int, agents: int
) -> tuple[Any, np.ndarray, float, tuple[float, ...]]:
    """States after training, returns at its end by agent, seconds to compile, and for a step in each piece."""
    total = loop.whole_iterations(learner, steps)
    piece = -(-total // _PIECES)
    states = loop.start(learner, jax.random.key(0), seeds=agents)
    began = time.perf_counter()
    jax.block_until_ready(loop.run_iterations(learner, states, 1, most=piece))
    compiled = time.perf_counter() - began
    seconds: list[float] = []
    metrics: dict[str, np.ndarray] = {}
    for done in range(0, total, piece):
        count = min(piece, total - done)
        began = time.perf_counter()
        states, metrics = loop.run_iterations(learner, states, count, most=piece)
        jax.block_until_ready(states)
        seconds.append((time.perf_counter() - began) / (count * learner.steps_per_iteration))
    return states, np.nanmean(metrics["return_mean"], axis=1), compiled, tuple(seconds)


def _spread(returns: np.ndarray) -> str:
    return f"{returns.mean():.1f} +/- {returns.std(ddof=1):.1f}"


__all__ = ["run"]
