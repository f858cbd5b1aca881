"""Trust region policy optimisation: the best step that moves the policy no further than a given divergence.

The surrogate `E[rho A]` is made large subject to a mean Kullback-Leibler divergence from the old to the new policy of
at most `trust`. To second order the divergence is `1/2 s' F s` with its Hessian F at the old policy, which is only ever
multiplied with vectors; so the step lies along `F^-1 g`, found by conjugate gradients, and is as long as F allows. What
the expansion leaves out is checked: the step is shortened until divergence and surrogate both pass, and not taken where
neither does (Schulman et al., Trust region policy optimization, ICML 2015).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers.observations import vector_observations
from chainrule.agents.learning.advantages import explained_variance, normalised
from chainrule.agents.learning.base import HasLearningSignal, HasWorlds, Learner, LearningSignal
from chainrule.agents.learning.networks import SeparateNetworks
from chainrule.agents.learning.on_policy import (
    ADAM,
    Experience,
    PolicyConfig,
    PolicyState,
    adam_step,
    advantage_signal,
    annealed,
    begin_policy,
    judged,
)
from chainrule.agents.learning.policies import ActionDistribution, NetworkPolicy, distribution_over
from chainrule.agents.learning.rollouts import gather
from chainrule.core.types import Array, Float, Key
from chainrule.derive import hvp

Vector = Float[Array, " entries"]


@final
class TRPOConfig(PolicyConfig):
    """Settings of trust region policy optimisation; learning rate and norm are those of the value."""

    environments: int = pydantic.Field(default=8, ge=1, description="worlds side by side")
    length: int = pydantic.Field(default=256, ge=1, description="steps of each world in an iteration")
    trust: float = pydantic.Field(default=0.01, gt=0, le=10, description="largest mean divergence, in nats")
    damping: float = pydantic.Field(default=0.1, ge=0, le=10, description="added to F times the identity")
    cg_steps: int = pydantic.Field(default=10, ge=1, le=1000, description="steps of conjugate gradients")
    shorten: float = pydantic.Field(default=0.8, gt=0, lt=1, description="factor of a step that did not pass")
    tries: int = pydantic.Field(default=10, ge=1, le=1000, description="how often a step is shortened")
    decay: float = pydantic.Field(default=0.95, ge=0, le=1, description="lambda of generalised advantages")
    learning_rate: float = pydantic.Field(default=1e-3, gt=0, le=1, description="of the value's Adam")
    value_steps: int = pydantic.Field(
        default=40, ge=1, description="steps of the value's Adam in an iteration, each on all experience"
    )


class TRPOHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gamma: Array | float
    decay: Array | float
    trust: Array | float
    damping: Array | float
    gradient_norm: Array | float


def natural_step(
    gradient: Vector, product: Callable[[Vector], Vector], trust: Any, damping: Any, steps: int
) -> Vector:
    """`sqrt(2 trust / s' A s) s` with `A s = g`, `A = F + damping`, by so many steps of conjugate gradients.

    Where F is the identity this is the gradient, scaled:

    >>> natural_step(jnp.array([3.0, 4.0]), lambda v: v, 0.5, 0.0, 10).round(3).tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    def damped(v: Vector) -> Vector:
        return product(v) + damping * v

    direction = cg(damped, gradient, maxiter=steps, tol=1e-6)[0]
    squared = jnp.vdot(direction, damped(direction))
    return jnp.where(squared > 0, jnp.sqrt(2 * trust / jnp.where(squared > 0, squared, 1)), 0) * direction


class SearchedStep(NamedTuple):
    """What a search along a step came to."""

    flat: Vector
    """Where it ended; the start where nothing passed."""
    accepted: Array
    divergence: Array
    tried: Array


def backtracked(
    flat: Vector,
    step: Vector,
    judge: Callable[[Vector], tuple[Array, Array]],
    trust: Any,
    shorten: float,
    tries: int,
) -> SearchedStep:
    """The longest of the steps `1, shorten, shorten^2, ...` that raises the surrogate within the trust region.

    `judge` gives surrogate and divergence of parameters.
    """
    before = judge(flat)[0]

    def unfinished(carry: SearchedStep) -> Array:
        return ~carry.accepted & (carry.tried < tries)

    def attempt(carry: SearchedStep) -> SearchedStep:
        candidate = flat + shorten ** carry.tried.astype(flat.dtype) * step
        surrogate, divergence = judge(candidate)
        passed = (surrogate > before) & (divergence <= trust)
        return SearchedStep(
            jnp.where(passed, candidate, flat), passed, jnp.where(passed, divergence, 0), carry.tried + 1
        )

    start = SearchedStep(flat, jnp.zeros((), bool), jnp.zeros((), flat.dtype), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, attempt, start)


@final
class TRPO(Learner[PolicyState], HasLearningSignal, HasWorlds):
    """Trust region policy optimisation in an environment."""

    env: Environment[Any]
    config: TRPOConfig = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    """Of the whole training, over which the value's learning rate falls."""
    actions: ActionDistribution

    def __init__(self, config: TRPOConfig, env: Environment[Any], steps: int) -> None:
        self.env, self.config = vector_observations(env), config
        self.actions = distribution_over(env.action_space)
        self.iterations = max(1, -(-steps // self.steps_per_iteration))

    @property
    def steps_per_iteration(self) -> int:
        return self.config.environments * self.config.length

    @property
    def hyper(self) -> TRPOHyper:
        return TRPOHyper(*(getattr(self.config, name) for name in TRPOHyper._fields))

    def begin(self, key: Key, hyper: TRPOHyper) -> PolicyState:
        network_key, key = jax.random.split(key)
        inputs = math.prod(self.env.observation_space.shape)
        network = SeparateNetworks(
            inputs,
            self.actions.outputs,
            self.actions.free,
            self.config.widths,
            self.config.activation,
            key=network_key,
        )
        moments = ADAM.init(ravel_pytree(network.critic)[0])
        return begin_policy(self.env, network, self.config.environments, hyper, moments, key)

    def iterate(self, state: PolicyState) -> tuple[PolicyState, dict[str, Array]]:
        key, rollout_key = jax.random.split(state.key)
        hyper, network = state.hyper, state.network
        assert isinstance(network, SeparateNetworks), network
        worlds, rollout = gather(
            self.env, network, self.actions, state.worlds, self.config.length, rollout_key
        )
        batch = judged(network, self.actions, rollout, hyper.gamma, hyper.decay)
        searched, actor, surrogate = self.improved(network, batch, hyper)
        rate = annealed(self.config, state, self.iterations)
        critic, moments, value_loss = self._fitted(network, batch, state, rate)
        finished = state.finished.after(rollout)
        metrics = finished.metrics() | {
            "policy_loss": -surrogate,
            "value_loss": value_loss,
            "entropy": self.actions.entropy(batch.numbers).mean(),
            "kl": searched.divergence,
            "accepted": searched.accepted.astype(jnp.float32),
            "tried": searched.tried.astype(jnp.float32),
            "explained_variance": explained_variance(batch.values, batch.targets),
            "learning_rate": rate,
        }
        moved = eqx.tree_at(lambda n: (n.actor, n.free, n.critic), network, (*actor, critic))
        return PolicyState(hyper, moved, moments, worlds, finished, key, state.iteration + 1), metrics

    def worlds(self, state: PolicyState) -> Any:
        return state.worlds.state

    def policy(self, state: PolicyState) -> NetworkPolicy:
        return NetworkPolicy(state.network, self.actions)

    def signal(self, state: PolicyState, key: Key) -> LearningSignal:
        return advantage_signal(self.env, self.actions, state, self.config.length, key)

    def judge(
        self, network: SeparateNetworks, batch: Experience
    ) -> tuple[Vector, Callable[[Vector], Any], Callable[[Vector], tuple[Array, Array]]]:
        """The policy's parameters as a vector, the way back, and surrogate and mean divergence as functions of them."""
        flat, unflat = ravel_pytree((network.actor, network.free))
        advantages = normalised(batch.advantages)

        def judge(flat: Vector) -> tuple[Array, Array]:
            moved = eqx.tree_at(lambda n: (n.actor, n.free), network, unflat(flat))
            numbers = moved.unroll(batch.observations, batch.first, ())[0]
            numbers = self.actions.masked(numbers, batch.legal)
            ratio = jnp.exp(self.actions.log_prob(numbers, batch.drawn) - batch.log_probs)
            return (ratio * advantages).mean(), self.actions.divergence(batch.numbers, numbers).mean()

        return flat, unflat, judge

    def improved(
        self, network: SeparateNetworks, batch: Experience, hyper: TRPOHyper
    ) -> tuple[SearchedStep, Any, Array]:
        """The search, the policy's parameters after it, and the surrogate there."""
        flat, unflat, judge = self.judge(network, batch)
        gradient = jax.grad(lambda x: judge(x)[0])(flat)
        product = hvp(lambda x: judge(x)[1])
        config = self.config
        step = natural_step(gradient, lambda v: product(flat, v), hyper.trust, hyper.damping, config.cg_steps)
        searched = backtracked(flat, step, judge, hyper.trust, config.shorten, config.tries)
        return searched, unflat(searched.flat), judge(searched.flat)[0]

    def _fitted(
        self, network: SeparateNetworks, batch: Experience, state: PolicyState, rate: Array
    ) -> tuple[Any, Any, Array]:
        flat, unflat = ravel_pytree(network.critic)

        def loss(flat: Vector) -> Array:
            return 0.5 * jnp.square(unflat(flat)(batch.observations)[..., 0] - batch.targets).mean()

        def move(carry: tuple[Vector, Any], _: None) -> tuple[tuple[Vector, Any], Array]:
            value, slope = jax.value_and_grad(loss)(carry[0])
            return adam_step(*carry, slope, rate, state.hyper.gradient_norm), value

        (flat, moments), losses = jax.lax.scan(move, (flat, state.optimizer), length=self.config.value_steps)
        return unflat(flat), moments, losses.mean()


__all__ = ["TRPO", "SearchedStep", "TRPOConfig", "TRPOHyper", "backtracked", "natural_step"]
