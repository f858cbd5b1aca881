"""Pictures of a run of agents: how it learnt, what it does, what it has learnt."""

from collections.abc import Sequence

import jax
import numpy as np

from chainrule.agents.evaluation import pictures
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.evaluation.films import film, slides
from chainrule.agents.training.run import AgentRun
from chainrule.core import random
from chainrule.core.pictures import Lines, Picture
from chainrule.train import history

_FEWEST = 2
"""Evaluations that make a curve."""


def learning(run: AgentRun) -> list[Picture]:
    """Returns of all agents at the evaluations, with what random and optimal actions earn, and every other number."""
    columns = run.metrics
    steps, mean = history.curve(columns, "return_mean", "val")
    found: list[Picture] = []
    if len(steps) >= _FEWEST:
        seeds = run.settings.seeds
        each = [history.curve(columns, f"return.{agent}", "val")[1] for agent in range(seeds)]
        returns = np.stack(each if seeds > 1 else [mean])
        known, clock = run.baselines, run.seconds
        found += pictures.learning_curves(
            steps,
            returns,
            seconds=np.array([clock[step] for step in steps]) if set(steps) <= clock.keys() else None,
            lines=None if known is None else known.lines,
            alarms=run.alarms,
            what=run.measure,
        )
    for name in [name for name in columns if name not in ("step", "split")]:
        x, y = history.curve(columns, name)
        if len(x) >= _FEWEST and np.ptp(y) and name != "return_mean":
            words = name.replace("_", " ")
            found.append(Lines(name, words.capitalize(), "steps", words, {name: (x, y)}))
    return found


def episodes(run: AgentRun) -> Sequence[Picture]:
    """The median episode as a film and step by step; that one, the best and the worst are kept as recordings."""
    if run.of_game:
        return ()
    kept = run.recordings
    for name, recording in kept.items():
        recording.save(run.path / "episodes" / name)
    if not kept["median"].can_be_drawn:
        return ()
    shown = kept["median"]
    return (
        film(shown, name="film", title="The median episode"),
        slides(shown, name="film-steps", title="The same, step by step"),
    )


def learnt(run: AgentRun) -> Sequence[Picture]:
    """Returns of the best agent, the course of an episode, and values and actions over the world where it has a map."""
    if run.of_game:
        return ()
    keys = jax.random.split(random.key(run.settings.seed, "score"), max(run.settings.eval_episodes, 2))
    policy, env = run.policy(), run.judged_in()
    judged = {name: evaluate(policy, env, keys, greedy=name == "greedy") for name in ("greedy", "exploring")}
    return pictures.pictures(policy, env, judged, run.recordings, run.gamma)


__all__ = ["episodes", "learning", "learnt"]
