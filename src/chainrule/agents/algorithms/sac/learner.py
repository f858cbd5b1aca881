"""Soft actor-critic: continuous actions that earn a return and stay as random as they can afford.

Two critics value actions by `r + gamma (1 - terminated) (min Q_old(s', a') - alpha log pi(a'|s'))` with a' drawn anew
from the policy; the lower of the two is believed, since maxima of noisy values are too large. The policy is moved along
`min Q(s, a) - alpha log pi(a|s)` through actions written as a function of noise, and the price alpha of entropy so that
the entropy stays near what was asked for (Haarnoja et al., Soft actor-critic algorithms and applications, 2018).
"""

import math
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.agents.algorithms.sac.config import SACConfig, check
from chainrule.agents.algorithms.sac.networks import ActionCritic, Actor, SACPolicy
from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.agents.learning.base import HasWorlds, Learner
from chainrule.agents.learning.gathering import (
    EpisodeTotals,
    GatheredSteps,
    RunningWorlds,
    begin_running,
    gather_block,
    one_step,
)
from chainrule.agents.learning.policies import GaussianActions
from chainrule.agents.learning.replay import Replay
from chainrule.agents.learning.rollouts import EndedEpisodes
from chainrule.agents.learning.value_networks import InputFormat, input_format
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key

_ADAM = optax.scale_by_adam()


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


class SACState(NamedTuple):
    """Everything that training goes on from."""

    hyper: SACHyper
    parts: Parts
    targets: tuple[ActionCritic, ActionCritic]
    optimizer: Any
    replay: Replay
    worlds: RunningWorlds
    finished: EndedEpisodes
    key: Key
    taken: Int[Array, ""]
    """Steps of all worlds so far."""


class SACBatch(NamedTuple):
    """Steps drawn from the past; actions between -1 and 1."""

    observation: Array
    action: Float[Array, "batch actions"]
    reward: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    following: Array


def soft_losses(
    parts: Parts,
    targets: tuple[ActionCritic, ActionCritic],
    batch: SACBatch,
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
class SAC(Learner[SACState], HasWorlds):
    """Soft actor-critic, set up for an environment."""

    env: Environment[Any]
    actions: GaussianActions
    inputs: InputFormat = eqx.field(static=True)
    config: SACConfig = eqx.field(static=True)

    def __init__(self, config: SACConfig, env: Environment[Any], steps: int) -> None:
        space = env.action_space
        if not isinstance(space, Box):
            raise ArgumentError(
                f"sac draws continuous actions; this environment's are {type(space).__name__}",
                remedy="use dqn, pqn or ppo" if isinstance(space, Discrete) else "use ppo",
            )
        if not space.bounded:
            raise ArgumentError("sac needs actions between finite bounds", remedy="use ppo")
        check(config, steps)
        self.env, self.config = env, config
        self.actions = GaussianActions(space.low, space.high)
        self.inputs = input_format(env.observation_space)

    @property
    def steps_per_iteration(self) -> int:
        return self.config.report_every

    @property
    def hyper(self) -> SACHyper:
        found = SACHyper(*(getattr(self.config, name) for name in SACHyper._fields))
        return found if found.entropy is not None else found._replace(entropy=-float(self.actions.outputs))

    def begin(self, key: Key, hyper: SACHyper) -> SACState:
        actor_key, one, two, world_key, key = jax.random.split(key, 5)
        inputs, count = math.prod(self.inputs.shape), self.config.environments
        sizes = (inputs, self.actions.outputs, self.config.widths)
        critics = (ActionCritic(*sizes, key=one), ActionCritic(*sizes, key=two))
        parts = Parts(Actor(*sizes, key=actor_key), critics, jnp.log(jnp.float32(hyper.temperature)))
        return SACState(
            hyper=jax.tree.map(jnp.float32, hyper),
            parts=parts,
            targets=critics,
            optimizer=_ADAM.init(parts),
            replay=Replay.empty(one_step(self.env), slots=self.config.buffer // count, worlds=count),
            worlds=begin_running(self.env, count, world_key),
            finished=EndedEpisodes.none(),
            key=key,
            taken=jnp.zeros((), jnp.int32),
        )

    def iterate(self, state: SACState) -> tuple[SACState, dict[str, Array]]:
        key, now = jax.random.split(state.key)
        turns = self.config.report_every // self.config.update_every
        # A function of its own: methods are compared by all that their object holds, arrays of the environment too.
        state, (seen, episodes) = jax.lax.scan(
            lambda state, key: self._turn(state, key), state._replace(key=key), jax.random.split(now, turns)
        )
        finished = state.finished.with_ended(*episodes)
        metrics = {
            **finished.metrics(),
            **{name: values.max() if name == "q_max" else values.mean() for name, values in seen.items()},
            "buffer_fill": state.replay.filled / state.replay.slots,
            "learning_rate": jnp.asarray(state.hyper.learning_rate),
        }
        return state._replace(finished=finished), metrics

    def worlds(self, state: SACState) -> Any:
        return state.worlds.state

    def policy(self, state: SACState) -> SACPolicy:
        return SACPolicy(state.parts.actor, state.parts.critics, self.actions)

    def _turn(self, state: SACState, key: Key) -> tuple[SACState, tuple[dict[str, Array], EpisodeTotals]]:
        """Some steps, and one update."""
        step_key, noise_key, draw_key = jax.random.split(key, 3)
        state, episodes = self._gathered(state, step_key, noise_key)
        state, seen = self._updated(state, draw_key)
        return state, (seen, episodes)

    def _gathered(self, state: SACState, key: Key, noise_key: Key) -> tuple[SACState, EpisodeTotals]:
        shape = (self.config.update_every // self.config.environments, self.config.environments)
        anything = state.taken < self.config.learning_start

        def rule(observations: Array, legal: Array | None, noise: tuple[Array, Array]) -> Array:
            del legal
            normal, uniform = noise
            drawn = self.actions.draw(state.parts.actor(observations), normal)
            # Uniform between the bounds: the inverse of what squashes.
            return self.actions.action(jnp.where(anything, jnp.arctanh(uniform), drawn))

        normal_key, uniform_key = jax.random.split(noise_key)
        wide = (*shape, self.actions.outputs)
        uniform = jax.random.uniform(uniform_key, wide, minval=-1 + 1e-6, maxval=1 - 1e-6)
        noise = (self.actions.noise(normal_key, shape), uniform)
        worlds, steps, episodes = gather_block(self.env, rule, state.worlds, noise, key)
        onward = state._replace(
            worlds=worlds, replay=state.replay.add(steps), taken=state.taken + self.config.update_every
        )
        return onward, episodes

    def _updated(self, state: SACState, key: Key) -> tuple[SACState, dict[str, Array]]:
        draw_key, noise_key = jax.random.split(key)
        batch = self._drawn(state, draw_key)
        noise = self.actions.noise(noise_key, (2, self.config.batch))
        ready = state.taken > self.config.learning_start

        def scaled(parts: Parts) -> tuple[Array, dict[str, Array]]:
            loss, seen = soft_losses(parts, state.targets, batch, noise, self.actions, state.hyper.entropy)
            return ready * loss, seen

        slopes, seen = jax.grad(scaled, has_aux=True)(state.parts)
        # Before learning starts slopes are 0, with which all of Adam but its counter stays as it began.
        moves, optimizer = _ADAM.update(slopes, state.optimizer)
        optimizer = optimizer._replace(count=jnp.where(ready, optimizer.count, 0))
        parts = Parts(
            _moved(state.parts.actor, moves.actor, state.hyper.learning_rate),
            _moved(state.parts.critics, moves.critics, state.hyper.critic_rate),
            _moved(state.parts.log_temperature, moves.log_temperature, state.hyper.critic_rate),
        )
        targets = jax.tree.map(lambda t, p: t + state.hyper.polyak * (p - t), state.targets, parts.critics)
        return state._replace(parts=parts, targets=targets, optimizer=optimizer), seen

    def _drawn(self, state: SACState, key: Key) -> SACBatch:
        replay = state.replay
        rows = replay.first_rows(jax.random.uniform(key, (self.config.batch,)), 1)
        past: GatheredSteps = jax.tree.map(lambda leaf: leaf[rows], replay.rows)
        flat = past.action.reshape(len(rows), -1)
        scaled = (flat - np.array([self.actions.centre])) / np.array([self.actions.half])
        discount = state.hyper.gamma * (1 - past.terminated.astype(jnp.float32))
        return SACBatch(past.observation, scaled, past.reward, discount, past.following)


def _moved(part: Any, moves: Any, rate: Array | float) -> Any:
    return jax.tree.map(lambda p, move: p - rate * move, part, moves)


__all__ = ["SAC", "Parts", "SACBatch", "SACHyper", "SACState", "soft_losses"]
