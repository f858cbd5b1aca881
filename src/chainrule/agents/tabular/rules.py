"""Rules of tabular learning: how one step of experience changes a table of action values.

All of them move Q(s, a) towards a target, r plus the discounted value of what comes next, and differ in what that value
is: the best action's (Q-learning), the next action's (SARSA), the average one's (expected SARSA), the best action's in
the eyes of a second table (double Q-learning), or what is known several steps later. Nothing follows an end; an episode
that was cut off is valued by its last state. With a trace, every error also reaches the pairs that led up to it.

Reference: Sutton and Barto, Reinforcement Learning, 2018, chapters 6, 7 and 12; van Hasselt, Double Q-learning, 2010.
"""

import abc
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.learning.exploration import greedy_probabilities
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree


class TabularStep(NamedTuple):
    """One step of experience."""

    state: Int[Array, ""]
    action: Int[Array, ""]
    reward: Scalar
    terminated: Array
    over: Array
    """Whether the episode ended with it, by itself or cut off."""
    next_state: Int[Array, ""]
    next_action: Int[Array, ""]
    """What would be done next, drawn from `next_probabilities`."""
    next_probabilities: Float[Array, "actions"]


class StepSizes(NamedTuple):
    """How far to move: alpha / visits^power for each pair; power 0 is a constant rate."""

    alpha: Any
    power: Any
    visits: Float[Array, "states actions"]

    def at(self, state: Array, action: Array) -> Array:
        """The step size of one pair."""
        return self.alpha / jnp.maximum(self.visits[state, action], 1.0) ** self.power

    def everywhere(self) -> Float[Array, "states actions"]:
        """Those of all pairs."""
        return self.alpha / jnp.maximum(self.visits, 1.0) ** self.power


class TabularUpdate(NamedTuple):
    """What a step leaves behind."""

    q: Float[Array, "tables states actions"]
    memory: Tree
    error: Scalar
    """How far the target was from the table."""


class TabularRule(eqx.Module):
    """A way of learning from one step; subclasses say what they remember, and what they change."""

    @property
    @abc.abstractmethod
    def on_policy(self) -> bool:
        """Whether the next action is part of the target, so that it must be chosen before learning."""

    @property
    @abc.abstractmethod
    def tables(self) -> int:
        """How many tables it learns; an agent acts by their mean."""

    @abc.abstractmethod
    def start(self, states: int, actions: int) -> Tree:
        """What it remembers at the start of training."""

    @abc.abstractmethod
    def learn(
        self,
        key: Key,
        q: Float[Array, "tables states actions"],
        memory: Tree,
        step: TabularStep,
        sizes: StepSizes,
        gamma: Any,
    ) -> TabularUpdate:
        """The tables after one step."""


class OneStepRule(TabularRule):
    """A rule whose target looks one step ahead; with a trace, errors reach back."""

    trace: eqx.AbstractVar[float | None]
    """Lambda: what a trace keeps from step to step, beside gamma; none: only the last pair learns."""

    @abc.abstractmethod
    def next_value(self, values: Float[Array, "actions"], step: TabularStep) -> Scalar:
        """What the next state is worth."""

    @abc.abstractmethod
    def keeps_trace(self, values: Float[Array, "actions"], step: TabularStep) -> Array:
        """Whether what led here also led to what comes next."""

    @property
    @final
    def tables(self) -> int:
        return 1

    @final
    def start(self, states: int, actions: int) -> Tree:
        return () if self.trace is None else jnp.zeros((states, actions))

    @final
    def learn(
        self, key: Key, q: Array, memory: Tree, step: TabularStep, sizes: StepSizes, gamma: Any
    ) -> TabularUpdate:
        del key
        pair = (0, step.state, step.action)
        ahead = q[0, step.next_state]
        error = step.reward + gamma * _alive(step) * self.next_value(ahead, step) - q[pair]
        if self.trace is None:
            return TabularUpdate(q.at[pair].add(sizes.at(step.state, step.action) * error), (), error)
        eligible = memory.at[step.state, step.action].add(1.0)
        q = q.at[0].add(sizes.everywhere() * error * eligible)
        kept = jnp.where(step.over | ~self.keeps_trace(ahead, step), 0.0, gamma * self.trace)
        return TabularUpdate(q, kept * eligible, error)


@final
class QLearning(OneStepRule):
    """Learns what the best actions are worth, whatever is done (Watkins, 1989); a trace ends where it explores."""

    trace: float | None = None

    @property
    def on_policy(self) -> bool:
        # A trace is cut by the action that is really taken next.
        return self.trace is not None

    def next_value(self, values: Array, step: TabularStep) -> Array:
        del step
        return values.max()

    def keeps_trace(self, values: Array, step: TabularStep) -> Array:
        return values[step.next_action] == values.max()


@final
class Sarsa(OneStepRule):
    """Learns what is worth doing while exploring goes on (Rummery and Niranjan, 1994)."""

    trace: float | None = None

    @property
    def on_policy(self) -> bool:
        return True

    def next_value(self, values: Array, step: TabularStep) -> Array:
        return values[step.next_action]

    def keeps_trace(self, values: Array, step: TabularStep) -> Array:
        del values
        return jnp.ones_like(step.over)


@final
class ExpectedSarsa(OneStepRule):
    """SARSA with the average over next actions in place of one of them: less noise (van Seijen et al., 2009)."""

    trace: float | None = None

    @property
    def on_policy(self) -> bool:
        return True

    def next_value(self, values: Array, step: TabularStep) -> Array:
        return values @ step.next_probabilities

    def keeps_trace(self, values: Array, step: TabularStep) -> Array:
        del values
        return jnp.ones_like(step.over)


@final
class DoubleQLearning(TabularRule):
    """Two tables: one says which action is best, the other what it is worth, so that luck is not taken for value."""

    @property
    def on_policy(self) -> bool:
        return False

    @property
    def tables(self) -> int:
        return 2

    def start(self, states: int, actions: int) -> Tree:
        del states, actions
        return ()

    def learn(
        self, key: Key, q: Array, memory: Tree, step: TabularStep, sizes: StepSizes, gamma: Any
    ) -> TabularUpdate:
        one = jax.random.bernoulli(key).astype(jnp.int32)
        chosen = greedy_probabilities(q[one, step.next_state])
        ahead = chosen @ q[1 - one, step.next_state]
        pair = (one, step.state, step.action)
        error = step.reward + gamma * _alive(step) * ahead - q[pair]
        return TabularUpdate(q.at[pair].add(sizes.at(step.state, step.action) * error), memory, error)


class RecentSteps(NamedTuple):
    """The last pairs of an episode and their rewards, the oldest first; what is not filled comes first."""

    states: Int[Array, "steps"]
    actions: Int[Array, "steps"]
    rewards: Float[Array, "steps"]
    filled: Int[Array, ""]


@final
class NStepSarsa(TabularRule):
    """SARSA whose target adds up several rewards before it asks the table; the end of an episode settles the rest."""

    steps: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        if not 1 <= self.steps <= 100:
            raise ArgumentError(f"NStepSarsa(steps={self.steps}): steps must lie between 1 and 100")

    @property
    def on_policy(self) -> bool:
        return True

    @property
    def tables(self) -> int:
        return 1

    def start(self, states: int, actions: int) -> RecentSteps:
        del states, actions
        none = jnp.zeros(self.steps, jnp.int32)
        return RecentSteps(none, none, jnp.zeros(self.steps), jnp.zeros((), jnp.int32))

    def learn(
        self, key: Key, q: Array, memory: RecentSteps, step: TabularStep, sizes: StepSizes, gamma: Any
    ) -> TabularUpdate:
        del key
        n = self.steps
        states = jnp.append(memory.states[1:], step.state)
        actions = jnp.append(memory.actions[1:], step.action)
        rewards = jnp.append(memory.rewards[1:], step.reward)
        filled = jnp.minimum(memory.filled + 1, n)
        last = _alive(step) * q[0, step.next_state, step.next_action]

        def back(total: Array, reward: Array) -> tuple[Array, Array]:
            total = reward + gamma * total
            return total, total

        targets = jax.lax.scan(back, last, rewards, reverse=True)[1]
        number = jnp.arange(n)
        settled = (number >= n - filled) & (step.over | ((number == 0) & (filled == n)))

        # One after the other: a pair may occur twice.
        def settle(i: Any, table: Array) -> Array:
            pair = (states[i], actions[i])
            change = sizes.at(*pair) * (targets[i] - table[pair])
            return table.at[pair].add(jnp.where(settled[i], change, 0.0))

        table = jax.lax.fori_loop(0, n, settle, q[0])
        error = targets[-1] - q[0, step.state, step.action]
        left = jnp.where(step.over, 0, filled)
        return TabularUpdate(table[None], RecentSteps(states, actions, rewards, left), error)


def _alive(step: TabularStep) -> Array:
    """1 where something follows, 0 after a true end."""
    return 1.0 - step.terminated.astype(jnp.float32)


__all__ = [
    "DoubleQLearning",
    "ExpectedSarsa",
    "NStepSarsa",
    "OneStepRule",
    "QLearning",
    "RecentSteps",
    "Sarsa",
    "StepSizes",
    "TabularRule",
    "TabularStep",
    "TabularUpdate",
]
