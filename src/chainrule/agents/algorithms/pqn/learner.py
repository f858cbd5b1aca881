"""Parallel Q-learning: many worlds in step, no memory of the past, no second network.

Values are learnt from what has just happened, by returns that mix all numbers of steps:
`G_t = r_t + gamma ((1 - lambda) max_a Q(s_{t+1}, a) + lambda G_{t+1})`, cut at the ends of episodes. Layer norm keeps
values from running away, which replay and a frozen copy do elsewhere; steps of many worlds are as little alike as steps
drawn from the past (Gallici et al., Simplifying deep temporal difference learning, 2025).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from chainrule.agents.algorithms.pqn.config import PQNConfig, check
from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.advantages import discounted_sums
from chainrule.agents.learning.base import HasWorlds, Learner
from chainrule.agents.learning.exploration import draw_by, epsilon_greedy_probabilities, linear
from chainrule.agents.learning.gathering import (
    EpisodeTotals,
    GatheredSteps,
    RunningWorlds,
    begin_running,
    gather_block,
)
from chainrule.agents.learning.returns import ExpectedReturns
from chainrule.agents.learning.rollouts import EndedEpisodes
from chainrule.agents.learning.value_networks import (
    InputFormat,
    ValueNetwork,
    ValuePolicy,
    body,
    chosen,
    count_actions,
    input_format,
)
from chainrule.core import tree
from chainrule.core.types import Array, Float, Int, Key

_ADAM = optax.scale_by_radam()


class PQNHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gradient_norm: Array | float
    gamma: Array | float
    decay: Array | float
    epsilon_start: Array | float
    epsilon_end: Array | float
    exploration: Array | float


class PQNState(NamedTuple):
    """Everything that training goes on from."""

    hyper: PQNHyper
    network: ValueNetwork
    optimizer: Any
    worlds: RunningWorlds
    finished: EndedEpisodes
    key: Key
    taken: Int[Array, ""]
    """Steps of all worlds so far."""


class Example(NamedTuple):
    """What a minibatch holds."""

    observation: Array
    action: Int[Array, " batch"]
    target: Float[Array, " batch"]


def lambda_returns(
    network: ValueNetwork, steps: GatheredSteps, gamma: Array | float, decay: Array | float
) -> Float[Array, "time worlds"]:
    """Returns of steps in a row, valued by the network where they stop; nothing is differentiated."""
    time, worlds = steps.reward.shape
    values = network.values(steps.following.reshape(time * worlds, *steps.following.shape[2:]))
    values = values.reshape(time, worlds, -1)
    best = (values if steps.legal is None else jnp.where(steps.legal, values, -jnp.inf)).max(-1)
    # Where an episode ends, or the steps do, one step is all there is.
    cut = (steps.terminated | steps.truncated).at[-1].set(True)
    relied = jnp.where(steps.terminated, 0, best) * jnp.where(cut, 1, 1 - jnp.asarray(decay))
    return discounted_sums(steps.reward + gamma * relied, cut, jnp.asarray(gamma) * decay)


@final
class PQN(Learner[PQNState], HasWorlds):
    """Parallel Q-learning, set up for an environment."""

    env: Environment[Any]
    inputs: InputFormat = eqx.field(static=True)
    config: PQNConfig = eqx.field(static=True)
    total: int = eqx.field(static=True)
    """Steps of the whole training, which schedules are laid over."""

    def __init__(self, config: PQNConfig, env: Environment[Any], steps: int) -> None:
        count_actions("pqn", env.action_space)
        check(config)
        self.env, self.config, self.total = env, config, steps
        self.inputs = input_format(env.observation_space)

    @property
    def steps_per_iteration(self) -> int:
        return self.config.environments * self.config.length

    @property
    def hyper(self) -> PQNHyper:
        return PQNHyper(*(getattr(self.config, name) for name in PQNHyper._fields))

    def begin(self, key: Key, hyper: PQNHyper) -> PQNState:
        body_key, head_key, world_key, key = jax.random.split(key, 4)
        actions = count_actions("pqn", self.env.action_space)
        own = body(self.inputs, self.config.widths, normalised=True, key=body_key)
        network = ValueNetwork(own, actions, ExpectedReturns(), dueling=self.config.dueling, key=head_key)
        return PQNState(
            hyper=jax.tree.map(jnp.float32, hyper),
            network=network,
            optimizer=_ADAM.init(network),
            worlds=begin_running(self.env, self.config.environments, world_key),
            finished=EndedEpisodes.none(),
            key=key,
            taken=jnp.zeros((), jnp.int32),
        )

    def iterate(self, state: PQNState) -> tuple[PQNState, dict[str, Array]]:
        key, step_key, noise_key, learn_key = jax.random.split(state.key, 4)
        state = state._replace(key=key)
        rate = self._rate(state)
        state, steps, episodes = self._gathered(state, step_key, noise_key)
        state, seen = self._learnt(state, steps, rate, learn_key)
        finished = state.finished.with_ended(*episodes)
        metrics = {
            **finished.metrics(),
            "loss": seen["loss"].mean(),
            "q_mean": seen["q_mean"].mean(),
            "q_max": seen["q_max"].max(),
            "td_error": seen["td_error"].mean(),
            "epsilon": self._epsilon(state),
            "learning_rate": rate,
        }
        return state._replace(finished=finished), metrics

    def worlds(self, state: PQNState) -> Any:
        return state.worlds.state

    def policy(self, state: PQNState) -> ValuePolicy:
        return ValuePolicy(state.network, self._epsilon(state))

    def _epsilon(self, state: PQNState) -> Array:
        h = state.hyper
        return linear(state.taken, h.epsilon_start, h.epsilon_end, h.exploration * self.total)

    def _rate(self, state: PQNState) -> Array:
        rate = jnp.asarray(state.hyper.learning_rate)
        return linear(state.taken, rate, 0.0, self.total) if self.config.anneal else rate

    def _gathered(
        self, state: PQNState, key: Key, noise_key: Key
    ) -> tuple[PQNState, GatheredSteps, EpisodeTotals]:
        epsilon = self._epsilon(state)

        def rule(observations: Array, legal: Array | None, uniform: Array) -> Array:
            values = state.network.values(observations)
            return draw_by(uniform, epsilon_greedy_probabilities(values, epsilon, legal))

        uniform = jax.random.uniform(noise_key, (self.config.length, self.config.environments))
        worlds, steps, episodes = gather_block(self.env, rule, state.worlds, uniform, key)
        onward = state._replace(worlds=worlds, taken=state.taken + self.steps_per_iteration)
        return onward, steps, episodes

    def _learnt(
        self, state: PQNState, steps: GatheredSteps, rate: Array, key: Key
    ) -> tuple[PQNState, dict[str, Array]]:
        """Some passes over the steps; targets are made anew before each."""
        count, parts = self.steps_per_iteration, self.config.minibatches

        def epoch(state: PQNState, key: Key) -> tuple[PQNState, dict[str, Array]]:
            targets = lambda_returns(state.network, steps, state.hyper.gamma, state.hyper.decay)
            examples = Example(steps.observation, steps.action, targets)
            order = jax.random.permutation(key, count).reshape(parts, -1)
            shuffled = jax.tree.map(lambda x: x.reshape(count, *x.shape[2:])[order], examples)
            return jax.lax.scan(lambda s, part: self._updated(s, part, rate), state, shuffled)

        return jax.lax.scan(epoch, state, jax.random.split(key, self.config.epochs))

    def _updated(self, state: PQNState, part: Example, rate: Array) -> tuple[PQNState, dict[str, Array]]:
        def loss(network: ValueNetwork) -> tuple[Array, tuple[Array, Array]]:
            outputs = network(part.observation)
            errors = part.target - chosen(outputs, part.action)[:, 0]
            return 0.5 * jnp.square(errors).mean(), (errors, network.returns.values(outputs))

        (value, (errors, values)), slopes = jax.value_and_grad(loss, has_aux=True)(state.network)
        shorter = jnp.minimum(1.0, state.hyper.gradient_norm / jnp.maximum(tree.norm(slopes), 1e-12))
        moves, optimizer = _ADAM.update(tree.scale(shorter, slopes), state.optimizer)
        network = jax.tree.map(lambda p, move: p - rate * move, state.network, moves)
        seen = {
            "loss": value,
            "q_mean": values.mean(),
            "q_max": values.max(),
            "td_error": jnp.abs(errors).mean(),
        }
        return state._replace(network=network, optimizer=optimizer), seen


__all__ = ["PQN", "PQNHyper", "PQNState", "lambda_returns"]
