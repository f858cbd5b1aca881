"""Learners and policies: what an algorithm is to everything around it.

A learner is set up for one environment. Its state is a PyTree that holds everything it goes on from, so that stopping
and going on gives the same bits; one iteration gathers experience and learns from it. Both are pure functions, so that
whole trainings are compiled (`jax.lax.scan` over iterations), and many run side by side (`jax.vmap` over states).
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, final

import equinox as eqx

from chainrule.core.settings import Config
from chainrule.core.types import Array, Key, Tree

State = TypeVar("State")


class Decision(NamedTuple):
    """What a policy does, and what it thinks of it."""

    action: Array
    memory: Tree
    """To be given back with the next observation."""
    value: Array
    """What it expects from here on, not a number where it has no opinion."""
    preferences: Array
    """Of a finite set of actions: the probability of each, or its value where a policy knows only values;
    of continuous actions: the mean."""


class Policy(eqx.Module):
    """Observations to actions, one observation at a time; batches by `jax.vmap`."""

    @abc.abstractmethod
    def start(self) -> Tree:
        """The memory an episode begins with; `()` for a policy without one."""

    @abc.abstractmethod
    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        """What to do: the best it knows, or as it explores."""


class Learner(eqx.Module, Generic[State]):
    """An algorithm set up for an environment."""

    @property
    @abc.abstractmethod
    def steps_per_iteration(self) -> int:
        """Steps of the environment that one iteration takes."""

    @property
    @abc.abstractmethod
    def hyper(self) -> Tree:
        """Settings that are numbers (rates, discounts), as a NamedTuple: runs side by side may differ in them."""

    @abc.abstractmethod
    def begin(self, key: Key, hyper: Tree) -> State:
        """The state that training begins with; it holds `hyper` and all random keys that will be used."""

    @abc.abstractmethod
    def iterate(self, state: State) -> tuple[State, dict[str, Array]]:
        """Gather experience, learn from it, and say in numbers how that went: scalars, the same names every time."""

    @abc.abstractmethod
    def policy(self, state: State) -> Policy:
        """What has been learnt so far."""

    @final
    def start(self, key: Key, hyper: Tree = None) -> State:
        """The state that training begins with."""
        return self.begin(key, self.hyper if hyper is None else hyper)


class HasOwnEvaluation(abc.ABC):
    """A learner that is judged in another way than by episodes of its environment, such as by matches."""

    @abc.abstractmethod
    def evaluate(self, state: Any, key: Key, count: int) -> dict[str, Array]:
        """Scalars that judge what has been learnt by `count` games; `return_mean` is the one that decides."""


class LearningSignal(NamedTuple):
    """What an update learns from: numbers by name, one for each step, and lines that they are read against."""

    numbers: dict[str, Array]
    """Such as `td_error` and `priority`, or `advantage` and `ratio`; not a number where a step has none."""
    lines: dict[str, tuple[Any, ...]]
    """By the same names, for those that have any."""


class HasWorlds(abc.ABC):
    """A learner of environments: what its wrappers have gathered is part of how it is judged."""

    @abc.abstractmethod
    def worlds(self, state: Any) -> Any:
        """The states of the environments that it learns in, with an axis of worlds where there are several."""


class HasLearningSignal(abc.ABC):
    """A learner that can show what its next update would learn from."""

    @abc.abstractmethod
    def signal(self, state: Any, key: Key) -> LearningSignal:
        """The numbers of one update from this state on; nothing is changed by looking."""


class HasGameNetwork(abc.ABC):
    """A learner of a game whose network guides a search."""

    @abc.abstractmethod
    def network(self, state: Any) -> Any:
        """From planes of positions to logits of moves and values for who is to move: a `PolicyValueNetwork`."""


@final
@dataclass(frozen=True)
class AlgorithmEntry:
    """What the rest of the project knows about an algorithm before setting it up."""

    name: str
    summary: str
    """One line."""
    config: type[Config]
    build: Callable[[Any, Any, int], Learner[Any]]
    """From (config, environment, steps of the whole training) to a learner; refuses environments it cannot learn."""
    env: str
    """Environment it is trained on when none is named."""
    steps: int
    """Steps of the environment, when none are said."""
    citation: str
    toy: Mapping[str, Any] = field(default_factory=dict)
    """Settings small enough for tests on `toy_env` with `toy_steps`."""
    toy_env: str = "cartpole"
    toy_steps: int = 256
    resolve: Callable[[Any, Any], Config] | None = None
    """From (config, environment) to settings with nothing left open that depends on the device: a run says what it
    began with, and goes on with it anywhere."""
    begun: Callable[[Any], Config] | None = None
    """From a config to one without what only the beginning of a training needs: checkpoints hold what came of it."""
    of_games: bool = False
    """Whether it learns games of two players, and no environments."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """What its own evaluation measures, in words by name, where that is not the return of episodes."""
    whole_numbers: bool = False
    """Whether it takes observations that are whole numbers as they are; others are given vectors."""


__all__ = [
    "AlgorithmEntry",
    "Decision",
    "HasGameNetwork",
    "HasLearningSignal",
    "HasOwnEvaluation",
    "HasWorlds",
    "Learner",
    "LearningSignal",
    "Policy",
]
