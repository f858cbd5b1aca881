"""Rollouts: stretches of experience from worlds side by side, gathered by one compiled loop.

The loop does only what has to happen step by step: the policy's network, a draw, a step of the world. Random numbers,
beginnings of episodes and values do not depend on the order of steps, so that they are computed for all of them
together, before and after.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, or_restarted
from chainrule.agents.envs.wrappers.base import legal_in_worlds
from chainrule.agents.learning.networks import ActorCritic
from chainrule.agents.learning.policies import ActionDistribution, vectors
from chainrule.core.types import Array, Float, Key, Tree


class Worlds(NamedTuple):
    """Worlds side by side, between two steps; each entry leads with an axis of worlds."""

    state: Any
    observation: Float[Array, "worlds inputs"]
    memory: Tree
    """Of the network, before it sees the observation."""
    first: Array
    """Whether the observation begins an episode."""
    returns: Array
    """The sum of rewards of the episode so far."""
    lengths: Array
    """Its steps so far."""


class Rollout(NamedTuple):
    """What happened, step by step; axes of time and worlds lead."""

    observations: Float[Array, "time worlds inputs"]
    first: Array
    drawn: Array
    """What was drawn for actions, see `ActionDistribution`."""
    legal: Array | None
    rewards: Float[Array, "time worlds"]
    terminated: Array
    truncated: Array
    final_observations: Float[Array, "time worlds inputs"]
    """What followed each step, also where an episode ended with it."""
    memory: Tree
    """Of the network before the first step."""
    episode_returns: Float[Array, "time worlds"]
    """Of the episode that goes on or ends with the step."""
    episode_lengths: Array

    @property
    def over(self) -> Array:
        """Where an episode ended, in either way."""
        return self.terminated | self.truncated


def begin_worlds(env: Environment[Any], network: ActorCritic, count: int, key: Key) -> Worlds:
    """Worlds in their first states."""
    state, observation = jax.vmap(env.reset)(jax.random.split(key, count))
    memory = jax.tree.map(lambda a: jnp.broadcast_to(a, (count, *a.shape)), network.start())
    return Worlds(
        state,
        vectors(observation),
        memory,
        jnp.ones(count, bool),
        jnp.zeros(count),
        jnp.zeros(count, jnp.int32),
    )


def gather(
    env: Environment[Any],
    network: ActorCritic,
    actions: ActionDistribution,
    worlds: Worlds,
    length: int,
    key: Key,
) -> tuple[Worlds, Rollout]:
    """So many steps of every world, with actions drawn from the policy."""
    count = worlds.first.shape[0]
    noise_key, step_key, reset_key = jax.random.split(key, 3)
    noise = actions.noise(noise_key, (length, count))
    step_keys = jax.random.split(step_key, (length, count))
    fresh, beginnings = jax.vmap(jax.vmap(env.reset))(jax.random.split(reset_key, (length, count)))

    def step(worlds: Worlds, given: tuple[Array, Array, Any, Array]) -> tuple[Worlds, Rollout]:
        noise, keys, fresh, beginning = given
        memory = jax.tree.map(
            lambda a: jnp.where(worlds.first.reshape(-1, *[1] * (a.ndim - 1)), 0, a), worlds.memory
        )
        numbers, memory = network.act(worlds.observation, memory)
        legal = legal_in_worlds(env, worlds.state)
        drawn = actions.draw(actions.masked(numbers, legal), noise)
        after = jax.vmap(env.step)(keys, worlds.state, actions.action(drawn))
        moved = jax.vmap(functools.partial(or_restarted, env))(after, fresh, beginning)
        over = moved.terminated | moved.truncated
        returns, lengths = worlds.returns + moved.reward, worlds.lengths + 1
        seen = Rollout(
            worlds.observation,
            worlds.first,
            drawn,
            legal,
            moved.reward,
            moved.terminated,
            moved.truncated,
            vectors(moved.final_observation),
            (),
            returns,
            lengths,
        )
        onward = Worlds(
            moved.state,
            vectors(moved.observation),
            memory,
            over,
            jnp.where(over, 0, returns),
            jnp.where(over, 0, lengths),
        )
        return onward, seen

    onward, seen = jax.lax.scan(step, worlds, (noise, step_keys, fresh, beginnings))
    return onward, seen._replace(memory=worlds.memory)


class EndedEpisodes(NamedTuple):
    """Episodes that ended lately: numbers that stay until the next ones end; zeros before the first."""

    # No NaN is kept: what is not finite in a state is looked for as the sign of a training that has gone wrong.
    return_mean: Float[Array, ""]
    length_mean: Float[Array, ""]

    @staticmethod
    def none() -> "EndedEpisodes":
        """Before any episode has ended."""
        return EndedEpisodes(jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32))

    def metrics(self) -> dict[str, Array]:
        """By the names that every algorithm has for them; not numbers before the first has ended."""
        known = self.length_mean > 0
        return {
            "return_mean": jnp.where(known, self.return_mean, jnp.nan),
            "episode_length": jnp.where(known, self.length_mean, jnp.nan),
        }

    def after(self, rollout: Rollout) -> "EndedEpisodes":
        """With the episodes that ended in a rollout, where there are any."""
        return self.with_ended(rollout.over, rollout.episode_returns, rollout.episode_lengths)

    def with_ended(self, over: Array, returns: Array, lengths: Array) -> "EndedEpisodes":
        """With the episodes that ended at some of these steps, where there are any."""
        count = over.sum()

        def mean(values: Array, before: Array) -> Array:
            return jnp.where(count > 0, jnp.where(over, values, 0).sum() / jnp.maximum(count, 1), before)

        return EndedEpisodes(mean(returns, self.return_mean), mean(lengths, self.length_mean))


__all__ = ["EndedEpisodes", "Rollout", "Worlds", "begin_worlds", "gather"]
