"""Temporal-difference prediction: learning what a policy's states are worth, a step at a time (Sutton, 1988)."""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, advance_or_restart
from chainrule.agents.learning import exploration
from chainrule.core import random
from chainrule.core.types import Array, Float, Key


def td_values(
    env: Environment[Any],
    policy: Float[Array, "states actions"],
    key: Key,
    steps: int,
    *,
    gamma: Any,
    alpha: Any = 1.0,
    power: Any = 0.6,
    trace: Any = 0.0,
) -> Float[Array, "states"]:
    """Values of the states under probabilities of actions, after `steps` steps: TD(0), or TD(lambda) with a trace.

    The step size of a state is alpha / visits^power. A pure function of arrays: `jax.jit` with `steps` static,
    `jax.vmap` over keys and rates.
    """
    begin_key, loop_key = jax.random.split(key)
    state, observation = env.reset(begin_key)
    nothing = jnp.zeros(len(policy))

    def step(carry: Any, number: Array) -> tuple[Any, None]:
        values, visits, eligible, state, here = carry
        act_key, env_key = jax.random.split(random.at(loop_key, number))
        moved = advance_or_restart(env, env_key, state, exploration.draw(act_key, policy[here]))
        visits = visits.at[here].add(1.0)
        alive = 1.0 - moved.terminated.astype(values.dtype)
        error = moved.reward + gamma * alive * values[moved.final_observation] - values[here]
        eligible = eligible.at[here].add(1.0)
        values = values + alpha / jnp.maximum(visits, 1.0) ** power * error * eligible
        over = moved.terminated | moved.truncated
        kept = jnp.where(over, 0.0, gamma * trace) * eligible
        return (values, visits, kept, moved.state, moved.observation), None

    first = (nothing, nothing, nothing, state, observation)
    return jax.lax.scan(step, first, jnp.arange(steps))[0][0]


__all__ = ["td_values"]
