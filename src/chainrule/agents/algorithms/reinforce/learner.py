"""REINFORCE: whole episodes, each action weighed by what followed it (Williams, 1992).

The gradient of the discounted return is `E sum_t gamma^t (G_t - b) grad log pi(a_t | s_t)`. The factor gamma^t belongs
to it; common practice drops it (`drop_discount`) and follows no gradient of any objective (Nota and Thomas, 2020). A
baseline `b` that does not depend on the action changes the variance and not the mean: a constant learnt from earlier
episodes, the value of the state, or what the other episodes of the batch returned from the same step on.
"""

from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
from jax.flatten_util import ravel_pytree

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers.observations import vector_observations
from chainrule.agents.learning.advantages import discounted_sums, explained_variance
from chainrule.agents.learning.base import HasWorlds, Learner
from chainrule.agents.learning.networks import ActorCritic, SeparateNetworks
from chainrule.agents.learning.on_policy import (
    PolicyConfig,
    PolicyState,
    actor_critic,
    adam_state,
    adam_step,
    annealed,
    begin_policy,
)
from chainrule.agents.learning.policies import ActionDistribution, NetworkPolicy, distribution_over, vectors
from chainrule.agents.learning.rollouts import Rollout, Worlds, begin_worlds, gather
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key

Baseline = Literal["none", "constant", "learned", "leave-one-out"]
_MEMORY = 0.9
"""How much of the constant baseline stays from one iteration to the next."""


@final
class ReinforceConfig(PolicyConfig):
    """Settings of REINFORCE."""

    episodes: int = pydantic.Field(default=8, ge=1, description="episodes in an iteration")
    horizon: int = pydantic.Field(default=500, ge=1, description="steps after which an episode is cut off")
    baseline: Baseline = pydantic.Field(default="learned", description="what returns are compared with")
    drop_discount: bool = pydantic.Field(
        default=False, description="weigh late actions like early ones, without the factor gamma^t"
    )
    learning_rate: float = pydantic.Field(default=3e-3, gt=0, le=1, description="of Adam, at the start")


class ReinforceHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gamma: Array | float
    gradient_norm: Array | float


class ReinforceOptimizer(NamedTuple):
    """Adam's state, and the constant baseline."""

    moments: Any
    constant: Float[Array, ""]


class Episodes(NamedTuple):
    """Whole episodes side by side; what follows the end of one is masked."""

    rollout: Rollout
    alive: Array
    """Steps that belong to the episode."""
    returns: Float[Array, "time worlds"]
    """From each step on."""


def first_episodes(rollout: Rollout, after: Float[Array, "time worlds"], gamma: Any) -> Episodes:
    """The first episode of every world, with returns; `after` values what was cut off, by time or by the horizon."""
    ended = jnp.cumsum(rollout.over, axis=0) - rollout.over
    last = jnp.arange(rollout.over.shape[0])[:, None] == rollout.over.shape[0] - 1
    cut = (rollout.truncated | last) & ~rollout.terminated
    rewards = rollout.rewards + gamma * jnp.where(cut, after, 0)
    return Episodes(rollout, ended == 0, discounted_sums(rewards, rollout.over, gamma))


def others_mean(x: Float[Array, "time worlds"], alive: Array) -> Float[Array, "time worlds"]:
    """For each world the mean over the other worlds that are alive at the same step, 0 where there is none.

    >>> others_mean(jnp.array([[1.0, 2.0, 6.0]]), jnp.array([[True, True, True]])).tolist()
    [[4.0, 3.5, 1.5]]
    """
    own = jnp.where(alive, x, 0)
    count = alive.sum(axis=1, keepdims=True) - alive
    return jnp.where(count > 0, (own.sum(axis=1, keepdims=True) - own) / jnp.maximum(count, 1), 0)


@final
class Reinforce(Learner[PolicyState], HasWorlds):
    """REINFORCE in an environment."""

    env: Environment[Any]
    config: ReinforceConfig = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    """Of the whole training, over which the learning rate falls."""
    actions: ActionDistribution

    def __init__(self, config: ReinforceConfig, env: Environment[Any], steps: int) -> None:
        if config.baseline == "leave-one-out" and config.episodes == 1:
            raise ArgumentError(
                "baseline=leave-one-out compares an episode with the others, and episodes=1 leaves none",
                remedy="use episodes=2 or more, or baseline=constant",
            )
        self.env, self.config = vector_observations(env), config
        self.actions = distribution_over(env.action_space)
        self.iterations = max(1, -(-steps // self.steps_per_iteration))

    @property
    def steps_per_iteration(self) -> int:
        """Padding counts: all worlds go on to the horizon."""
        return self.config.episodes * self.config.horizon

    @property
    def hyper(self) -> ReinforceHyper:
        return ReinforceHyper(*(getattr(self.config, name) for name in ReinforceHyper._fields))

    def begin(self, key: Key, hyper: ReinforceHyper) -> PolicyState:
        network_key, key = jax.random.split(key)
        network = actor_critic(self.config, self.env, self.actions, "none", 0, network_key)
        optimizer = ReinforceOptimizer(adam_state(network), jnp.zeros((), jnp.float32))
        return begin_policy(self.env, network, self.config.episodes, hyper, optimizer, key)

    def iterate(self, state: PolicyState) -> tuple[PolicyState, dict[str, Array]]:
        key, worlds_key, rollout_key = jax.random.split(state.key, 3)
        network = state.network
        worlds = self._anew(state, worlds_key)
        worlds, rollout = gather(self.env, network, self.actions, worlds, self.config.horizon, rollout_key)
        episodes, values = self._judged(network, rollout, state.hyper.gamma)
        weights = self.weights(episodes, values, state.optimizer.constant, state.hyper.gamma)
        slopes, seen = self.gradients(network, episodes, weights)
        rate = annealed(self.config, state, self.iterations)
        flat, unflat = ravel_pytree(network)
        slope = ravel_pytree(jax.tree.map(lambda a: a.mean(axis=0), slopes))[0]
        flat, moments = adam_step(flat, state.optimizer.moments, slope, rate, state.hyper.gradient_norm)
        finished = state.finished.with_ended(
            rollout.over & episodes.alive, rollout.episode_returns, rollout.episode_lengths
        )
        mean = _masked_mean(episodes.returns, episodes.alive)
        constant = jnp.where(
            state.iteration == 0, mean, _MEMORY * state.optimizer.constant + (1 - _MEMORY) * mean
        )
        metrics = (
            seen
            | finished.metrics()
            | {
                "gradient_variance": variance(slopes),
                "explained_variance": explained_variance(values, episodes.returns, episodes.alive),
                "learning_rate": rate,
            }
        )
        optimizer = ReinforceOptimizer(moments, constant)
        return PolicyState(
            state.hyper, unflat(flat), optimizer, worlds, finished, key, state.iteration + 1
        ), metrics

    def worlds(self, state: PolicyState) -> Any:
        return state.worlds.state

    def policy(self, state: PolicyState) -> NetworkPolicy:
        return NetworkPolicy(state.network, self.actions)

    def weights(
        self, episodes: Episodes, values: Float[Array, "time worlds"], constant: Array, gamma: Any
    ) -> Float[Array, "time worlds"]:
        """What `grad log pi` of each step is multiplied with."""
        baseline = {
            "none": lambda: jnp.zeros_like(values),
            "constant": lambda: jnp.broadcast_to(constant, values.shape),
            "learned": lambda: values,
            "leave-one-out": lambda: others_mean(episodes.returns, episodes.alive),
        }[self.config.baseline]()
        times = jnp.arange(values.shape[0], dtype=values.dtype)[:, None]
        discount = jnp.ones_like(times) if self.config.drop_discount else gamma**times
        return jnp.where(episodes.alive, discount * (episodes.returns - baseline), 0)

    def gradients(
        self, network: ActorCritic, episodes: Episodes, weights: Float[Array, "time worlds"]
    ) -> tuple[Any, dict[str, Array]]:
        """The gradient of each episode by itself, of what is made small; an axis of episodes leads."""

        def loss(network: ActorCritic, episode: tuple[Episodes, Array]) -> tuple[Array, dict[str, Array]]:
            own, weights = jax.tree.map(lambda a: a[:, None], episode)
            numbers, values, _ = network.unroll(own.rollout.observations, own.rollout.first, ())
            numbers = self.actions.masked(numbers, own.rollout.legal)
            policy_loss = -(weights * self.actions.log_prob(numbers, own.rollout.drawn)).sum()
            value_loss = 0.5 * _masked_mean(jnp.square(values - own.returns), own.alive)
            entropy = _masked_mean(self.actions.entropy(numbers), own.alive)
            return policy_loss + value_loss, {
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": entropy,
            }

        one = jax.grad(loss, has_aux=True)
        rows = (episodes._replace(rollout=episodes.rollout._replace(memory=())), weights)
        slopes, seen = jax.vmap(one, in_axes=(None, 1))(network, rows)
        return slopes, {name: values.mean() for name, values in seen.items()}

    def _anew(self, state: PolicyState, key: Key) -> Worlds:
        """Worlds in their first states, which are handed what wrappers have gathered so far."""
        fresh = begin_worlds(self.env, state.network, self.config.episodes, key)
        over = jnp.ones(self.config.episodes, bool)
        shown = jax.vmap(lambda seen: seen.reshape(self.env.observation_space.shape))(fresh.observation)
        inner, shown = jax.vmap(lambda *given: self.env.carried_over(*given))(
            state.worlds.state, fresh.state, shown, over
        )
        return fresh._replace(state=inner, observation=vectors(shown))

    def _judged(self, network: ActorCritic, rollout: Rollout, gamma: Any) -> tuple[Episodes, Array]:
        if self.config.baseline != "learned":
            nothing = jnp.zeros_like(rollout.rewards)
            return first_episodes(rollout, nothing, gamma), nothing
        _, values, memories = network.unroll(rollout.observations, rollout.first, rollout.memory)
        after = network.values_after(rollout.final_observations, memories)
        return first_episodes(rollout, after, gamma), values


def variance(slopes: SeparateNetworks) -> Float[Array, ""]:
    """Of the policy's gradient from one episode, summed over its parameters: estimated from the episodes of a batch."""
    leaves = jax.tree.leaves((slopes.actor, slopes.free))
    count = leaves[0].shape[0]
    spread = sum((jnp.square(a - a.mean(axis=0, keepdims=True)).sum() for a in leaves), start=jnp.zeros(()))
    return spread / (count - 1) if count > 1 else jnp.full((), jnp.nan)


def _masked_mean(x: Array, alive: Array) -> Array:
    return jnp.where(alive, x, 0).sum() / alive.sum()


__all__ = [
    "Episodes",
    "Reinforce",
    "ReinforceConfig",
    "ReinforceHyper",
    "first_episodes",
    "others_mean",
    "variance",
]
