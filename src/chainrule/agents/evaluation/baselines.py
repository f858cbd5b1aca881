"""Baselines: what an agent has to be compared with, from below and from above.

From below a policy that chooses at random, measured in the same way as the agent; from above the best there is, where
the environment has so few states that it can be solved exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.agents.envs.spaces import Discrete, Space
from chainrule.agents.envs.wrappers import OneHot
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.evaluation.watch import Facts
from chainrule.agents.learning.base import Decision, Policy
from chainrule.agents.mdp import optimal_return
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree

_MOST_STEPS = 1_000
"""Of a random episode: a baseline must not take longer than what it is compared with."""


@final
class RandomPolicy(Policy):
    """Every action with the same probability, whatever is seen; only legal ones where some are not."""

    actions: Space

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del observation, greedy  # there is no best it knows
        none = jnp.full((), jnp.nan)
        if not isinstance(self.actions, Discrete):
            return Decision(self.actions.sample(key), memory, none, jnp.zeros(self.actions.shape))
        allowed = jnp.ones(self.actions.n, bool) if legal is None else legal
        action = jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))
        return Decision(action, memory, none, allowed / allowed.sum())


@final
@dataclass(frozen=True)
class Baselines:
    """Returns of random and of optimal actions in an environment."""

    random: float
    """Mean return of random actions, measured."""
    random_error: float
    """Its standard error."""
    optimal: float | None
    """The largest expected return, computed; None where there are too many states."""
    rewards: tuple[float, float]
    """The lowest and the highest reward that there are in environments of few states, else that random actions met."""
    rewards_known: bool
    """Whether these are all rewards that there are."""

    @property
    def lines(self) -> dict[str, float]:
        """Returns by name, to be drawn beside those of an agent."""
        return {"random": self.random} | ({} if self.optimal is None else {"optimal": self.optimal})


def baselines(env: Environment[Any], keys: Array) -> Baselines:
    """What random actions earn in the episodes of these keys, and what the best there are would earn.

    >>> from chainrule.agents import envs
    >>> baselines(envs.make("cliff-walking"), jax.random.split(jax.random.key(0), 20)).optimal
    -13.0
    """
    found = evaluate(RandomPolicy(env.action_space), env, keys, greedy=False, limit=_MOST_STEPS)
    returns = np.asarray(found.returns, np.float64)
    error = float(returns.std(ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else 0.0
    rewards = float(np.asarray(found.lowest).min()), float(np.asarray(found.highest).max())
    optimal, exact = None, False
    world = env.env if isinstance(env, OneHot) else env  # the same decisions, seen as they are
    if isinstance(world, FiniteEnvironment):
        optimal, rewards, exact = _optimal(world), _rewards(world), True
    return Baselines(float(returns.mean()), error, optimal, rewards, exact)


def facts(
    env: Environment[Any],
    known: Baselines,
    settings: Mapping[str, Any],
    solved: float | None = None,
    steps: int | None = None,
) -> Facts:
    """What the stability watch can make use of: the problem, its baselines, and the settings of the algorithm.

    `solved` is the mean return that counts as solved; else the optimum does, where it is known. `steps` are those of
    the whole run, by which some alarms know when something should have been learnt.
    """
    space = env.action_space
    return Facts(
        actions=space.n if isinstance(space, Discrete) else None,
        gamma=settings.get("gamma"),
        rewards=known.rewards,
        rewards_known=known.rewards_known,
        random_return=known.random,
        random_error=known.random_error,
        solved=known.optimal if solved is None else solved,
        batch=settings.get("batch"),
        buffer=settings.get("buffer"),
        learning_start=settings.get("learning_start"),
        steps=steps,
        sayable=(settings["lowest"], settings["highest"])
        if settings.get("returns") == "categorical"
        else None,
    )


def _optimal(env: FiniteEnvironment) -> float | None:
    try:
        return optimal_return(env)
    except ArgumentError:  # too many states
        return None


def _rewards(env: FiniteEnvironment) -> tuple[float, float]:
    """The lowest and the highest reward of all outcomes that can be."""

    def ends(number: Array, action: Array) -> tuple[Array, Array]:
        possible = env.outcomes(number, action, env.params)
        can_be = possible.probability > 0
        return (
            jnp.where(can_be, possible.reward, jnp.inf).min(),
            jnp.where(can_be, possible.reward, -jnp.inf).max(),
        )

    every = jax.vmap(jax.vmap(ends, (None, 0)), (0, None))
    low, high = jax.jit(every)(jnp.arange(env.states), jnp.arange(env.actions))
    return float(low.min()), float(high.max())


__all__ = ["Baselines", "RandomPolicy", "baselines", "facts"]
