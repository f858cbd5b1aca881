"""Soft actor-critic: continuous actions that earn a return and stay as random as they can afford.

Two critics value actions by `r + gamma (1 - terminated) (min Q_old(s', a') - alpha log pi(a'|s'))` with a' drawn anew
from the policy; the lower of the two is believed, since maxima of noisy values are too large. The policy is moved along
`min Q(s, a) - alpha log pi(a|s)` through actions written as a function of noise, and the price alpha of entropy so that
the entropy stays near what was asked for (Haarnoja et al., Soft actor-critic algorithms and applications, 2018).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.algorithms.sac.config import SACConfig
from chainrule.agents.algorithms.sac.networks import Actor, SACPolicy
from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.continuous import (
    ADAM,
    ActionCritic,
    ContinuousBatch,
    ContinuousLearner,
    ContinuousState,
    followed,
    moved,
    set_up,
)
from chainrule.agents.learning.policies import GaussianActions
from chainrule.agents.learning.value_networks import InputFormat
from chainrule.core.types import Array, Float, Key


class SACHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    critic_rate: Array | float
    gamma: Array | float
    polyak: Array | float
    temperature: Array | float
    entropy: Array | float


class Parts(NamedTuple):
    """Everything that is learnt."""

    actor: Actor
    critics: tuple[ActionCritic, ActionCritic]
    log_temperature: Float[Array, ""]


def soft_losses(
    parts: Parts,
    targets: tuple[ActionCritic, ActionCritic],
    batch: ContinuousBatch,
    noise: Float[Array, "2 batch actions"],
    actions: GaussianActions,
    entropy: Array | float,
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """The sum of three losses, each of which moves one part only, and numbers on the way."""
    held = jax.lax.stop_gradient(parts)
    price = jnp.exp(held.log_temperature)

    numbers = held.actor(batch.following)
    drawn = actions.draw(numbers, noise[0])
    then = jnp.minimum(*(critic(batch.following, jnp.tanh(drawn)) for critic in targets))
    soft = then - price * actions.log_prob(numbers, drawn)
    target = jax.lax.stop_gradient(batch.reward + batch.discount * soft)
    values = [critic(batch.observation, batch.action) for critic in parts.critics]
    critic_loss = sum(0.5 * jnp.square(target - value).mean() for value in values)

    numbers = parts.actor(batch.observation)
    drawn = actions.draw(numbers, noise[1])
    log_prob = actions.log_prob(numbers, drawn)
    worth = jnp.minimum(*(critic(batch.observation, jnp.tanh(drawn)) for critic in held.critics))
    actor_loss = (price * log_prob - worth).mean()

    surplus = jax.lax.stop_gradient(-log_prob - entropy).mean()
    seen = {
        "loss": jnp.asarray(critic_loss),
        "actor_loss": actor_loss,
        "q_mean": values[0].mean(),
        "q_max": values[0].max(),
        "td_error": jnp.abs(target - values[0]).mean(),
        "entropy": -log_prob.mean(),
        "temperature": price,
    }
    return critic_loss + actor_loss + parts.log_temperature * surplus, seen


@final
class SAC(ContinuousLearner):
    """Soft actor-critic, set up for an environment."""

    env: Environment[Any]
    actions: GaussianActions
    inputs: InputFormat = eqx.field(static=True)
    config: SACConfig = eqx.field(static=True)

    def __init__(self, config: SACConfig, env: Environment[Any], steps: int) -> None:
        self.env, self.config = env, config
        self.actions, self.inputs = set_up("sac", config, env, steps)

    @property
    def hyper(self) -> SACHyper:
        found = SACHyper(*(getattr(self.config, name) for name in SACHyper._fields))
        return found if found.entropy is not None else found._replace(entropy=-float(self.actions.outputs))

    def fresh(
        self, actor_key: Key, critics: tuple[ActionCritic, ActionCritic], hyper: SACHyper
    ) -> tuple[Parts, tuple[ActionCritic, ActionCritic], Any]:
        actor = Actor(*self.sizes, key=actor_key)
        parts = Parts(actor, critics, jnp.log(jnp.float32(hyper.temperature)))
        return parts, critics, ADAM.init(parts)

    def explored(self, state: ContinuousState, observations: Array, normal: Array) -> Array:
        return self.actions.draw(state.parts.actor(observations), normal)

    def policy(self, state: ContinuousState) -> SACPolicy:
        return SACPolicy(state.parts.actor, state.parts.critics, self.actions)

    def updated(
        self, state: ContinuousState, batch: ContinuousBatch, key: Key, ready: Array
    ) -> tuple[ContinuousState, dict[str, Array]]:
        noise = self.actions.noise(key, (2, self.config.batch))

        def scaled(parts: Parts) -> tuple[Array, dict[str, Array]]:
            loss, seen = soft_losses(parts, state.targets, batch, noise, self.actions, state.hyper.entropy)
            return ready * loss, seen

        slopes, seen = jax.grad(scaled, has_aux=True)(state.parts)
        # Before learning starts slopes are 0, with which all of Adam but its counter stays as it began.
        moves, optimizer = ADAM.update(slopes, state.optimizer)
        optimizer = optimizer._replace(count=jnp.where(ready, optimizer.count, 0))
        parts = Parts(
            moved(state.parts.actor, moves.actor, state.hyper.learning_rate),
            moved(state.parts.critics, moves.critics, state.hyper.critic_rate),
            moved(state.parts.log_temperature, moves.log_temperature, state.hyper.critic_rate),
        )
        targets = followed(state.targets, parts.critics, state.hyper.polyak)
        return state._replace(parts=parts, targets=targets, optimizer=optimizer), seen


__all__ = ["SAC", "Parts", "SACHyper", "soft_losses"]
