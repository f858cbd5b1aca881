"""Wrappers that change what is seen: stacked, normalised, or whole numbers as vectors."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete
from chainrule.agents.envs.wrappers.base import InnerState, Wrapper
from chainrule.agents.envs.wrappers.moments import SeenMoments, deviation, no_moments, updated
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree

_MOST = 10.0
"""Deviations from the mean, at most: what was never seen before should not blind a network."""


class StackState(NamedTuple):
    """The state inside, and the last observations."""

    inner: Any
    seen: Array


@final
class FrameStack(Wrapper[StackState]):
    """The last `count` observations along the last axis, the newest last; the first of an episode is copied."""

    env: Environment[Any]
    count: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        whole("FrameStack", "count", self.count)
        _boxed("FrameStack", self.env)

    @property
    def observation_space(self) -> Box:
        inside = _boxed("FrameStack", self.env)
        low, high = (np.concatenate([end] * self.count, -1) for end in (inside.low, inside.high))
        return Box(low, high)

    def begin(self, key: Key, params: Tree) -> tuple[StackState, Array]:
        inner, first = self.env.begin(key, params)
        seen = self._copies(first)
        return StackState(inner, seen), seen

    def carried_over(
        self, ended: StackState, fresh: StackState, first: Array, over: Array
    ) -> tuple[StackState, Array]:
        newest = first[..., -(first.shape[-1] // self.count) :]
        inner, newest = self.env.carried_over(ended.inner, fresh.inner, newest, over)
        seen = self._copies(newest)
        return StackState(inner, seen), seen

    def advance(self, key: Key, state: StackState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        size = after.observation.shape[-1]
        seen = jnp.concatenate([state.seen[..., size:], after.observation], -1)
        return after._replace(state=StackState(after.state, seen), observation=seen)

    def _copies(self, first: Array) -> Array:
        return jnp.concatenate([first] * self.count, -1)


class NormalizedState(NamedTuple):
    """The state inside, the last observation as it was, and the moments of all of them."""

    inner: Any
    raw: Array
    moments: SeenMoments


@final
class NormalizeObservation(Wrapper[NormalizedState]):
    """Observations in deviations from their mean so far; the moments are part of the state and outlive episodes.

    With `moments`, these are used from the beginning and never change: how an agent is judged.
    """

    env: Environment[Any]
    moments: SeenMoments | None = None

    def __check_init__(self) -> None:
        _boxed("NormalizeObservation", self.env)

    @property
    def observation_space(self) -> Box:
        return Box(-_MOST, _MOST, self.env.observation_space.shape)

    def begin(self, key: Key, params: Tree) -> tuple[NormalizedState, Array]:
        inner, raw = self.env.begin(key, params)
        before = no_moments(raw.shape) if self.moments is None else self.moments
        return self._normalized(inner, raw, before)

    def carried_over(
        self, ended: NormalizedState, fresh: NormalizedState, first: Array, over: Array
    ) -> tuple[NormalizedState, Array]:
        del first
        inner, raw = self.env.carried_over(ended.inner, fresh.inner, fresh.raw, over)
        return self._normalized(inner, raw, ended.moments)

    def advance(self, key: Key, state: NormalizedState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        here, seen = self._normalized(after.state, after.observation, state.moments)
        return after._replace(state=here, observation=seen)

    def _normalized(self, inner: Any, raw: Array, before: SeenMoments) -> tuple[NormalizedState, Array]:
        moments = updated(before, raw) if self.moments is None else before
        return NormalizedState(inner, raw, moments), self.normalized(raw, moments)

    @staticmethod
    def normalized(raw: Array, moments: SeenMoments) -> Array:
        """An observation in deviations from the mean."""
        return jnp.clip((raw - moments.mean) / deviation(moments), -_MOST, _MOST)


@final
class OneHot(Wrapper[InnerState]):
    """Whole numbers as vectors with a one where the number is; several numbers one after the other."""

    env: Environment[Any]

    def __check_init__(self) -> None:
        space = self.env.observation_space
        if not isinstance(space, Discrete | MultiDiscrete):
            raise ArgumentError(
                f"OneHot: observations are {type(space).__name__}, not whole numbers",
                remedy="vector_observations(env) wraps only what needs it",
            )

    @property
    def observation_space(self) -> Box:
        return Box(0, 1, (sum(self._sizes),))

    @property
    def _sizes(self) -> tuple[int, ...]:
        space = self.env.observation_space
        assert isinstance(space, Discrete | MultiDiscrete)
        return (space.n,) if isinstance(space, Discrete) else space.ns

    def begin(self, key: Key, params: Tree) -> tuple[InnerState, Array]:
        inner, first = self.env.begin(key, params)
        return InnerState(inner), self._vector(first)

    def carried_over(
        self, ended: InnerState, fresh: InnerState, first: Array, over: Array
    ) -> tuple[InnerState, Array]:
        inner, number = self.env.carried_over(ended.inner, fresh.inner, self._numbers(first), over)
        return InnerState(inner), self._vector(number)

    def advance(self, key: Key, state: InnerState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        return after._replace(state=InnerState(after.state), observation=self._vector(after.observation))

    def _numbers(self, vector: Array) -> Array:
        ends = np.cumsum(self._sizes)[:-1]
        each = [part.argmax().astype(jnp.int32) for part in jnp.split(vector, ends)]
        return jnp.stack(each).reshape(self.env.observation_space.shape)

    def _vector(self, numbers: Array) -> Array:
        each = jnp.atleast_1d(numbers)
        return jnp.concatenate([jax.nn.one_hot(each[i], size) for i, size in enumerate(self._sizes)])


def vector_observations(env: Environment[Any]) -> Environment[Any]:
    """The environment with observations that are arrays of real numbers, as networks take them.

    >>> from chainrule.agents.envs import make
    >>> vector_observations(make("frozen-lake")).observation_space.shape
    (16,)
    >>> vector_observations(make("cartpole")).observation_space.shape
    (4,)
    """
    return env if isinstance(env.observation_space, Box) else OneHot(env)


def _boxed(where: str, env: Environment[Any]) -> Box:
    space = env.observation_space
    if not isinstance(space, Box) or not space.shape:
        raise ArgumentError(
            f"{where}: observations are {type(space).__name__}, not arrays of real numbers",
            remedy="wrap the environment with OneHot first",
        )
    return space


__all__ = [
    "FrameStack",
    "NormalizeObservation",
    "NormalizedState",
    "OneHot",
    "StackState",
    "vector_observations",
]
