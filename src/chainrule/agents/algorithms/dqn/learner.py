"""Deep Q-learning: the value of every action by a network, learnt from steps drawn from the past.

The target `y = r + gamma (1 - terminated) max_a' Q(s', a'; old)` is made with parameters that stay as they were for a
while and takes no part in differentiation, so that the gradient of `1/2 E (y - Q)^2` is `-E[(y - Q) grad Q]` (Mnih et
al., 2015). Which action is best is asked of the present parameters, what it is worth of the old ones: a maximum of
noisy values is too large (van Hasselt et al., 2016).

An iteration lasts from one copy of the parameters to the next. It is two loops, one in the other: updates, and the
steps before each. Nowhere is it asked whether it is time yet: where runs go side by side, both answers would be paid.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from chainrule.agents.algorithms.dqn.config import DQNConfig, check, returns_of
from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.base import HasLearningSignal, HasWorlds, Learner, LearningSignal
from chainrule.agents.learning.exploration import draw_by, epsilon_greedy_probabilities, linear
from chainrule.agents.learning.gathering import (
    EpisodeTotals,
    GatheredSteps,
    RunningWorlds,
    begin_running,
    gather_block,
    one_step,
)
from chainrule.agents.learning.replay import Priorities, Replay, prioritised, summed
from chainrule.agents.learning.returns import Returns
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
from chainrule.core.types import Array, Float, Int, Key

_SHOWN = 16
"""Batches of which temporal differences are shown."""


class DQNHyper(NamedTuple):
    """Settings that are numbers."""

    learning_rate: Array | float
    gamma: Array | float
    polyak: Array | float
    epsilon_start: Array | float
    epsilon_end: Array | float
    exploration: Array | float
    priority: Array | float
    importance: Array | float


class ReplayBatch(NamedTuple):
    """Steps drawn from the past, each with the rewards it led to and what followed."""

    observation: Array
    action: Int[Array, " batch"]
    reward: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    following: Array
    legal: Array | None
    """Actions that are legal in what followed, where not all are."""
    weight: Float[Array, " batch"]


class DQNState(NamedTuple):
    """Everything that training goes on from."""

    hyper: DQNHyper
    network: ValueNetwork
    target: ValueNetwork
    optimizer: Any
    replay: Replay
    priorities: Priorities | None
    worlds: RunningWorlds
    finished: EndedEpisodes
    key: Key
    taken: Int[Array, ""]
    """Steps of all worlds so far."""


def q_loss(
    network: ValueNetwork, target: ValueNetwork, batch: ReplayBatch, double: bool
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    """The mean loss of a batch, with temporal differences and values; `target` is not differentiated."""
    outputs = network(batch.observation)
    after = target(batch.following)
    judge = jax.lax.stop_gradient(network)(batch.following) if double else after
    values = network.returns.values(judge)
    best = jnp.argmax(values if batch.legal is None else jnp.where(batch.legal, values, -jnp.inf), axis=1)
    predicted = chosen(outputs, batch.action)
    judged = network.returns.judged(predicted, chosen(after, best), batch.reward, batch.discount)
    return (batch.weight * judged.losses).mean(), (judged.errors, network.returns.values(outputs))


@final
class DQN(Learner[DQNState], HasLearningSignal, HasWorlds):
    """Deep Q-learning, set up for an environment."""

    env: Environment[Any]
    inputs: InputFormat = eqx.field(static=True)
    config: DQNConfig = eqx.field(static=True)
    total: int = eqx.field(static=True)
    """Steps of the whole training, which schedules are laid over."""

    def __init__(self, config: DQNConfig, env: Environment[Any], steps: int) -> None:
        count_actions("dqn", env.action_space)
        check(config, steps)
        returns_of(config)
        self.env, self.config, self.total = env, config, steps
        self.inputs = input_format(env.observation_space)

    @property
    def steps_per_iteration(self) -> int:
        return self.config.target_every

    @property
    def hyper(self) -> DQNHyper:
        return DQNHyper(*(getattr(self.config, name) for name in DQNHyper._fields))

    def begin(self, key: Key, hyper: DQNHyper) -> DQNState:
        network_key, world_key, key = jax.random.split(key, 3)
        network = self._network(network_key)
        count = self.config.environments
        replay = Replay.empty(one_step(self.env), slots=self.config.buffer // count, worlds=count)
        return DQNState(
            hyper=jax.tree.map(jnp.float32, hyper),
            network=network,
            target=network,
            optimizer=optax.scale_by_adam().init(network),
            replay=replay,
            priorities=Priorities.empty(self.config.buffer) if self.config.replay == "prioritised" else None,
            worlds=begin_running(self.env, count, world_key),
            finished=EndedEpisodes.none(),
            key=key,
            taken=jnp.zeros((), jnp.int32),
        )

    def iterate(self, state: DQNState) -> tuple[DQNState, dict[str, Array]]:
        updates = self.config.target_every // self.config.update_every
        if not self.config.polyak:
            state = state._replace(target=state.network)
        key, now = jax.random.split(state.key)
        # A function of its own: methods are compared by all that their object holds, arrays of the environment too.
        state, (seen, episodes) = jax.lax.scan(
            lambda state, key: self._turn(state, key), state._replace(key=key), jax.random.split(now, updates)
        )
        finished = state.finished.with_ended(*episodes)
        metrics = {
            **finished.metrics(),
            "loss": seen["loss"].mean(),
            "q_mean": seen["q_mean"].mean(),
            "q_max": seen["q_max"].max(),
            "reward_max": state.replay.rows.reward.max(),
            "td_error": seen["td_error"].mean(),
            "epsilon": self._epsilon(state),
            "buffer_fill": state.replay.filled / state.replay.slots,
            "learning_rate": jnp.asarray(state.hyper.learning_rate),
        }
        return state._replace(finished=finished), metrics

    def worlds(self, state: DQNState) -> Any:
        return state.worlds.state

    def policy(self, state: DQNState) -> ValuePolicy:
        return ValuePolicy(state.network, self._epsilon(state))

    def signal(self, state: DQNState, key: Key) -> LearningSignal:
        """Temporal differences of several batches; and of all steps in the ring how likely they are to be drawn."""

        def errors(key: Key) -> Array:
            return q_loss(state.network, state.target, self._drawn(state, key)[1], self.config.double)[1][0]

        found = {"td_error": jax.vmap(errors)(jax.random.split(key, _SHOWN)).ravel()}
        if state.priorities is not None:
            drawn = state.replay.complete(self.config.n_step)
            found["priority"] = jnp.where(drawn, state.priorities.mass, jnp.nan)
        return LearningSignal(found, {})

    def _network(self, key: Key) -> ValueNetwork:
        body_key, head_key = jax.random.split(key)
        returns: Returns = returns_of(self.config)
        own = body(self.inputs, self.config.widths, key=body_key)
        actions = count_actions("dqn", self.env.action_space)
        return ValueNetwork(own, actions, returns, dueling=self.config.dueling, key=head_key)

    def _epsilon(self, state: DQNState) -> Array:
        h = state.hyper
        return linear(state.taken, h.epsilon_start, h.epsilon_end, h.exploration * self.total)

    def _turn(self, state: DQNState, key: Key) -> tuple[DQNState, tuple[dict[str, Array], EpisodeTotals]]:
        """Some steps, and one update."""
        step_key, noise_key, draw_key = jax.random.split(key, 3)
        state, episodes = self._gathered(state, step_key, noise_key)
        state, seen = self._updated(state, draw_key)
        return state, (seen, episodes)

    def _gathered(self, state: DQNState, key: Key, noise_key: Key) -> tuple[DQNState, EpisodeTotals]:
        shape = (self.config.update_every // self.config.environments, self.config.environments)
        epsilon = self._epsilon(state)

        def rule(observations: Array, legal: Array | None, uniform: Array) -> Array:
            values = state.network.values(observations)
            return draw_by(uniform, epsilon_greedy_probabilities(values, epsilon, legal))

        uniform = jax.random.uniform(noise_key, shape)
        worlds, steps, episodes = gather_block(self.env, rule, state.worlds, uniform, key)
        priorities = state.priorities
        if priorities is not None:
            priorities = priorities.added(state.replay.head, self.config.update_every)
        onward = state._replace(
            worlds=worlds,
            replay=state.replay.add(steps),
            priorities=priorities,
            taken=state.taken + self.config.update_every,
        )
        return onward, episodes

    def _updated(self, state: DQNState, key: Key) -> tuple[DQNState, dict[str, Array]]:
        rows, batch = self._drawn(state, key)
        # Rewards of several steps cannot be summed before there are so many.
        ready = (state.taken > self.config.learning_start) & (state.replay.filled >= self.config.n_step)

        def scaled(network: ValueNetwork) -> tuple[Array, tuple[Array, Array, Array]]:
            loss, (errors, values) = q_loss(network, state.target, batch, self.config.double)
            return ready * loss, (loss, errors, values)

        slopes, (loss, errors, values) = jax.grad(scaled, has_aux=True)(state.network)
        # Before learning starts slopes are 0, with which all of Adam but its counter stays as it began.
        moves, optimizer = optax.scale_by_adam().update(slopes, state.optimizer)
        optimizer = optimizer._replace(count=jnp.where(ready, optimizer.count, 0))
        rate = state.hyper.learning_rate
        network = jax.tree.map(lambda p, move: p - rate * move, state.network, moves)
        target, priorities = state.target, state.priorities
        if self.config.polyak:
            target = jax.tree.map(lambda t, p: t + state.hyper.polyak * (p - t), target, network)
        if priorities is not None:
            priorities = priorities.updated(rows, errors, state.hyper.priority)
        seen = {
            "loss": loss,
            "q_mean": values.mean(),
            "q_max": values.max(),
            "td_error": jnp.abs(errors).mean(),
        }
        moved = state._replace(network=network, target=target, optimizer=optimizer, priorities=priorities)
        return moved, seen

    def _drawn(self, state: DQNState, key: Key) -> tuple[Int[Array, " batch"], ReplayBatch]:
        """Rows of the ring, and the steps in them with the rewards of the steps after each."""
        replay, span = state.replay, self.config.n_step
        levels = jax.random.uniform(key, (self.config.batch,))
        if state.priorities is None:
            rows, weights = replay.first_rows(levels, span), jnp.ones(self.config.batch)
        else:
            beta = linear(state.taken, state.hyper.importance, 1.0, self.total)
            mass = jnp.where(replay.complete(span), state.priorities.mass, 0)
            rows, weights = prioritised(mass, levels, beta)
        past: GatheredSteps = replay.rows
        ahead = replay.following(rows, span)
        total = summed(past.reward[ahead], past.terminated[ahead], past.truncated[ahead], state.hyper.gamma)
        last = jnp.take_along_axis(ahead, total.last[:, None], axis=1)[:, 0]
        return rows, ReplayBatch(
            past.observation[rows],
            past.action[rows],
            total.reward,
            total.discount,
            past.following[last],
            None if past.legal is None else past.legal[last],
            weights,
        )


__all__ = ["DQN", "DQNHyper", "DQNState", "ReplayBatch", "q_loss"]
