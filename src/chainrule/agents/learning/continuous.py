"""Learners of bounded continuous actions from the past: what those with a policy and two critics share.

Steps go into a ring on the device; every few of them are followed by one update on a batch drawn from it. Critics read
actions between -1 and 1, so that all of them weigh alike.
"""

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from pydantic import Field

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
from chainrule.agents.learning.policies import GaussianActions, vectors
from chainrule.agents.learning.replay import Replay
from chainrule.agents.learning.replay_settings import check_multiple, check_replay
from chainrule.agents.learning.rollouts import EndedEpisodes
from chainrule.agents.learning.value_networks import DenseBody, InputFormat, input_format
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.nn import Linear

ADAM = optax.scale_by_adam()


class ContinuousConfig(Config, abc.ABC):
    """Settings that they share."""

    widths: tuple[int, ...] = Field((256, 256), min_length=1, description="units of each dense layer")
    learning_rate: float = Field(3e-4, gt=0, le=1, description="of Adam, for the policy")
    critic_rate: float = Field(
        1e-3, gt=0, le=1, description="of Adam, for the critics and what else is learnt"
    )
    gamma: float = Field(0.99, ge=0, le=1, description="discount of rewards")
    environments: int = Field(1, ge=1, le=65536, description="worlds side by side")
    buffer: int = Field(100_000, ge=1, description="latest steps that are kept to learn from")
    batch: int = Field(256, ge=1, description="steps drawn for an update")
    learning_start: int = Field(2_560, ge=0, description="steps of random actions before the first update")
    update_every: int = Field(1, ge=1, description="steps between two updates")
    polyak: float = Field(0.005, gt=0, le=1, description="share by which targets follow in every update")
    report_every: int = Field(
        500, ge=1, description="steps of an iteration, after which numbers are reported"
    )


def _check(config: ContinuousConfig, steps: int) -> None:
    """Refuse settings that do not go together, or not with so many steps of training."""
    check_replay(
        steps,
        environments=config.environments,
        buffer=config.buffer,
        batch=config.batch,
        learning_start=config.learning_start,
        update_every=config.update_every,
    )
    check_multiple("report_every", config.report_every, "update_every", config.update_every)


def set_up(
    algorithm: str, config: ContinuousConfig, env: Environment[Any], steps: int
) -> tuple[GaussianActions, InputFormat]:
    """The map between the bounds of actions, and what is seen; what cannot be learnt is refused."""
    space = env.action_space
    if not isinstance(space, Box):
        raise ArgumentError(
            f"{algorithm} draws continuous actions; this environment's are {type(space).__name__}",
            remedy="use dqn, pqn or ppo" if isinstance(space, Discrete) else "use ppo",
        )
    if not space.bounded:
        raise ArgumentError(f"{algorithm} needs actions between finite bounds", remedy="use ppo")
    _check(config, steps)
    return GaussianActions(space.low, space.high), input_format(env.observation_space)


@final
class ActionCritic(eqx.Module):
    """The value of an action; actions are given between -1 and 1, so that all of them weigh alike."""

    body: DenseBody
    head: Linear

    def __init__(self, inputs: int, actions: int, widths: Sequence[int], *, key: Key) -> None:
        one, two = jax.random.split(key)
        self.body = DenseBody(inputs + actions, widths, key=one)
        self.head = Linear(widths[-1], 1, key=two, initializer="torch")

    def __call__(self, observations: Array, actions: Float[Array, "batch actions"]) -> Float[Array, " batch"]:
        """Values of actions in these observations."""
        joint = jnp.concatenate([vectors(observations), actions], axis=-1)
        return self.head(self.body(joint))[:, 0]


class ContinuousState(NamedTuple):
    """Everything that training goes on from."""

    hyper: Any
    """Settings that are numbers, a NamedTuple of the algorithm's own."""
    parts: Any
    """Everything that is learnt."""
    targets: Tree
    """What follows slowly."""
    optimizer: Any
    replay: Replay
    worlds: RunningWorlds
    finished: EndedEpisodes
    key: Key
    taken: Int[Array, ""]
    """Steps of all worlds so far."""


class ContinuousBatch(NamedTuple):
    """Steps drawn from the past; actions between -1 and 1."""

    observation: Array
    action: Float[Array, "batch actions"]
    reward: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    following: Array


class ContinuousLearner(Learner[ContinuousState], HasWorlds):
    """A policy and two critics in an environment; subclasses say how they explore and what an update does."""

    env: eqx.AbstractVar[Environment[Any]]
    actions: eqx.AbstractVar[GaussianActions]
    """Its map between bounds."""
    inputs: eqx.AbstractVar[InputFormat]
    config: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def fresh(
        self, actor_key: Key, critics: tuple[ActionCritic, ActionCritic], hyper: Any
    ) -> tuple[Any, Tree, Any]:
        """What is learnt, what follows it slowly, and the state of Adam, in the beginning."""

    @abc.abstractmethod
    def explored(self, state: ContinuousState, observations: Array, normal: Array) -> Array:
        """What is done while learning, before it is squashed; `normal` are normal numbers, one for each action."""

    @abc.abstractmethod
    def updated(
        self, state: ContinuousState, batch: ContinuousBatch, key: Key, ready: Array
    ) -> tuple[ContinuousState, dict[str, Array]]:
        """One update, which changes nothing unless it is `ready`, and numbers on the way."""

    @property
    @final
    def steps_per_iteration(self) -> int:
        steps: int = self.config.report_every
        return steps

    @property
    @final
    def sizes(self) -> tuple[int, int, tuple[int, ...]]:
        """How many numbers are seen, how many actions there are, and units of layers."""
        return math.prod(self.inputs.shape), self.actions.outputs, self.config.widths

    @final
    def begin(self, key: Key, hyper: Any) -> ContinuousState:
        actor_key, one, two, world_key, key = jax.random.split(key, 5)
        count = self.config.environments
        critics = (ActionCritic(*self.sizes, key=one), ActionCritic(*self.sizes, key=two))
        parts, targets, optimizer = self.fresh(actor_key, critics, hyper)
        return ContinuousState(
            hyper=jax.tree.map(jnp.float32, hyper),
            parts=parts,
            targets=targets,
            optimizer=optimizer,
            replay=Replay.empty(one_step(self.env), slots=self.config.buffer // count, worlds=count),
            worlds=begin_running(self.env, count, world_key),
            finished=EndedEpisodes.none(),
            key=key,
            taken=jnp.zeros((), jnp.int32),
        )

    @final
    def iterate(self, state: ContinuousState) -> tuple[ContinuousState, dict[str, Array]]:
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

    @final
    def worlds(self, state: ContinuousState) -> Any:
        return state.worlds.state

    def _turn(
        self, state: ContinuousState, key: Key
    ) -> tuple[ContinuousState, tuple[dict[str, Array], EpisodeTotals]]:
        """Some steps, and one update."""
        step_key, noise_key, draw_key = jax.random.split(key, 3)
        state, episodes = self._gathered(state, step_key, noise_key)
        draw_key, update_key = jax.random.split(draw_key)
        ready = state.taken > self.config.learning_start
        state, seen = self.updated(state, self._drawn(state, draw_key), update_key, ready)
        return state, (seen, episodes)

    def _gathered(
        self, state: ContinuousState, key: Key, noise_key: Key
    ) -> tuple[ContinuousState, EpisodeTotals]:
        shape = (self.config.update_every // self.config.environments, self.config.environments)
        anything = state.taken < self.config.learning_start

        def rule(observations: Array, legal: Array | None, noise: tuple[Array, Array]) -> Array:
            del legal
            normal, uniform = noise
            drawn = self.explored(state, observations, normal)
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

    def _drawn(self, state: ContinuousState, key: Key) -> ContinuousBatch:
        replay = state.replay
        rows = replay.first_rows(jax.random.uniform(key, (self.config.batch,)), 1)
        past: GatheredSteps = jax.tree.map(lambda leaf: leaf[rows], replay.rows)
        flat = past.action.reshape(len(rows), -1)
        scaled = (flat - np.array([self.actions.centre])) / np.array([self.actions.half])
        discount = state.hyper.gamma * (1 - past.terminated.astype(jnp.float32))
        return ContinuousBatch(past.observation, scaled, past.reward, discount, past.following)


def moved(part: Any, moves: Any, rate: Array | float) -> Any:
    """A part of what is learnt after a step of this rate."""
    return jax.tree.map(lambda p, move: p - rate * move, part, moves)


def followed(targets: Any, parts: Any, share: Array | float) -> Any:
    """What follows slowly, a share nearer to what is learnt."""
    return jax.tree.map(lambda t, p: t + share * (p - t), targets, parts)


__all__ = [
    "ADAM",
    "ActionCritic",
    "ContinuousBatch",
    "ContinuousConfig",
    "ContinuousLearner",
    "ContinuousState",
    "followed",
    "moved",
    "set_up",
]
