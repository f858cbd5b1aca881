"""Wrappers that change what is done: actions repeated, and actions that stick."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.wrappers.base import InnerState, Unseen
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree


@final
class ActionRepeat(Unseen[InnerState]):
    """Every action is done `count` times, or until the episode is over; rewards add up."""

    env: Environment[Any]
    count: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        whole("ActionRepeat", "count", self.count)

    def around(self, inner: Any) -> InnerState:
        return InnerState(inner)

    def advance(self, key: Key, state: InnerState, action: Array, params: Tree) -> TimeStep:
        keys = jax.random.split(key, self.count)
        first = self.env.advance(keys[0], state.inner, action, params)

        def again(so_far: TimeStep, one: Key) -> tuple[TimeStep, None]:
            after = self.env.advance(one, so_far.state, action, params)
            after = after._replace(reward=so_far.reward + after.reward)
            over = so_far.terminated | so_far.truncated
            return jax.tree.map(lambda old, new: jnp.where(over, old, new), so_far, after), None

        after, _ = jax.lax.scan(again, first, keys[1:])
        return after._replace(state=InnerState(after.state))


class StickyState(NamedTuple):
    """The state inside, the last action, and whether there was one."""

    inner: Any
    action: Array
    acted: Array


@final
class StickyActions(Unseen[StickyState]):
    """The last action is done again, whatever was chosen, with this probability (Machado et al., 2018)."""

    env: Environment[Any]
    probability: float = 0.25

    def __check_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ArgumentError(f"StickyActions(probability={self.probability}): it must lie between 0 and 1")

    def around(self, inner: Any) -> StickyState:
        space = self.env.action_space
        return StickyState(inner, jnp.zeros(space.shape, space.dtype), jnp.zeros((), bool))

    def advance(self, key: Key, state: StickyState, action: Array, params: Tree) -> TimeStep:
        stick_key, step_key = jax.random.split(key)
        sticks = state.acted & (jax.random.uniform(stick_key) < self.probability)
        action = jnp.where(sticks, state.action, action.astype(state.action.dtype))
        after = self.env.advance(step_key, state.inner, action, params)
        return after._replace(state=StickyState(after.state, action, jnp.ones((), bool)))


__all__ = ["ActionRepeat", "StickyActions", "StickyState"]
