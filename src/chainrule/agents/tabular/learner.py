"""Tabular learning as one compiled loop: act, see what follows, learn from it, for any number of steps and seeds.

A step's random numbers depend on the run's key and the number of the step alone, so that a run in pieces is the run in
one go. Many runs side by side are `jax.vmap` over keys or settings.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, advance_or_restart
from chainrule.agents.envs.spaces import Discrete, Space
from chainrule.agents.learning import exploration
from chainrule.agents.learning.base import Decision, HasWorlds, Learner, Policy
from chainrule.agents.tabular.behaviour import Behaviour, EpsilonGreedyBehaviour
from chainrule.agents.tabular.rules import QLearning, StepSizes, TabularRule, TabularStep
from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Int, Key, Tree


class TabularHyper(NamedTuple):
    """Settings that are numbers."""

    alpha: Any = 0.1
    """Step size; with `power` above 0 that of the first visit."""
    power: Any = 0.0
    """The step size of a pair falls like 1 / visits^power; 0.6 with alpha=1 is the classic choice."""
    gamma: Any = 0.99
    initial: Any = 0.0
    """Values to begin with; high ones make every action worth a try."""
    behaviour: Behaviour = EpsilonGreedyBehaviour()


class TabularState(NamedTuple):
    """Everything that training goes on from."""

    q: Float[Array, "tables states actions"]
    visits: Float[Array, "states actions"]
    memory: Tree
    env: Any
    observation: Array
    action: Array
    key: Key
    step: Int[Array, ""]
    earned: Array
    """Of the episode so far."""
    lasted: Int[Array, ""]
    hyper: TabularHyper


class TabularTrace(NamedTuple):
    """What happened at each step; returns and lengths count where an episode is over."""

    over: Array
    episode_return: Array
    episode_length: Array
    error: Array


@final
class TabularPolicy(Policy):
    """The best action of a table; while exploring, as training would go on."""

    q: Float[Array, "states actions"]
    behaviour: Behaviour
    step: Int[Array, ""]

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del legal
        values = self.q[observation]
        if greedy:
            probabilities = exploration.greedy_probabilities(values)
        else:
            probabilities = self.behaviour.probabilities(values, self.step)
        return Decision(exploration.draw(key, probabilities), memory, values.max(), values)


@final
class TabularLearner(Learner[TabularState], HasWorlds):
    """A rule set up for an environment whose observations and actions are whole numbers."""

    env: Environment[Any]
    rule: TabularRule
    numbers: TabularHyper
    chunk: int = eqx.field(static=True)
    states: int = eqx.field(static=True)
    actions: int = eqx.field(static=True)

    def __init__(
        self,
        env: Environment[Any],
        rule: TabularRule | None = None,
        hyper: TabularHyper | None = None,
        *,
        chunk: int = 1000,
    ) -> None:
        self.env = env
        self.rule = QLearning() if rule is None else rule
        self.numbers = TabularHyper() if hyper is None else hyper
        self.states = _count(env.observation_space, "observations", env)
        self.actions = _count(env.action_space, "actions", env)
        self.chunk = chunk
        if chunk < 1:
            raise ArgumentError(f"TabularLearner(chunk={chunk}): an iteration has one step at least")

    @property
    def steps_per_iteration(self) -> int:
        return self.chunk

    @property
    def hyper(self) -> TabularHyper:
        return self.numbers

    def begin(self, key: Key, hyper: TabularHyper) -> TabularState:
        env_key, action_key, loop_key = jax.random.split(key, 3)
        state, observation = self.env.reset(env_key)
        q = jnp.full((self.rule.tables, self.states, self.actions), hyper.initial, jnp.float32)
        zero = jnp.zeros((), jnp.int32)
        first = exploration.draw(action_key, hyper.behaviour.probabilities(q.mean(0)[observation], zero))
        return TabularState(
            q,
            jnp.zeros((self.states, self.actions)),
            self.rule.start(self.states, self.actions),
            state,
            observation,
            first,
            loop_key,
            zero,
            jnp.zeros(()),
            zero,
            hyper,
        )

    def advance(self, state: TabularState) -> tuple[TabularState, TabularTrace]:
        """One step: what was chosen is done, what follows is learnt from, and the next action is chosen."""
        hyper = state.hyper
        env_key, draw_key, rule_key = jax.random.split(random.at(state.key, state.step), 3)
        moved = advance_or_restart(self.env, env_key, state.env, state.action)
        over = moved.terminated | moved.truncated
        uniform = jax.random.uniform(draw_key, (2,))
        after = state.step + 1

        def choose(q: Array, observation: Array, number: int) -> tuple[Array, Array]:
            probabilities = hyper.behaviour.probabilities(q.mean(0)[observation], after)
            return probabilities, exploration.draw_by(uniform[number], probabilities)

        visits = state.visits.at[state.observation, state.action].add(1.0)
        probabilities, next_action = choose(state.q, moved.final_observation, 0)
        found = self.rule.learn(
            rule_key,
            state.q,
            state.memory,
            TabularStep(
                state.observation,
                state.action,
                moved.reward,
                moved.terminated,
                over,
                moved.final_observation,
                next_action,
                probabilities,
            ),
            StepSizes(hyper.alpha, hyper.power, visits),
            hyper.gamma,
        )
        chosen = choose(found.q, moved.observation, 1)[1]
        if self.rule.on_policy:
            chosen = jnp.where(over, chosen, next_action)
        earned, lasted = state.earned + moved.reward, state.lasted + 1
        then = TabularState(
            found.q,
            visits,
            found.memory,
            moved.state,
            moved.observation,
            chosen,
            state.key,
            after,
            jnp.where(over, 0.0, earned),
            jnp.where(over, 0, lasted),
            hyper,
        )
        return then, TabularTrace(over, earned, lasted, found.error)

    def run(self, state: TabularState, steps: int) -> tuple[TabularState, TabularTrace]:
        """Several steps, and what happened at each of them."""
        return jax.lax.scan(lambda carry, _: self.advance(carry), state, None, length=steps)

    def iterate(self, state: TabularState) -> tuple[TabularState, dict[str, Array]]:
        state, trace = self.run(state, self.chunk)
        # Not a number where no episode ended.
        episodes = trace.over.sum()
        return state, {
            "return_mean": jnp.where(trace.over, trace.episode_return, 0.0).sum() / episodes,
            "episode_length": jnp.where(trace.over, trace.episode_length, 0).sum() / episodes,
            "td_error": jnp.abs(trace.error).mean(),
            "q_mean": state.q.mean(),
            "q_max": state.q.max(),
            "visited": (state.visits > 0).mean(),
        }

    def worlds(self, state: TabularState) -> Any:
        return state.env

    def policy(self, state: TabularState) -> TabularPolicy:
        return TabularPolicy(state.q.mean(0), state.hyper.behaviour, state.step)


def _count(space: Space, what: str, env: Environment[Any]) -> int:
    if not isinstance(space, Discrete):
        others = "dqn or ppo, which learn" if isinstance(env.action_space, Discrete) else "ppo, which learns"
        raise CapabilityError(
            f"a table needs {what} that are whole numbers; those of {type(env).__name__} are a {type(space).__name__}",
            remedy=f"use {others} functions of observations",
        )
    return space.n


__all__ = ["TabularHyper", "TabularLearner", "TabularPolicy", "TabularState", "TabularTrace"]
