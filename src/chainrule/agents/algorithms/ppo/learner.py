"""Proximal policy optimisation: several passes over each rollout, with a ratio that is not rewarded for going far.

Each iteration gathers a rollout, values it, and goes over it in epochs of minibatches. The objective
`min(rho A, clip(rho, 1 - eps, 1 + eps) A)` of the ratio rho of new to old probabilities has no gradient where rho has
already gone further than eps in the direction that the advantage A asks for; where it has gone the other way the
gradient stays (Schulman et al., Proximal policy optimization algorithms, 2017).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from chainrule.agents.algorithms.ppo.config import PPOConfig, resolved
from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers.observations import vector_observations
from chainrule.agents.learning.advantages import explained_variance, normalised
from chainrule.agents.learning.base import HasLearningSignal, HasWorlds, Learner, LearningSignal
from chainrule.agents.learning.networks import ActorCritic
from chainrule.agents.learning.on_policy import (
    Experience,
    PolicyState,
    actor_critic,
    adam_state,
    adam_step,
    annealed,
    begin_policy,
    judged,
)
from chainrule.agents.learning.policies import ActionDistribution, NetworkPolicy, distribution_over
from chainrule.agents.learning.rollouts import gather
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree


class PPOHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gamma: Array | float
    decay: Array | float
    clip: Array | float
    entropy: Array | float
    value_weight: Array | float
    gradient_norm: Array | float


def clipped_objective(ratio: Float[Array, "*any"], advantages: Float[Array, "*any"], clip: Any) -> Array:
    """`min(rho A, clip(rho, 1 - eps, 1 + eps) A)`, to be made large.

    >>> clipped_objective(jnp.array([1.5, 1.5, 0.5, 0.5]), jnp.array([1.0, -1.0, 1.0, -1.0]), 0.2).tolist()
    [1.2000000476837158, -1.5, 0.5, -0.800000011920929]
    """
    return jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages)


@final
class PPO(Learner[PolicyState], HasLearningSignal, HasWorlds):
    """Proximal policy optimisation in an environment."""

    env: Environment[Any]
    config: PPOConfig = eqx.field(static=True)
    """With nothing left open."""
    iterations: int = eqx.field(static=True)
    """Of the whole training, over which the learning rate falls."""
    actions: ActionDistribution
    initial: ActorCritic | None
    """The network that training begins with; None to begin with nothing."""

    def __init__(
        self, config: PPOConfig, env: Environment[Any], steps: int, initial: ActorCritic | None = None
    ) -> None:
        self.env = vector_observations(env)
        self.config = resolved(config, env)
        self.actions = distribution_over(env.action_space)
        self.iterations = max(1, -(-steps // self.steps_per_iteration))
        if initial is not None:
            _check_alike(eqx.filter_eval_shape(lambda key: self._fresh(key), jax.random.key(0)), initial)
        self.initial = initial

    @property
    def steps_per_iteration(self) -> int:
        return self._worlds * self._length

    @property
    def hyper(self) -> PPOHyper:
        return PPOHyper(*(getattr(self.config, name) for name in PPOHyper._fields))

    def begin(self, key: Key, hyper: PPOHyper) -> PolicyState:
        network_key, key = jax.random.split(key)
        network = self._fresh(network_key) if self.initial is None else self.initial
        return begin_policy(self.env, network, self._worlds, hyper, adam_state(network), key)

    def iterate(self, state: PolicyState) -> tuple[PolicyState, dict[str, Array]]:
        key, rollout_key, shuffle_key = jax.random.split(state.key, 3)
        worlds, rollout = gather(
            self.env, state.network, self.actions, state.worlds, self._length, rollout_key
        )
        experience = judged(state.network, self.actions, rollout, state.hyper.gamma, state.hyper.decay)
        rate = annealed(self.config, state, self.iterations)
        network, moments, metrics = self._improve(state, experience, rollout.memory, rate, shuffle_key)
        finished = state.finished.after(rollout)
        metrics |= finished.metrics() | {
            "explained_variance": explained_variance(experience.values, experience.targets),
            "learning_rate": rate,
        }
        after = PolicyState(state.hyper, network, moments, worlds, finished, key, state.iteration + 1)
        return after, metrics

    def worlds(self, state: PolicyState) -> Any:
        return state.worlds.state

    def policy(self, state: PolicyState) -> NetworkPolicy:
        return NetworkPolicy(state.network, self.actions)

    def signal(self, state: PolicyState, key: Key) -> LearningSignal:
        """Advantages of a rollout, and ratios after all passes over it with a learning rate that has not fallen."""
        rollout_key, shuffle_key = jax.random.split(key)
        _, rollout = gather(self.env, state.network, self.actions, state.worlds, self._length, rollout_key)
        hyper = state.hyper
        batch = judged(state.network, self.actions, rollout, hyper.gamma, hyper.decay)
        moved = self._improve(state, batch, rollout.memory, hyper.learning_rate, shuffle_key)[0]
        numbers = self.actions.masked(
            moved.unroll(batch.observations, batch.first, rollout.memory)[0], batch.legal
        )
        ratio = jnp.exp(self.actions.log_prob(numbers, batch.drawn) - batch.log_probs)
        found = {"advantage": batch.advantages.ravel(), "ratio": ratio.ravel()}
        return LearningSignal(found, {"ratio": (1 - hyper.clip, 1 + hyper.clip)})

    def loss(
        self, network: ActorCritic, batch: Experience, memory: Tree, hyper: PPOHyper
    ) -> tuple[Array, dict[str, Array]]:
        """What a minibatch makes small: the clipped objective's negative, the value's loss, less entropy."""
        numbers, values, _ = network.unroll(batch.observations, batch.first, memory)
        numbers = self.actions.masked(numbers, batch.legal)
        log_ratio = self.actions.log_prob(numbers, batch.drawn) - batch.log_probs
        ratio = jnp.exp(log_ratio)
        advantages = normalised(batch.advantages) if self.config.normalise else batch.advantages
        policy_loss = -clipped_objective(ratio, advantages, hyper.clip).mean()
        value_loss = 0.5 * self._squares(values, batch, hyper).mean()
        entropy = self.actions.entropy(numbers).mean()
        total = policy_loss + hyper.value_weight * value_loss - hyper.entropy * entropy
        return total, {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": (jnp.abs(ratio - 1) > hyper.clip).mean(),
        }

    def _squares(self, values: Array, batch: Experience, hyper: PPOHyper) -> Array:
        squares = jnp.square(values - batch.targets)
        if not self.config.value_clip:
            return squares
        near = batch.values + jnp.clip(values - batch.values, -hyper.clip, hyper.clip)
        return jnp.maximum(squares, jnp.square(near - batch.targets))

    def _improve(
        self, state: PolicyState, experience: Experience, memory: Tree, rate: Array, key: Key
    ) -> tuple[ActorCritic, Any, dict[str, Array]]:
        flat, unflat = ravel_pytree(state.network)
        if self.config.memory == "none":
            # Steps are examples by themselves: a stretch of time of length one, with as many worlds as there are steps.
            experience = jax.tree.map(lambda a: a.reshape(1, -1, *a.shape[2:]), experience)
        count, parts = experience.advantages.shape[1], int(self.config.minibatches or 1)
        # Orders of all epochs at once, by sorting random numbers.
        orders = jnp.argsort(jax.random.bits(key, (int(self.config.epochs or 1), count)), axis=1)
        gradient = jax.value_and_grad(
            lambda flat, batch, memory: self.loss(unflat(flat), batch, memory, state.hyper), has_aux=True
        )

        def move(carry: tuple[Array, Any, Array], chosen: Array) -> tuple[tuple[Array, Any, Array], Any]:
            flat, moments, going = carry
            batch = jax.tree.map(lambda a: a[:, chosen], experience)
            own = jax.tree.map(lambda a: a[chosen], memory)
            (_, seen), slope = gradient(flat, batch, own)
            moved = adam_step(flat, moments, slope, rate, state.hyper.gradient_norm)
            if self.config.target_kl is not None:
                moved = jax.tree.map(lambda new, old: jnp.where(going, new, old), moved, (flat, moments))
            return (*moved, going), seen

        def epoch(carry: tuple[Array, Any, Array], order: Array) -> tuple[tuple[Array, Any, Array], Any]:
            (flat, moments, going), seen = jax.lax.scan(move, carry, order.reshape(parts, -1))
            if self.config.target_kl is not None:
                going &= seen["kl"][-1] <= self.config.target_kl
            return (flat, moments, going), seen

        start = (flat, state.optimizer, jnp.ones((), bool))
        (flat, moments, _), seen = jax.lax.scan(epoch, start, orders)
        return unflat(flat), moments, {name: values.mean() for name, values in seen.items()}

    def _fresh(self, key: Key) -> ActorCritic:
        config = self.config
        return actor_critic(config, self.env, self.actions, config.memory, config.hidden, key)

    @property
    def _worlds(self) -> int:
        return int(self.config.environments or 1)

    @property
    def _length(self) -> int:
        return int(self.config.length or 1)


def _check_alike(wanted: ActorCritic, given: ActorCritic) -> None:
    """Refuse a network of another kind or size than the settings say."""
    shapes = [[leaf.shape for leaf in jax.tree.leaves(one)] for one in (wanted, given)]
    if type(wanted) is not type(given) or shapes[0] != shapes[1]:
        raise ArgumentError(
            "start: the network to begin with has another size than these settings, or sees another world",
            remedy="use its environment, and its settings of widths, activation and memory",
        )


__all__ = ["PPO", "PPOHyper", "clipped_objective"]
