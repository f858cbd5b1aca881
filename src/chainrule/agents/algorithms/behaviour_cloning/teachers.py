"""Whose episodes are learnt from: those in a folder, of a trained run, or of the best actions where they are known."""

from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.agents.algorithms.behaviour_cloning.config import CloningConfig
from chainrule.agents.algorithms.starting import opened
from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.agents.envs.wrappers import OneHot
from chainrule.agents.evaluation.recording import Recording, record
from chainrule.agents.learning.base import Decision, Policy
from chainrule.agents.mdp import enumerated
from chainrule.agents.records.episodes import read_episodes
from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Tree


@final
class SolvedPolicy(Policy):
    """An optimal action for every state, which is seen as a vector with a one where its number is."""

    actions: Int[Array, " states"]
    values: Float[Array, " states"]
    count: int

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del key, greedy, legal  # there is nothing to explore
        number = observation.argmax()
        action = self.actions[number]
        return Decision(action, memory, self.values[number], jax.nn.one_hot(action, self.count))


def episodes_for(config: CloningConfig, env: Environment[Any]) -> list[Recording]:
    """The episodes that these settings name, in the environment as the learner sees it."""
    if config.records and config.teacher:
        raise ArgumentError(
            "records and teacher: both say where episodes come from", remedy="give one of them"
        )
    if config.records:
        return read_episodes(env, config.records)
    keys = jax.random.split(random.key(0, "teacher"), config.episodes)
    if config.teacher:
        return record(*_taught_by(config.teacher, env), keys)
    return record(_solved(config, env), env, keys)


def _taught_by(teacher: str, env: Environment[Any]) -> tuple[Policy, Environment[Any]]:
    run = opened(teacher)
    if run.of_game:
        raise ArgumentError(f"teacher={teacher}: it plays a game", remedy="games are learnt by imitation")
    world = run.judged_in()
    spaces = [
        (type(space), space.shape, space.dtype)
        for one in (world, env)
        for space in (one.observation_space, one.action_space)
    ]
    if spaces[:2] != spaces[2:]:
        raise ArgumentError(
            f"teacher={teacher}: it sees {world.observation_space.shape}, or acts, in another way than is to be learnt",
            remedy=f"use its environment, {run.config['env']['name']}, with the same wrappers",
        )
    return run.policy(), world


def _solved(config: CloningConfig, env: Environment[Any]) -> SolvedPolicy:
    world = env.env if isinstance(env, OneHot) else env
    if not isinstance(world, FiniteEnvironment):
        raise ArgumentError(
            "behaviour-cloning needs somebody to learn from: here the best actions cannot be computed",
            remedy="name a run, teacher=RUN, or a folder of recorded episodes, records=runs/RUN/episodes; "
            "or use ppo, which needs nobody",
        )
    found = enumerated(world).solve(config.gamma)
    return SolvedPolicy(
        jnp.asarray(found.policy, jnp.int32), jnp.asarray(found.values, jnp.float32), world.actions
    )


__all__ = ["SolvedPolicy", "episodes_for"]
