"""What policy gradients share: settings of networks, the state that training goes on from, and steps along gradients.

Parameters are optimised as one vector: a step of Adam is then one pass over memory instead of one for each array, and
its length is one sum.
"""

import abc
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pydantic
from jax.flatten_util import ravel_pytree

from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.advantages import generalised_advantages, temporal_differences
from chainrule.agents.learning.base import LearningSignal
from chainrule.agents.learning.networks import ActorCritic, RecurrentNetwork, SeparateNetworks
from chainrule.agents.learning.policies import ActionDistribution
from chainrule.agents.learning.rollouts import EndedEpisodes, Rollout, Worlds, begin_worlds, gather
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Key
from chainrule.nn import GRU, LSTM

ADAM = optax.scale_by_adam(eps=1e-5)
"""With the larger epsilon of policy gradients: gradients of a policy that is nearly certain are small."""


class PolicyConfig(Config, abc.ABC):
    """Settings of every policy gradient."""

    gamma: float = pydantic.Field(default=0.99, ge=0, le=1, description="discount of rewards")
    anneal: bool = pydantic.Field(
        default=True, description="let the learning rate fall to 0 over the training"
    )
    gradient_norm: float = pydantic.Field(default=0.5, gt=0, le=1e6, description="longest gradient")
    widths: tuple[int, ...] = pydantic.Field(
        default=(64, 64), min_length=1, description="units of each dense layer"
    )
    activation: Literal["tanh", "relu"] = pydantic.Field(default="tanh", description="between layers")


class Experience(NamedTuple):
    """A rollout, judged by the network that gathered it; axes of time and worlds lead."""

    observations: Float[Array, "time worlds inputs"]
    first: Array
    drawn: Array
    legal: Array | None
    numbers: Float[Array, "time worlds numbers"]
    """Of the policy as it was."""
    log_probs: Float[Array, "time worlds"]
    advantages: Float[Array, "time worlds"]
    values: Float[Array, "time worlds"]
    targets: Float[Array, "time worlds"]
    """What values should have been: advantages added to them."""


def judged(
    network: ActorCritic, actions: ActionDistribution, rollout: Rollout, gamma: Any, decay: Any
) -> Experience:
    """A rollout with generalised advantages, and with what the network thought while it was gathered."""
    numbers, values, memories = network.unroll(rollout.observations, rollout.first, rollout.memory)
    after = network.values_after(rollout.final_observations, memories)
    differences = temporal_differences(rollout.rewards, values, after, rollout.terminated, gamma)
    advantages = generalised_advantages(differences, rollout.over, gamma, decay)
    numbers = actions.masked(numbers, rollout.legal)
    return Experience(
        rollout.observations,
        rollout.first,
        rollout.drawn,
        rollout.legal,
        numbers,
        actions.log_prob(numbers, rollout.drawn),
        advantages,
        values,
        advantages + values,
    )


def advantage_signal(
    env: Environment[Any], actions: ActionDistribution, state: "PolicyState", length: int, key: Key
) -> LearningSignal:
    """Advantages of so many steps of every world, as an update would see them."""
    _, rollout = gather(env, state.network, actions, state.worlds, length, key)
    found = judged(state.network, actions, rollout, state.hyper.gamma, state.hyper.decay)
    return LearningSignal({"advantage": found.advantages.ravel()}, {})


class PolicyState(NamedTuple):
    """Everything that a training goes on from."""

    hyper: Any
    """Settings that are numbers, a NamedTuple of the algorithm's own."""
    network: ActorCritic
    optimizer: Any
    worlds: Worlds
    finished: EndedEpisodes
    key: Key
    iteration: Array


def begin_policy(
    env: Environment[Any], network: ActorCritic, worlds: int, hyper: Any, optimizer: Any, key: Key
) -> PolicyState:
    """The state that a training begins with."""
    worlds_key, key = jax.random.split(key)
    running = begin_worlds(env, network, worlds, worlds_key)
    hyper = jax.tree.map(lambda number: jnp.asarray(number, jnp.float32), hyper)
    return PolicyState(
        hyper, network, optimizer, running, EndedEpisodes.none(), key, jnp.zeros((), jnp.int32)
    )


def actor_critic(
    config: PolicyConfig,
    env: Environment[Any],
    actions: ActionDistribution,
    memory: str,
    hidden: int,
    key: Key,
) -> ActorCritic:
    """The network that the settings describe; `memory` is "none", "gru" or "lstm"."""
    inputs = math.prod(env.observation_space.shape)
    if memory == "none":
        return SeparateNetworks(
            inputs, actions.outputs, actions.free, config.widths, config.activation, key=key
        )
    return RecurrentNetwork(
        inputs,
        actions.outputs,
        actions.free,
        config.widths[0],
        {"gru": GRU, "lstm": LSTM}[memory],
        hidden,
        config.activation,
        key=key,
    )


def adam_state(network: ActorCritic) -> Any:
    """Adam's state for all parameters as one vector."""
    return ADAM.init(ravel_pytree(network)[0])


def shortened(slope: Float[Array, " entries"], longest: Any) -> Float[Array, " entries"]:
    """The gradient, no longer than `longest`.

    >>> shortened(jnp.array([3.0, 4.0]), 1.0).round(3).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    return slope * jnp.minimum(1, longest / (jnp.linalg.norm(slope) + 1e-6))


def adam_step(
    flat: Float[Array, " entries"], moments: Any, slope: Float[Array, " entries"], rate: Any, longest: Any
) -> tuple[Float[Array, " entries"], Any]:
    """One step of Adam down a gradient that is no longer than `longest`."""
    update, after = ADAM.update(shortened(slope, longest), moments)
    return flat - rate * update, after


def annealed(config: PolicyConfig, state: PolicyState, iterations: int) -> Float[Array, ""]:
    """The learning rate of an iteration of a training that has so many."""
    rate: Array = state.hyper.learning_rate
    return rate * jnp.maximum(1 - state.iteration / iterations, 0) if config.anneal else rate


__all__ = [
    "ADAM",
    "Experience",
    "PolicyConfig",
    "PolicyState",
    "actor_critic",
    "adam_state",
    "adam_step",
    "advantage_signal",
    "annealed",
    "begin_policy",
    "judged",
    "shortened",
]
