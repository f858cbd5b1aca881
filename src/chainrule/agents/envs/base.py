"""Environments: pure functions from a key, a state and an action to the next state and what is seen of it.

The numbers of a world (gravity, lengths) are arguments, so that a batch may hold different worlds; what shapes depend
on are static fields.
"""

import abc
from typing import Any, Generic, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.envs.drawing import Drawing
from chainrule.agents.envs.spaces import Space
from chainrule.core.types import Array, Key, Tree

State = TypeVar("State")


class TimeStep(NamedTuple):
    """What follows an action."""

    state: Any
    observation: Array
    reward: Array
    terminated: Array
    """A true end: nothing follows, so that the value of what follows is 0."""
    truncated: Array
    """Cut off, by a limit of time: it would have gone on, so that the value of `observation` stands for the rest."""
    info: dict[str, Array]


class Environment(eqx.Module, Generic[State]):
    """A world to act in; subclasses say how it begins and how it goes on."""

    @property
    @abc.abstractmethod
    def params(self) -> Tree:
        """The numbers of the world: a PyTree of numbers, used where a call is given none; most often a field."""

    @property
    @abc.abstractmethod
    def observation_space(self) -> Space:
        """What is seen."""

    @property
    @abc.abstractmethod
    def action_space(self) -> Space:
        """What can be done."""

    @abc.abstractmethod
    def begin(self, key: Key, params: Tree) -> tuple[State, Array]:
        """A first state, and what is seen of it."""

    @abc.abstractmethod
    def advance(self, key: Key, state: State, action: Array, params: Tree) -> TimeStep:
        """What follows an action; after an end it is undefined."""

    def carried_over(self, ended: State, fresh: State, first: Array, over: Array) -> tuple[State, Array]:
        """Default: a new episode owes nothing to the one that ended; what gathers statistics hands them on.

        It is asked after every step; only where the episode is `over` does the answer count.
        """
        del ended, over
        return fresh, first

    @final
    def reset(self, key: Key, params: Tree = None) -> tuple[State, Array]:
        """A first state, and what is seen of it, in the world that `params` describes."""
        return self.begin(key, self.params if params is None else params)

    @final
    def step(self, key: Key, state: State, action: Array, params: Tree = None) -> TimeStep:
        """The next state, what is seen of it, the reward, the two kinds of end, and further facts by name."""
        return self.advance(key, state, jnp.asarray(action), self.params if params is None else params)


class HasLegalActions(abc.ABC):
    """An environment in which not everything can be done at every moment."""

    @abc.abstractmethod
    def legal(self, state: Any) -> Array:
        """Which actions are legal: a truth value for each."""


class HasDrawing(abc.ABC):
    """An environment that can be looked at."""

    @abc.abstractmethod
    def render(self, state: Any, params: Tree = None) -> Drawing:
        """One state, with entries on the host; every drawing of an environment has the same size."""


class AutoResetStep(NamedTuple):
    """What follows an action where the next episode begins at once."""

    state: Any
    observation: Array
    """Of the state to act in next: where an episode has ended, the first of the next one."""
    reward: Array
    terminated: Array
    truncated: Array
    final_observation: Array
    """Of the state that followed, also where an episode ended with it: what truncated episodes are valued by."""
    info: dict[str, Array]


def advance_or_restart(
    env: Environment[State], key: Key, state: State, action: Array, params: Tree = None
) -> AutoResetStep:
    """A step, and a new episode where it ended one; a pure function, for `jax.vmap` and `jax.lax.scan`."""
    step_key, reset_key = jax.random.split(key)
    after = env.step(step_key, state, action, params)
    return or_restarted(env, after, *env.reset(reset_key, params))


def or_restarted(env: Environment[State], after: TimeStep, fresh: State, first: Array) -> AutoResetStep:
    """What follows a step: the new episode that begins with state `fresh` and observation `first` where it ended one.

    Beginnings do not depend on what happens before them, so that those of many steps can be made together.
    """
    over = after.terminated | after.truncated
    fresh, first = env.carried_over(after.state, fresh, first, over)

    def chosen(new: Array, old: Array) -> Array:
        return jnp.where(over, new, old)

    return AutoResetStep(
        jax.tree.map(chosen, fresh, after.state),
        chosen(first, after.observation),
        after.reward,
        after.terminated,
        after.truncated,
        after.observation,
        after.info,
    )


__all__ = [
    "AutoResetStep",
    "Environment",
    "HasDrawing",
    "HasLegalActions",
    "TimeStep",
    "advance_or_restart",
    "or_restarted",
]
