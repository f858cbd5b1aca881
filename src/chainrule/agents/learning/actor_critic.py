"""Actor-critic with one gradient for each stretch of experience: the actor climbs along advantages, a critic follows.

The critic's targets are held fixed (a semi-gradient), and so are the advantages that weigh `grad log pi`. With a
stretch of one step and advantages that are single temporal differences this is the one-step actor-critic; with longer
stretches and generalised advantages it is A2C (Mnih et al., Asynchronous methods for deep reinforcement learning, ICML
2016).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers.observations import vector_observations
from chainrule.agents.learning.advantages import explained_variance
from chainrule.agents.learning.base import HasLearningSignal, HasWorlds, Learner, LearningSignal
from chainrule.agents.learning.networks import ActorCritic
from chainrule.agents.learning.on_policy import (
    Experience,
    PolicyConfig,
    PolicyState,
    actor_critic,
    adam_state,
    adam_step,
    advantage_signal,
    annealed,
    begin_policy,
    judged,
)
from chainrule.agents.learning.policies import ActionDistribution, NetworkPolicy, distribution_over
from chainrule.agents.learning.rollouts import gather
from chainrule.core.types import Array, Key


class ActorCriticHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gamma: Array | float
    decay: Array | float
    entropy: Array | float
    value_weight: Array | float
    gradient_norm: Array | float


class Stretches(NamedTuple):
    """How experience is cut: so many worlds, steps for each gradient, and gradients in an iteration."""

    worlds: int
    length: int
    updates: int


def actor_critic_loss(
    network: ActorCritic, actions: ActionDistribution, batch: Experience, hyper: ActorCriticHyper
) -> tuple[Array, dict[str, Array]]:
    """What is made small: `-A log pi`, half the squared error of values, less entropy; all means over steps."""
    numbers, values, _ = network.unroll(batch.observations, batch.first, ())
    numbers = actions.masked(numbers, batch.legal)
    policy_loss = -(batch.advantages * actions.log_prob(numbers, batch.drawn)).mean()
    value_loss = 0.5 * jnp.square(values - batch.targets).mean()
    entropy = actions.entropy(numbers).mean()
    total = policy_loss + hyper.value_weight * value_loss - hyper.entropy * entropy
    return total, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


@final
class AdvantageActorCritic(Learner[PolicyState], HasLearningSignal, HasWorlds):
    """One gradient for each stretch of experience, several stretches in an iteration."""

    env: Environment[Any]
    config: PolicyConfig = eqx.field(static=True)
    stretches: Stretches = eqx.field(static=True)
    numbers: ActorCriticHyper = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    """Of the whole training, over which the learning rate falls."""
    actions: ActionDistribution

    def __init__(
        self,
        config: PolicyConfig,
        env: Environment[Any],
        steps: int,
        stretches: Stretches,
        numbers: ActorCriticHyper,
    ) -> None:
        self.env = vector_observations(env)
        self.config, self.stretches, self.numbers = config, stretches, numbers
        self.actions = distribution_over(env.action_space)
        self.iterations = max(1, -(-steps // self.steps_per_iteration))

    @property
    def steps_per_iteration(self) -> int:
        return self.stretches.worlds * self.stretches.length * self.stretches.updates

    @property
    def hyper(self) -> ActorCriticHyper:
        return self.numbers

    def begin(self, key: Key, hyper: ActorCriticHyper) -> PolicyState:
        network_key, key = jax.random.split(key)
        network = actor_critic(self.config, self.env, self.actions, "none", 0, network_key)
        return begin_policy(self.env, network, self.stretches.worlds, hyper, adam_state(network), key)

    def iterate(self, state: PolicyState) -> tuple[PolicyState, dict[str, Array]]:
        rate = annealed(self.config, state, self.iterations)
        state, seen = jax.lax.scan(
            lambda state, _: self._update(state, rate), state, length=self.stretches.updates
        )
        metrics = {name: values.mean() for name, values in seen.items()}
        metrics |= state.finished.metrics() | {"learning_rate": rate}
        return state._replace(iteration=state.iteration + 1), metrics

    def worlds(self, state: PolicyState) -> Any:
        return state.worlds.state

    def policy(self, state: PolicyState) -> NetworkPolicy:
        return NetworkPolicy(state.network, self.actions)

    def signal(self, state: PolicyState, key: Key) -> LearningSignal:
        # Of a whole iteration: a stretch alone may be a single step of each world.
        length = self.stretches.length * self.stretches.updates
        return advantage_signal(self.env, self.actions, state, length, key)

    def _update(self, state: PolicyState, rate: Array) -> tuple[PolicyState, dict[str, Array]]:
        key, rollout_key = jax.random.split(state.key)
        worlds, rollout = gather(
            self.env, state.network, self.actions, state.worlds, self.stretches.length, rollout_key
        )
        batch = judged(state.network, self.actions, rollout, state.hyper.gamma, state.hyper.decay)
        slope, seen = jax.grad(actor_critic_loss, has_aux=True)(
            state.network, self.actions, batch, state.hyper
        )
        flat, unflat = ravel_pytree(state.network)
        flat, moments = adam_step(
            flat, state.optimizer, ravel_pytree(slope)[0], rate, state.hyper.gradient_norm
        )
        before, after = batch.numbers, unflat(flat).unroll(batch.observations, batch.first, ())[0]
        seen["kl"] = self.actions.divergence(before, self.actions.masked(after, batch.legal)).mean()
        seen["explained_variance"] = explained_variance(batch.values, batch.targets)
        finished = state.finished.after(rollout)
        return PolicyState(state.hyper, unflat(flat), moments, worlds, finished, key, state.iteration), seen


__all__ = ["ActorCriticHyper", "AdvantageActorCritic", "Stretches", "actor_critic_loss"]
