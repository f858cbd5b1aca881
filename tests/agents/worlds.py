"""Small environments whose values are known, for tests of algorithms."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.spaces import Box, Discrete, Space
from chainrule.core.types import Array, Int, Key


@final
class OneStep(Environment[Array]):
    """Every episode has one step with a reward of 1, and then ends or is cut off."""

    truncates: Array | bool = eqx.field(converter=jnp.asarray)
    """An array, so that both kinds of end are one compiled program."""
    actions: Space = Discrete(2)
    params: tuple[()] = ()

    @property
    def observation_space(self) -> Box:
        return Box(-1, 1, (2,))

    @property
    def action_space(self) -> Space:
        return self.actions

    def begin(self, key: Key, params: Any) -> tuple[Array, Array]:
        del key, params
        return jnp.zeros(()), jnp.ones(2)

    def advance(self, key: Key, state: Array, action: Array, params: Any) -> TimeStep:
        del key, action, params
        cut = jnp.asarray(self.truncates)
        return TimeStep(state, jnp.ones(2), jnp.ones(()), ~cut, cut, {})


class CorridorState(NamedTuple):
    """Where, and how many steps so far."""

    at: Int[Array, ""]
    t: Int[Array, ""]


@final
class Corridor(Environment[CorridorState]):
    """Three squares in a row; right of the last lies the end with a reward of 1, a step costs 0.1.

    Going left from the first square stays there; an episode starts anywhere and is cut off after ten steps. With
    discount g the best values of squares are v2 = 0.9, v1 = g v2 - 0.1, v0 = g v1 - 0.1, and going left from square i
    is worth g v(i-1) - 0.1.
    """

    params: tuple[()] = ()

    @property
    def observation_space(self) -> Box:
        return Box(0, 1, (3,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: Key, params: Any) -> tuple[CorridorState, Array]:
        del params
        at = Discrete(3).sample(key)
        return CorridorState(at, jnp.zeros((), jnp.int32)), _seen(at)

    def advance(self, key: Key, state: CorridorState, action: Array, params: Any) -> TimeStep:
        del key, params
        at = jnp.maximum(state.at + 2 * action - 1, 0).astype(jnp.int32)
        t = state.t + 1
        terminated = at == 3
        reward = terminated.astype(jnp.float32) - 0.1
        return TimeStep(CorridorState(at, t), _seen(at), reward, terminated, (t >= 10) & ~terminated, {})

    @staticmethod
    def values(gamma: float) -> list[list[float]]:
        """The best values of (left, right) in every square."""
        v2 = 0.9
        v1 = gamma * v2 - 0.1
        v0 = gamma * v1 - 0.1
        return [[gamma * v0 - 0.1, v0], [gamma * v0 - 0.1, v1], [gamma * v1 - 0.1, v2]]


def _seen(at: Array) -> Array:
    return (at == jnp.arange(3)).astype(jnp.float32)


__all__ = ["Corridor", "CorridorState", "OneStep"]
