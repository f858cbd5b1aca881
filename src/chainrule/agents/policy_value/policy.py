"""The network alone as a policy: it plays what it would try first, without looking ahead."""

from typing import final

import jax
import jax.numpy as jnp

from chainrule.agents.learning.base import Decision, Policy
from chainrule.agents.policy_value.network import PolicyValueNetwork, masked_logits
from chainrule.core.types import Array, Key, Tree


@final
class UnsearchedPolicy(Policy):
    """Moves by the policy head: the most probable one, or one drawn."""

    network: PolicyValueNetwork

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        logits, value = self.network(observation[None])
        logits = logits[0] if legal is None else masked_logits(logits[0], legal)
        action = jnp.argmax(logits) if greedy else jax.random.categorical(key, logits)
        return Decision(action, memory, value[0], jax.nn.softmax(logits))


__all__ = ["UnsearchedPolicy"]
