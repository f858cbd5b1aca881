"""Environments as arrays: every row held against steps of the environment, and walks through ones that say nothing."""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.spaces import Discrete
from chainrule.agents.mdp import enumerated, optimal_return
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree


class CorridorState(NamedTuple):
    at: Array
    t: Array


@final
class Corridor(Environment[CorridorState]):
    """Four cells: step right, or stay; `slip` is the chance of staying all the same. A clock runs along."""

    params: Tree = 0.0

    @property
    def observation_space(self) -> Discrete:
        return Discrete(4)

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: Key, params: Tree) -> tuple[CorridorState, Array]:
        del key, params
        return CorridorState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)), jnp.zeros((), jnp.int32)

    def advance(self, key: Key, state: CorridorState, action: Array, params: Tree) -> TimeStep:
        moved = action * (jax.random.uniform(key) >= params).astype(jnp.int32)
        at = state.at + moved
        over = at >= 4
        return TimeStep(CorridorState(at, state.t + 1), at, -jnp.ones(()), over, (state.t >= 99) & ~over, {})


def test_an_environment_that_says_nothing_is_walked_through() -> None:
    found = enumerated(Corridor())
    assert found.exact
    assert found.states == ("0", "1", "2", "3", "end")
    np.testing.assert_array_equal(found.observations, np.arange(4))
    assert found.start.tolist() == [1, 0, 0, 0, 0]
    assert found.solve(1).values.tolist() == [-4, -3, -2, -1, 0]
    assert found.solve(1).policy[:4].tolist() == [1, 1, 1, 1]


def test_random_steps_are_refused_until_draws_are_asked_for() -> None:
    with pytest.raises(ArgumentError, match="draws=1000"):
        enumerated(Corridor(0.5))
    found = enumerated(Corridor(0.5), draws=400)
    assert not found.exact
    assert found.transition[0, 1, :2] == pytest.approx([0.5, 0.5], abs=0.1)


def test_rows_are_what_steps_of_the_environment_do() -> None:
    env = envs.make("frozen-lake")
    found = enumerated(env)
    state = env.reset(jax.random.key(0))[0]._replace(number=jnp.array(14))
    keys = jax.random.split(jax.random.key(1), 3000)
    after = jax.jit(jax.vmap(lambda key: env.step(key, state, jnp.array(2))))(keys)
    where = np.where(after.terminated, 16, after.observation)
    share = np.bincount(where, minlength=17) / len(keys)
    np.testing.assert_allclose(share, found.transition[14, 2], atol=4 * np.sqrt(0.25 / len(keys)))
    assert float(np.mean(after.reward)) == pytest.approx(found.rewards[14, 2], abs=0.04)


def test_names_come_from_the_environment() -> None:
    found = enumerated(envs.make("cat-world"))
    assert found.states == ("hunting", "hungry", "affectionate", "relaxed", "confused", "sleeping", "end")
    assert found.actions == ("talk", "stroke")
    assert found.solve(0.9).values[3] == pytest.approx(3.86731, abs=5e-6)


def test_a_limit_of_time_lowers_what_can_be_had() -> None:
    assert optimal_return(envs.make("cliff-walking")) == -13
    assert optimal_return(envs.make("cliff-walking", limit=5)) == -5
    lake = enumerated(envs.make("frozen-lake"))
    assert optimal_return(envs.make("frozen-lake")) < lake.start @ lake.solve(1).values


def test_large_and_continuous_environments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="most=3"):
        enumerated(Corridor(), most=3)
    with pytest.raises(ArgumentError, match="most=3"):
        enumerated(envs.make("frozen-lake"), most=3)
    with pytest.raises(ArgumentError, match="Box"):
        enumerated(envs.make("pendulum"))
