"""Wrappers that change what is earned: clipped, scaled, or divided by how much returns vary."""

from typing import Any, NamedTuple, final

import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.wrappers.base import InnerState, Unseen
from chainrule.agents.envs.wrappers.moments import SeenMoments, deviation, no_moments, updated
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree


@final
class ClipReward(Unseen[InnerState]):
    """Rewards no smaller than `low` and no larger than `high`."""

    env: Environment[Any]
    low: float = -1.0
    high: float = 1.0

    def __check_init__(self) -> None:
        if self.low > self.high:
            raise ArgumentError(f"ClipReward(low={self.low}, high={self.high}): low must not lie above high")

    def around(self, inner: Any) -> InnerState:
        return InnerState(inner)

    def advance(self, key: Key, state: InnerState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        return after._replace(
            state=InnerState(after.state), reward=jnp.clip(after.reward, self.low, self.high)
        )


@final
class ScaleReward(Unseen[InnerState]):
    """Rewards times `scale`."""

    env: Environment[Any]
    scale: float

    def around(self, inner: Any) -> InnerState:
        return InnerState(inner)

    def advance(self, key: Key, state: InnerState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        return after._replace(state=InnerState(after.state), reward=after.reward * self.scale)


class EarningState(NamedTuple):
    """The state inside, the discounted sum of rewards so far, and the moments of all such sums."""

    inner: Any
    earned: Float[Array, ""]
    moments: SeenMoments


@final
class NormalizeReward(Unseen[EarningState]):
    """Rewards over the standard deviation of discounted returns so far, which outlives episodes."""

    env: Environment[Any]
    gamma: float = 0.99

    def __check_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ArgumentError(f"NormalizeReward(gamma={self.gamma}): it must lie between 0 and 1")

    def around(self, inner: Any) -> EarningState:
        return EarningState(inner, jnp.zeros(()), no_moments(()))

    def handed_on(self, ended: EarningState, fresh: EarningState) -> EarningState:
        return fresh._replace(moments=ended.moments)

    def advance(self, key: Key, state: EarningState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        earned = self.gamma * state.earned + after.reward
        moments = updated(state.moments, earned)
        reward = after.reward / deviation(moments)
        return after._replace(state=EarningState(after.state, earned, moments), reward=reward)


__all__ = ["ClipReward", "EarningState", "NormalizeReward", "ScaleReward"]
