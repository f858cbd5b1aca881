"""Environments with finitely many states, whose every step has one of few outcomes of known probability.

They say their outcomes instead of drawing one, so that they can be solved exactly (`chainrule.agents.mdp`) as well as
played: every row of the transition matrix is a call of `outcomes`.
"""

import abc
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.spaces import Discrete
from chainrule.core.types import Array, Float, Int, Key, Tree


class Outcomes(NamedTuple):
    """What may follow an action: one entry for each possibility; equal ones may stand apart."""

    probability: Float[Array, "outcomes"]
    successor: Int[Array, "outcomes"]
    reward: Float[Array, "outcomes"]
    terminated: Bool[Array, "outcomes"]


class FiniteState(NamedTuple):
    """Which state it is; and how many steps the episode has had."""

    number: Int[Array, ""]
    t: Int[Array, ""]


class FiniteEnvironment(Environment[FiniteState]):
    """States 0, 1, ..., n - 1, which are seen as they are; an episode is cut off after `params.limit` steps."""

    @property
    @abc.abstractmethod
    def states(self) -> int:
        """How many states there are."""

    @property
    @abc.abstractmethod
    def actions(self) -> int:
        """How many actions there are, the same in every state."""

    @abc.abstractmethod
    def start(self, params: Tree) -> Float[Array, "states"]:
        """How likely an episode begins in each state."""

    @abc.abstractmethod
    def outcomes(self, number: Int[Array, ""], action: Int[Array, ""], params: Tree) -> Outcomes:
        """What may follow an action in a state."""

    def state_name(self, number: int) -> str:
        """Default: a state is called by its number."""
        return str(number)

    def action_name(self, action: int) -> str:
        """Default: an action is called by its number."""
        return str(action)

    def limit(self, params: Tree) -> Array:
        """Default: steps after which an episode is cut off are a number of the world."""
        return jnp.asarray(params.limit)

    @property
    @final
    def observation_space(self) -> Discrete:
        return Discrete(self.states)

    @property
    @final
    def action_space(self) -> Discrete:
        return Discrete(self.actions)

    @final
    def begin(self, key: Key, params: Tree) -> tuple[FiniteState, Array]:
        number = drawn(key, self.start(params))
        return FiniteState(number, jnp.zeros((), jnp.int32)), number

    @final
    def advance(self, key: Key, state: FiniteState, action: Array, params: Tree) -> TimeStep:
        possible = self.outcomes(state.number, action, params)
        chosen = drawn(key, possible.probability)
        number, t = possible.successor[chosen].astype(jnp.int32), state.t + 1
        terminated = possible.terminated[chosen]
        truncated = (t >= self.limit(params)) & ~terminated
        reward = possible.reward[chosen].astype(jnp.float32)
        return TimeStep(FiniteState(number, t), number, reward, terminated, truncated, {})


def drawn(key: Key, probabilities: Float[Array, "n"]) -> Int[Array, ""]:
    """An index at random, by the inverse of the distribution function; impossible ones are never drawn."""
    reached = jnp.cumsum(probabilities)
    # Below the total even where sums of probabilities are rounded, so that the last one is never passed.
    threshold = jax.random.uniform(key) * reached[-1]
    return (reached <= threshold).sum().astype(jnp.int32)


__all__ = ["FiniteEnvironment", "FiniteState", "Outcomes", "drawn"]
