"""Wrappers about episodes: how long they may be, and what was earned in them."""

from typing import Any, NamedTuple, final

import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.wrappers.base import Unseen
from chainrule.core.checks import whole
from chainrule.core.types import Array, Float, Int, Key, Tree


class TimedState(NamedTuple):
    """The state inside, and how many steps the episode has had."""

    inner: Any
    t: Int[Array, ""]


@final
class TimeLimit(Unseen[TimedState]):
    """Episodes are cut off after `limit` steps, unless they end with the last one."""

    env: Environment[Any]
    limit: int

    def __check_init__(self) -> None:
        whole("TimeLimit", "limit", self.limit)

    def around(self, inner: Any) -> TimedState:
        return TimedState(inner, jnp.zeros((), jnp.int32))

    def advance(self, key: Key, state: TimedState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        t = state.t + 1
        truncated = (after.truncated | (t >= self.limit)) & ~after.terminated
        return after._replace(state=TimedState(after.state, t), truncated=truncated)


class LogState(NamedTuple):
    """The state inside, and what the episode has earned in how many steps."""

    inner: Any
    earned: Float[Array, ""]
    length: Int[Array, ""]


@final
class EpisodeLog(Unseen[LogState]):
    """Says in `info` what the episode has earned so far and how long it is: at its end, its return and its length."""

    env: Environment[Any]

    def around(self, inner: Any) -> LogState:
        return LogState(inner, jnp.zeros(()), jnp.zeros((), jnp.int32))

    def advance(self, key: Key, state: LogState, action: Array, params: Tree) -> TimeStep:
        after = self.env.advance(key, state.inner, action, params)
        earned, length = state.earned + after.reward, state.length + 1
        info = {**after.info, "episode_return": earned, "episode_length": length}
        return after._replace(state=LogState(after.state, earned, length), info=info)


__all__ = ["EpisodeLog", "LogState", "TimeLimit", "TimedState"]
