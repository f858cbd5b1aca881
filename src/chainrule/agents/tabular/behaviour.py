"""Behaviour while learning: which actions are tried, and how often, as training goes on."""

import abc
from collections.abc import Callable
from typing import Any, final

import equinox as eqx

from chainrule.agents.learning import exploration
from chainrule.core.types import Array, Float


class Behaviour(eqx.Module):
    """Probabilities of actions from their values; its numbers may differ between runs side by side."""

    @abc.abstractmethod
    def probabilities(self, values: Float[Array, "actions"], step: Any) -> Float[Array, "actions"]:
        """How likely each action is, at a step of training."""


@final
class EpsilonGreedyBehaviour(Behaviour):
    """The best action, or with probability epsilon any; epsilon goes from `start` to `end` over `steps` steps."""

    start: Any = 0.1
    end: Any = 0.1
    steps: Any = 1
    schedule: Callable[..., Array] = eqx.field(static=True, default=exploration.linear)
    """`exploration.linear` or `exploration.exponential`."""

    def epsilon(self, step: Any) -> Array:
        """Epsilon at a step."""
        return self.schedule(step, self.start, self.end, self.steps)

    def probabilities(self, values: Float[Array, "actions"], step: Any) -> Float[Array, "actions"]:
        return exploration.epsilon_greedy_probabilities(values, self.epsilon(step))


@final
class SoftmaxBehaviour(Behaviour):
    """In proportion to exp(value / temperature), with a temperature from `start` to `end` over `steps` steps."""

    start: Any = 1.0
    end: Any = 1.0
    steps: Any = 1
    schedule: Callable[..., Array] = eqx.field(static=True, default=exploration.linear)

    def probabilities(self, values: Float[Array, "actions"], step: Any) -> Float[Array, "actions"]:
        return exploration.softmax_probabilities(
            values, self.schedule(step, self.start, self.end, self.steps)
        )


__all__ = ["Behaviour", "EpsilonGreedyBehaviour", "SoftmaxBehaviour"]
