"""Behaviour cloning: a policy learns from stored episodes which action comes next, and a value what comes of it.

Actions are made likely, `-log pi(a | s)`; values are fitted to the discounted returns of the episodes. Episodes, not
steps, are held out to judge by: steps of one episode are much alike. What has been learnt can be gone on with by
rewards (`ppo`, setting `start`), as the first AlphaGo did with games (Pomerleau, ALVINN, 1988; Silver et al., 2016).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from chainrule.agents.algorithms.behaviour_cloning.config import CloningConfig
from chainrule.agents.algorithms.behaviour_cloning.teachers import episodes_for
from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers import NormalizeObservation, Wrapper
from chainrule.agents.envs.wrappers.observations import vector_observations
from chainrule.agents.learning.base import Learner
from chainrule.agents.learning.networks import ActorCritic
from chainrule.agents.learning.on_policy import actor_critic, adam_state, adam_step
from chainrule.agents.learning.policies import ActionDistribution, NetworkPolicy, distribution_over, vectors
from chainrule.agents.records.episodes import EpisodeSteps, divided_episodes, steps_of
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int, Key

_JUDGED = 1024
"""Held-out steps that an iteration is judged by, at most."""


class CloningHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gradient_norm: Array | float
    value_weight: Array | float


class CloningState(NamedTuple):
    """Everything that training goes on from."""

    hyper: CloningHyper
    network: ActorCritic
    optimizer: Any
    key: Key
    iteration: Int[Array, ""]


@final
class Cloning(Learner[CloningState]):
    """Training of a policy and its value on stored episodes."""

    env: Environment[Any]
    actions: ActionDistribution
    learnt_from: EpisodeSteps
    held_out: EpisodeSteps
    config: CloningConfig = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    """Of the whole training, over which the learning rate falls."""

    def __init__(self, config: CloningConfig, env: Environment[Any], steps: int) -> None:
        _check_wrappers(env)
        self.env, self.config = vector_observations(env), config
        self.actions = distribution_over(env.action_space)
        steps_seen = steps_of(episodes_for(config, self.env), config.gamma)
        self.learnt_from, self.held_out = divided_episodes(steps_seen, config.held_out)
        self.iterations = max(1, -(-steps // self.steps_per_iteration))

    @property
    def steps_per_iteration(self) -> int:
        """Steps that are learnt from: none is taken."""
        return self.config.batch * self.config.updates

    @property
    def hyper(self) -> CloningHyper:
        return CloningHyper(*(getattr(self.config, name) for name in CloningHyper._fields))

    def begin(self, key: Key, hyper: CloningHyper) -> CloningState:
        network_key, key = jax.random.split(key)
        network = actor_critic(self.config, self.env, self.actions, "none", 0, network_key)
        hyper = jax.tree.map(lambda number: jnp.asarray(number, jnp.float32), hyper)
        return CloningState(hyper, network, adam_state(network), key, jnp.zeros((), jnp.int32))

    def iterate(self, state: CloningState) -> tuple[CloningState, dict[str, Array]]:
        key, draw_key = jax.random.split(state.key)
        shape = (self.config.updates, self.config.batch)
        rows = jax.random.randint(draw_key, shape, 0, len(self.learnt_from))
        rate = state.hyper.learning_rate * (
            jnp.maximum(1 - state.iteration / self.iterations, 0) if self.config.anneal else 1
        )
        flat, unflat = ravel_pytree(state.network)
        slope_of = jax.value_and_grad(
            lambda flat, batch: self.loss(unflat(flat), batch, state.hyper), has_aux=True
        )

        def move(carry: tuple[Array, Any], chosen: Array) -> tuple[tuple[Array, Any], dict[str, Array]]:
            batch = jax.tree.map(lambda column: column[chosen], self.learnt_from)
            (_, seen), slope = slope_of(carry[0], batch)
            return adam_step(*carry, slope, rate, state.hyper.gradient_norm), seen

        (flat, moments), seen = jax.lax.scan(move, (flat, state.optimizer), rows)
        network = unflat(flat)
        judged = self.loss(
            network, jax.tree.map(lambda column: column[:_JUDGED], self.held_out), state.hyper
        )[1]
        metrics = {name: values.mean() for name, values in seen.items()} | {
            "held_out_loss": judged["policy_loss"],
            "held_out_same": judged["same"],
            "learning_rate": jnp.asarray(rate),
        }
        return CloningState(state.hyper, network, moments, key, state.iteration + 1), metrics

    def policy(self, state: CloningState) -> NetworkPolicy:
        return NetworkPolicy(state.network, self.actions)

    def loss(
        self, network: ActorCritic, batch: EpisodeSteps, hyper: CloningHyper
    ) -> tuple[Array, dict[str, Array]]:
        """What is made small: minus the log-probability of what was done, and the error of known returns."""
        seen = vectors(batch.observation)[None]
        numbers, values, _ = network.unroll(seen, jnp.ones(seen.shape[:2], bool), ())
        drawn = self.actions.drawn(batch.action)
        policy_loss = -self.actions.log_prob(numbers[0], drawn).mean()
        squares = batch.known * jnp.square(values[0] - batch.outcome)
        value_loss = 0.5 * squares.sum() / jnp.maximum(batch.known.sum(), 1)
        best = self.actions.action(self.actions.mode(numbers[0])).reshape(batch.action.shape)
        same = jnp.isclose(best, batch.action, atol=0.05).reshape(len(batch.action), -1).all(axis=1)
        return policy_loss + hyper.value_weight * value_loss, {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "same": same.mean(),
            "entropy": self.actions.entropy(numbers[0]).mean(),
        }


def _check_wrappers(env: Environment[Any]) -> None:
    while isinstance(env, Wrapper):
        if isinstance(env, NormalizeObservation):
            raise ArgumentError(
                "normalise_observations: behaviour-cloning takes no steps by which moments could be gathered",
                remedy="leave it out, of the teacher, too",
            )
        env = env.env


__all__ = ["Cloning", "CloningHyper", "CloningState"]
