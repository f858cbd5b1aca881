"""Gathering: blocks of steps of worlds side by side, under any rule of acting that looks at observations alone.

The loop over steps does what has to happen one after another: the rule, and the step of the world. Random numbers and
beginnings of episodes are made before it, for all steps of a block together.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, or_restarted
from chainrule.agents.envs.wrappers.base import legal_in_worlds
from chainrule.core.types import Array, Float, Int, Key, Tree

Rule = Callable[[Array, Array | None, Tree], Array]
"""(observations, legal actions where not all are, what `given` holds for this step) -> actions, one for each world."""


class RunningWorlds(NamedTuple):
    """Worlds side by side, between two steps; each entry leads with an axis of worlds."""

    state: Any
    observation: Array
    returns: Float[Array, " worlds"]
    """The sum of rewards of the episode so far."""
    lengths: Int[Array, " worlds"]
    """Its steps so far."""


class GatheredSteps(NamedTuple):
    """What happened, step by step; axes of time and worlds lead."""

    observation: Array
    action: Array
    reward: Float[Array, "time worlds"]
    terminated: Array
    truncated: Array
    following: Array
    """The observation after the step, also where an episode ended with it."""
    legal: Array | None
    """Actions that are legal after the step, where not all are."""


class EpisodeTotals(NamedTuple):
    """Episodes that go on or end with each step."""

    over: Array
    """Where an episode ended, in either way."""
    returns: Float[Array, "time worlds"]
    lengths: Int[Array, "time worlds"]


def begin_running(env: Environment[Any], count: int, key: Key) -> RunningWorlds:
    """Worlds in their first states."""
    state, observation = jax.vmap(env.reset)(jax.random.split(key, count))
    return RunningWorlds(state, observation, jnp.zeros(count), jnp.zeros(count, jnp.int32))


def one_step(env: Environment[Any]) -> GatheredSteps:
    """Shapes and types of one step of one world."""

    def step(key: Key) -> GatheredSteps:
        worlds = begin_running(env, 1, key)
        action = env.action_space.sample(key)
        given = jnp.zeros(1)
        _, steps, _ = gather_block(env, lambda *_: action[None], worlds, given, key)
        return jax.tree.map(lambda leaf: leaf[0, 0], steps)

    found: GatheredSteps = jax.eval_shape(step, jax.random.key(0))
    return found


def gather_block(
    env: Environment[Any], rule: Rule, worlds: RunningWorlds, given: Tree, key: Key
) -> tuple[RunningWorlds, GatheredSteps, EpisodeTotals]:
    """As many steps of every world as the leading axis of `given` is long."""
    length, count = len(jax.tree.leaves(given)[0]), len(worlds.returns)
    step_key, reset_key = jax.random.split(key)
    step_keys = jax.random.split(step_key, (length, count))
    fresh = jax.vmap(jax.vmap(env.reset))(jax.random.split(reset_key, (length, count)))

    def step(worlds: RunningWorlds, now: Any) -> tuple[RunningWorlds, tuple[GatheredSteps, EpisodeTotals]]:
        given, keys, (fresh, first) = now
        action = rule(worlds.observation, legal_in_worlds(env, worlds.state), given)
        after = jax.vmap(env.step)(keys, worlds.state, action)
        moved = jax.vmap(or_restarted, in_axes=(None, 0, 0, 0))(env, after, fresh, first)
        over = moved.terminated | moved.truncated
        returns, lengths = worlds.returns + moved.reward, worlds.lengths + 1
        onward = RunningWorlds(
            moved.state, moved.observation, jnp.where(over, 0, returns), jnp.where(over, 0, lengths)
        )
        seen = GatheredSteps(
            worlds.observation,
            action,
            moved.reward,
            moved.terminated,
            moved.truncated,
            moved.final_observation,
            legal_in_worlds(env, after.state),
        )
        return onward, (seen, EpisodeTotals(over, returns, lengths))

    worlds, (steps, episodes) = jax.lax.scan(step, worlds, (given, step_keys, fresh))
    return worlds, steps, episodes


__all__ = [
    "EpisodeTotals",
    "GatheredSteps",
    "Rule",
    "RunningWorlds",
    "begin_running",
    "gather_block",
    "one_step",
]
