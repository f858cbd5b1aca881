"""Wrappers: an environment around an environment, which changes what is seen, done or earned."""

import abc
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax

from chainrule.agents.envs.base import Environment, HasLegalActions
from chainrule.agents.envs.spaces import Space
from chainrule.core.types import Array, Tree

WrapperState = TypeVar("WrapperState")


class InnerState(NamedTuple):
    """The state of a wrapper that has none of its own."""

    inner: Any


class Wrapper(Environment[WrapperState]):
    """An environment around `env`; its state is a NamedTuple with the state of `env` as `inner`."""

    env: eqx.AbstractVar[Environment[Any]]

    @property
    @final
    def params(self) -> Tree:
        """The numbers of the world inside."""
        return self.env.params

    @property
    def observation_space(self) -> Space:
        """Default: what is seen inside."""
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        """Default: what can be done inside."""
        return self.env.action_space


class Unseen(Wrapper[WrapperState]):
    """A wrapper that changes nothing about what is seen."""

    @abc.abstractmethod
    def around(self, inner: Any) -> WrapperState:
        """The state in which an episode begins, around the one inside."""

    @final
    def begin(self, key: Any, params: Tree) -> tuple[WrapperState, Array]:
        inner, first = self.env.begin(key, params)
        return self.around(inner), first

    @final
    def carried_over(self, ended: Any, fresh: Any, first: Array, over: Array) -> tuple[WrapperState, Array]:
        inner, first = self.env.carried_over(ended.inner, fresh.inner, first, over)
        return self.handed_on(ended, fresh._replace(inner=inner)), first

    def handed_on(self, ended: WrapperState, fresh: WrapperState) -> WrapperState:
        """Default: nothing of one's own outlives an episode."""
        del ended
        return fresh


def innermost(env: Environment[Any], state: Any) -> tuple[Environment[Any], Any]:
    """The environment inside all wrappers, and its state: what can be drawn.

    >>> from chainrule.agents.envs import make
    >>> from chainrule.agents.envs.wrappers import OneHot
    >>> type(innermost(OneHot(make("chain")), InnerState("state"))[0]).__name__
    'ChainWalk'
    """
    while isinstance(env, Wrapper):
        env, state = env.env, state.inner
    return env, state


def unwrapped(env: Environment[Any]) -> Environment[Any]:
    """The environment inside all wrappers."""
    while isinstance(env, Wrapper):
        env = env.env
    return env


def legal_actions(env: Environment[Any], state: Any) -> Array | None:
    """Which actions are legal inside of all wrappers; None where all of them always are."""
    inside, own = innermost(env, state)
    return inside.legal(own) if isinstance(inside, HasLegalActions) else None


def legal_in_worlds(env: Environment[Any], states: Any) -> Array | None:
    """The same for worlds side by side."""
    inside, own = innermost(env, states)
    return jax.vmap(inside.legal)(own) if isinstance(inside, HasLegalActions) else None


__all__ = [
    "InnerState",
    "Unseen",
    "Wrapper",
    "WrapperState",
    "innermost",
    "legal_actions",
    "legal_in_worlds",
    "unwrapped",
]
