"""Gymnasium's environments through the bridge: the same episodes as without it, whatever the batch."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.base import advance_or_restart, or_restarted
from chainrule.agents.envs.gymnasium_bridge import GymHost
from chainrule.core.errors import ArgumentError, CapabilityError


@pytest.fixture(scope="module")
def cart(oracle: Callable[[str], ModuleType]) -> Any:
    oracle("gymnasium")
    return envs.make("gym:CartPole-v1", max_episode_steps=15)


@pytest.fixture(scope="module")
def walk(cart: Any) -> Any:
    """Steps of worlds side by side, in one compiled program."""

    def run(keys: Any, actions: Any) -> Any:
        state, first = jax.vmap(cart.reset)(keys)

        def one(state: Any, given: Any) -> Any:
            keys, actions = given
            moved = jax.vmap(lambda k, s, a: advance_or_restart(cart, k, s, a))(keys, state, actions)
            return moved.state, moved._replace(state=moved.state.seed)

        step_keys = jax.vmap(lambda key: jax.random.split(key, actions.shape[0]))(keys).T
        return first, jax.lax.scan(one, state, (step_keys, actions))[1]

    return jax.jit(run)


def test_episodes_are_those_of_gymnasium_with_the_same_seeds(
    cart: Any, walk: Any, oracle: Callable[[str], ModuleType]
) -> None:
    worlds, steps = 3, 40
    actions = np.random.default_rng(0).integers(2, size=(steps, worlds)).astype(np.int32)
    first, moved = walk(jax.random.split(jax.random.key(0), worlds), actions)
    state, _ = jax.jit(jax.vmap(cart.reset))(jax.random.split(jax.random.key(0), worlds))
    over = np.asarray(moved.terminated | moved.truncated)
    assert moved.truncated.any()
    assert moved.terminated.any()
    for world in range(worlds):
        theirs = oracle("gymnasium").make("CartPole-v1", max_episode_steps=15)
        seed = np.asarray(state.seed[world])
        seen = theirs.reset(seed=(int(seed[0]) << 32) | int(seed[1]))[0]
        np.testing.assert_array_equal(first[world], seen)
        for t in range(steps):
            seen, reward, terminated, truncated, _ = theirs.step(int(actions[t, world]))
            np.testing.assert_array_equal(moved.final_observation[t, world], seen)
            assert moved.reward[t, world] == reward
            assert moved.terminated[t, world] == terminated
            assert moved.truncated[t, world] == (truncated and not terminated)
            if over[t, world]:
                seed = np.asarray(moved.state[t, world])
                seen = theirs.reset(seed=(int(seed[0]) << 32) | int(seed[1]))[0]
            np.testing.assert_array_equal(moved.observation[t, world], seen)


def test_the_same_keys_give_the_same_episodes(walk: Any) -> None:
    actions = np.zeros((20, 2), np.int32)
    keys = jax.random.split(jax.random.key(3), 2)
    for one, other in zip(*(jax.tree.leaves(walk(keys, actions)) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_asking_twice_for_a_step_gives_one_answer_and_a_lost_world_is_cut_off(cart: Any) -> None:
    reset, step = jax.jit(cart.reset), jax.jit(cart.step)
    state, _ = reset(jax.random.key(5))
    key = jax.random.key(0)
    once = step(key, state, np.int32(1))
    first = step(key, once.state, np.int32(0))
    again = step(key, once.state, np.int32(0))
    np.testing.assert_array_equal(first.observation, again.observation)
    assert not again.truncated
    lost = step(key, once.state._replace(world=np.int32(2**30)), np.int32(0))
    assert lost.truncated
    assert not lost.terminated
    assert lost.reward == 0
    np.testing.assert_array_equal(lost.observation, once.observation)


@pytest.mark.parametrize("ahead", [False, True], ids=["at every step", "ahead of all steps"])
def test_resets_happen_only_where_an_episode_is_over(
    cart: Any, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = []
    original = cart.host.reset

    def counted(where: Any, seeds: Any) -> Any:
        needed.append(int(np.sum(where)))
        return original(where, seeds)

    monkeypatch.setattr(cart.host, "reset", counted)

    @jax.jit
    def run(key: Any) -> Any:
        keys = jax.random.split(key, 30)
        beginnings = jax.vmap(cart.reset)(keys) if ahead else None

        def one(state: Any, given: Any) -> Any:
            key, beginning = given
            after = cart.step(key, state, jnp.ones((), jnp.int32))
            moved = or_restarted(cart, after, *(beginning if ahead else cart.reset(key)))
            return moved.state, moved.terminated

        return jax.lax.scan(one, cart.reset(key)[0], (keys, beginnings))[1]

    ended = int(np.asarray(run(jax.random.key(0))).sum())
    assert ended > 0
    assert sum(needed) == ended + 1


def test_spaces_are_carried_over(oracle: Callable[[str], ModuleType]) -> None:
    oracle("gymnasium")
    pendulum = envs.make("gym:Pendulum-v1")
    assert isinstance(pendulum.action_space, envs.Box)
    assert pendulum.action_space.low.tolist() == [-2]
    assert envs.vector_observations(envs.make("gym:FrozenLake-v1")).observation_space.shape == (16,)
    with pytest.raises(ArgumentError, match="are a Tuple space of Gymnasium"):
        envs.make("gym:Blackjack-v1")
    with pytest.raises(ArgumentError, match=r"no environment 'CartPole-v7' \(did you mean"):
        envs.make("gym:CartPole-v7")
    with pytest.raises(ArgumentError, match="cannot be made: TypeError"):
        envs.make("gym:CartPole-v1", wheels=3)


def test_whole_numbers_begin_at_zero_here_wherever_they_begin_there(
    oracle: Callable[[str], ModuleType],
) -> None:
    gymnasium = oracle("gymnasium")

    class Shifted(gymnasium.Env):  # type: ignore[name-defined,misc]
        observation_space = gymnasium.spaces.MultiDiscrete([3, 4], start=[5, -2])
        action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[1, 7])

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.array([5, -2]), {}

        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action)
            return np.array([7, 1]), float(action[0] == 2 and action[1] == 9), True, False, {}

    host = GymHost(Shifted)
    seed = jnp.zeros((1, 2), jnp.uint32)
    assert host.reset(jnp.array([True]), seed).tolist() == [[0, 0]]
    none = jnp.array([-1])
    seen, reward, *_ = host.step(
        none, seed, jnp.array([0]), jnp.zeros((1, 2), jnp.int32), jnp.array([[1, 2]])
    )
    assert seen.tolist() == [[2, 3]]
    assert reward.tolist() == [1]


def test_the_cost_of_a_step_is_measured(cart: Any) -> None:
    assert "on the host" in envs.bridge_note(cart, worlds=4)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(CapabilityError, match=r"pip install 'chainrule\[rl\]'"):
        envs.make("gym:CartPole-v1")
