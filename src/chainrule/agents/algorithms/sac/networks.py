"""The network of the soft actor-critic, and its policy."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.learning.base import Decision, Policy
from chainrule.agents.learning.continuous import ActionCritic
from chainrule.agents.learning.policies import GaussianActions
from chainrule.agents.learning.value_networks import DenseBody
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn import Linear

_LOG_SCALES = (-5.0, 2.0)
"""Between which logarithms of standard deviations lie."""


@final
class Actor(eqx.Module):
    """Means and logarithms of standard deviations of the normal numbers that actions are made of."""

    body: DenseBody
    head: Linear

    def __init__(self, inputs: int, actions: int, widths: Sequence[int], *, key: Key) -> None:
        one, two = jax.random.split(key)
        self.body = DenseBody(inputs, widths, key=one)
        self.head = Linear(widths[-1], 2 * actions, key=two, initializer="torch")

    def __call__(self, observations: Array) -> Float[Array, "batch numbers"]:
        """The numbers of a distribution over actions."""
        mean, raw = jnp.split(self.head(self.body(observations)), 2, axis=-1)
        low, high = _LOG_SCALES
        return jnp.concatenate([mean, low + 0.5 * (high - low) * (jnp.tanh(raw) + 1)], axis=-1)


@final
class SACPolicy(Policy):
    """Actions drawn from the actor's distribution, or its middle; valued by the lower of the critics."""

    actor: Actor
    critics: tuple[ActionCritic, ActionCritic]
    actions: GaussianActions

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del legal
        numbers = self.actor(observation[None])
        noise = self.actions.noise(key, (1,))
        drawn = self.actions.mode(numbers) if greedy else self.actions.draw(numbers, noise)
        value = jnp.minimum(*(critic(observation[None], jnp.tanh(drawn)) for critic in self.critics))[0]
        action = self.actions.action(drawn)[0]
        return Decision(action, memory, value, self.actions.preferences(numbers)[0])


__all__ = ["Actor", "SACPolicy"]
