"""Pictures of a run of agents: how it learnt, what it does, what it has learnt."""

import shutil
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.planes import HasPlane
from chainrule.agents.envs.wrappers.base import unwrapped
from chainrule.agents.evaluation import pictures
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.evaluation.films import film, slides
from chainrule.agents.evaluation.recording import Recording, record
from chainrule.agents.learning.base import Policy
from chainrule.agents.training.run import AgentRun
from chainrule.core import random
from chainrule.core.pictures import Lines, Picture
from chainrule.core.types import Array
from chainrule.train import history

_STEP = "step-"
"""Before the number of a checkpoint, in the names of folders."""
_EXPLORING = 8
"""Episodes whose ways make a map of visits."""
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
    """The median episode as a film and step by step.

    That one, the best and the worst are kept as recordings, for every checkpoint.
    """
    if run.of_game:
        return ()
    kept, folder = run.recordings, run.path / "episodes"
    at_steps = {f"{_STEP}{step}": step for step in run.checkpoints if step != run.step}
    for former in folder.glob(f"{_STEP}*"):
        if former.is_dir() and not former.is_symlink() and former.name not in at_steps:
            shutil.rmtree(former)  # its checkpoint is no longer kept
    for name, recording in kept.items():
        recording.save(folder / name)
    for name, step in at_steps.items():
        for which, recording in run.recordings_at(step).items():
            recording.save(folder / name / which)
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
    return pictures.pictures(
        policy,
        env,
        judged,
        run.recordings,
        run.gamma,
        earned=not run.wrappers.change_rewards,
        explored=exploring(policy, env, keys),
    )


def exploring(policy: Policy, env: Environment[Any], keys: Array) -> dict[str, Recording]:
    """Episodes in which an agent explores, where a map can show where it comes; else none."""
    if not isinstance(unwrapped(env), HasPlane):
        return {}
    return {
        str(number): one for number, one in enumerate(record(policy, env, keys[:_EXPLORING], greedy=False))
    }


__all__ = ["episodes", "exploring", "learning", "learnt"]
