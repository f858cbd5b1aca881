"""Twin delayed deep deterministic policy gradients: continuous actions by a function of what is seen, and two critics.

Critics learn `y = r + gamma (1 - terminated) min Q_old(s', a')`, with `a'` the old policy's action and a little noise,
so that a peak of the critics that is an error is not climbed; the lower of two is believed for the same reason. The
policy climbs `Q_1(s, pi(s))`, and old networks follow, only in every second update: a policy is not chased through
values that are still far off (Fujimoto, van Hoof and Meger, 2018).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.algorithms.td3.config import TD3Config
from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.base import Decision, Policy
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
from chainrule.agents.learning.value_networks import DenseBody, InputFormat
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn import Linear

_INSIDE = 1 - 1e-6
"""How near to its bounds an action with noise may come, where it is to be squashed."""


class TD3Hyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    critic_rate: Array | float
    gamma: Array | float
    polyak: Array | float
    exploration: Array | float
    smoothing: Array | float
    smoothing_clip: Array | float


@final
class SureActor(eqx.Module):
    """An action between -1 and 1 for every observation."""

    body: DenseBody
    head: Linear

    def __init__(self, inputs: int, actions: int, widths: Sequence[int], *, key: Key) -> None:
        one, two = jax.random.split(key)
        self.body = DenseBody(inputs, widths, key=one)
        self.head = Linear(widths[-1], actions, key=two, initializer="torch")

    def __call__(self, observations: Array) -> Float[Array, "batch actions"]:
        """What to do."""
        return jnp.tanh(self.head(self.body(observations)))


class TD3Parts(NamedTuple):
    """Everything that is learnt."""

    actor: SureActor
    critics: tuple[ActionCritic, ActionCritic]


@final
class TD3Policy(Policy):
    """The actor's action, with noise while exploring; valued by the lower of the critics."""

    parts: TD3Parts
    actions: GaussianActions
    exploration: Float[Array, ""]

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del legal
        best = self.parts.actor(observation[None])
        noise = 0.0 if greedy else self.exploration * self.actions.noise(key, (1,))
        done = jnp.clip(best + noise, -1, 1)
        value = jnp.minimum(*(critic(observation[None], done) for critic in self.parts.critics))[0]
        return Decision(self._between(done), memory, value, self._between(best))

    def _between(self, action: Array) -> Array:
        """Between the bounds; exactly at one where it lies there."""
        centre, half = (jnp.asarray(each) for each in (self.actions.centre, self.actions.half))
        return (centre + half * action[0]).reshape(self.actions.shape)


def critic_loss(
    critics: tuple[ActionCritic, ActionCritic],
    targets: TD3Parts,
    batch: ContinuousBatch,
    noise: Float[Array, "batch actions"],
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Half the squared temporal differences of both critics; `noise` is that on the actions of targets."""
    then = jnp.clip(targets.actor(batch.following) + noise, -1, 1)
    lower = jnp.minimum(*(critic(batch.following, then) for critic in targets.critics))
    target = jax.lax.stop_gradient(batch.reward + batch.discount * lower)
    values = [critic(batch.observation, batch.action) for critic in critics]
    total = jnp.asarray(sum(0.5 * jnp.square(target - value).mean() for value in values))
    return total, {
        "loss": total,
        "q_mean": values[0].mean(),
        "q_max": values[0].max(),
        "td_error": jnp.abs(target - values[0]).mean(),
    }


def actor_loss(actor: SureActor, critic: ActionCritic, observation: Array) -> Float[Array, ""]:
    """Minus the value of what the policy does."""
    return -critic(observation, actor(observation)).mean()


@final
class TD3(ContinuousLearner):
    """Twin delayed deep deterministic policy gradients, set up for an environment."""

    env: Environment[Any]
    actions: GaussianActions
    inputs: InputFormat = eqx.field(static=True)
    config: TD3Config = eqx.field(static=True)

    def __init__(self, config: TD3Config, env: Environment[Any], steps: int) -> None:
        self.env, self.config = env, config
        self.actions, self.inputs = set_up("td3", config, env, steps)

    @property
    def hyper(self) -> TD3Hyper:
        return TD3Hyper(*(getattr(self.config, name) for name in TD3Hyper._fields))

    def fresh(
        self, actor_key: Key, critics: tuple[ActionCritic, ActionCritic], hyper: TD3Hyper
    ) -> tuple[TD3Parts, TD3Parts, Any]:
        del hyper
        parts = TD3Parts(SureActor(*self.sizes, key=actor_key), critics)
        # Apart, because policy and critics are not stepped at the same times.
        return parts, parts, TD3Parts(*(ADAM.init(part) for part in parts))

    def explored(self, state: ContinuousState, observations: Array, normal: Array) -> Array:
        noisy = state.parts.actor(observations) + state.hyper.exploration * normal
        return jnp.arctanh(jnp.clip(noisy, -_INSIDE, _INSIDE))

    def policy(self, state: ContinuousState) -> TD3Policy:
        return TD3Policy(state.parts, self.actions, jnp.asarray(state.hyper.exploration))

    def updated(
        self, state: ContinuousState, batch: ContinuousBatch, key: Key, ready: Array
    ) -> tuple[ContinuousState, dict[str, Array]]:
        hyper, parts = state.hyper, state.parts
        noise = hyper.smoothing * self.actions.noise(key, (self.config.batch,))
        noise = jnp.clip(noise, -hyper.smoothing_clip, hyper.smoothing_clip)
        slopes, seen = jax.grad(critic_loss, has_aux=True)(parts.critics, state.targets, batch, noise)
        worth, climb = jax.value_and_grad(actor_loss)(parts.actor, parts.critics[0], batch.observation)
        due = ready & (state.taken // self.config.update_every % self.config.delay == 0)
        before: TD3Parts = state.optimizer
        actor = _stepped(due, parts.actor, before.actor, climb, hyper.learning_rate)
        critics = _stepped(ready, parts.critics, before.critics, slopes, hyper.critic_rate)
        kept, optimizer = (TD3Parts(*each) for each in zip(actor, critics, strict=True))
        targets = _either(due, followed(state.targets, kept, hyper.polyak), state.targets)
        state = state._replace(parts=kept, targets=targets, optimizer=optimizer)
        return state, {**seen, "actor_loss": worth}


def _stepped(when: Array, part: Any, moments: Any, slopes: Any, rate: Array) -> tuple[Any, Any]:
    """A part of what is learnt, and Adam's state, after a step that is made or not."""
    moves, after = ADAM.update(slopes, moments)
    return _either(when, moved(part, moves, rate), part), _either(when, after, moments)


def _either(which: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), new, old)


__all__ = ["TD3", "SureActor", "TD3Hyper", "TD3Parts", "TD3Policy", "actor_loss", "critic_loss"]
