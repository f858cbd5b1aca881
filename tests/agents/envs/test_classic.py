"""Control problems against Gymnasium's, and against steps worked out by hand."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.classic.cartpole import CartPole, CartPoleParams, CartPoleState

GYMNASIUM = {
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "mountain-car": "MountainCar-v0",
    "mountain-car-continuous": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
}
STEPS = 200


@pytest.mark.parametrize(
    ("action", "after"),
    [(1, [0.0096, 0.1746791957, 0.0308, -0.2430687180]), (0, [0.0096, -0.2155390171, 0.0308, 0.3419952238])],
)
def test_a_push_of_the_cart_is_the_one_worked_out_by_hand(action: int, after: list[float]) -> None:
    with jax.enable_x64(True):
        state = CartPoleState(np.array([0.01, -0.02, 0.03, 0.04]), np.int32(0))
        step = jax.jit(CartPole().step)(jax.random.key(0), state, np.int32(action))
        np.testing.assert_allclose(step.observation, after, atol=1e-10)
        assert step.reward == 1
        assert not step.terminated
        assert not step.truncated


@pytest.fixture(scope="module", params=GYMNASIUM)
def walk(request: pytest.FixtureRequest, oracle: Callable[[str], ModuleType]) -> dict[str, Any]:
    """200 random actions in Gymnasium's environment, which begins anew where an episode ends."""
    gymnasium = oracle("gymnasium")
    theirs = gymnasium.make(GYMNASIUM[request.param])
    theirs.action_space.seed(3)
    theirs.reset(seed=5)
    kept: dict[str, Any] = {
        name: [] for name in ("before", "action", "seen", "reward", "terminated", "fresh")
    }
    fresh = True
    for _ in range(STEPS):
        kept["before"].append(np.array(theirs.unwrapped.state, np.float64))
        kept["fresh"].append(fresh)
        action = theirs.action_space.sample()
        seen, reward, terminated, truncated, _ = theirs.step(action)
        for name, value in (
            ("action", action),
            ("seen", seen),
            ("reward", reward),
            ("terminated", terminated),
        ):
            kept[name].append(value)
        fresh = terminated or truncated
        if fresh:
            theirs.reset()
    return {
        "name": request.param,
        "spec": theirs.spec,
        "spaces": theirs,
        **{k: np.array(v) for k, v in kept.items()},
    }


def test_200_random_actions_lead_where_they_lead_in_gymnasium(walk: dict[str, Any]) -> None:
    """States are given at the beginning of an episode only: from there on, both go their own way."""
    env: Any = envs.make(walk["name"])
    with jax.enable_x64(True):
        step, state = jax.jit(env.step), jax.jit(env.reset)(jax.random.key(0))[0]
        for i in range(STEPS):
            if walk["fresh"][i]:
                state = state._replace(x=walk["before"][i], t=np.int32(0))
            after = step(jax.random.key(0), state, walk["action"][i])
            np.testing.assert_allclose(after.observation, walk["seen"][i], atol=1e-5)
            np.testing.assert_allclose(after.reward, walk["reward"][i], atol=1e-5)
            assert bool(after.terminated) == walk["terminated"][i]
            state = after.state


def test_single_precision_is_enough_for_every_one_of_these_steps(walk: dict[str, Any]) -> None:
    env: Any = envs.make(walk["name"])
    state = jax.jit(env.reset)(jax.random.key(0))[0]
    state = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], STEPS, 0), state)
    state = state._replace(x=walk["before"].astype(np.float32))
    action = walk["action"].astype(env.action_space.dtype)
    after = jax.jit(jax.vmap(env.step, in_axes=(None, 0, 0)))(jax.random.key(0), state, action)
    np.testing.assert_allclose(after.observation, walk["seen"], atol=1e-5)
    np.testing.assert_allclose(after.reward, walk["reward"], atol=2e-5)
    assert after.observation.dtype == after.reward.dtype == np.float32


def test_spaces_limits_and_thresholds_are_gymnasium_s(walk: dict[str, Any]) -> None:
    env, theirs = envs.make(walk["name"]), walk["spaces"]
    assert env.params.limit == walk["spec"].max_episode_steps
    assert envs.describe(walk["name"]).threshold == walk["spec"].reward_threshold
    for ours, other in (
        (env.observation_space, theirs.observation_space),
        (env.action_space, theirs.action_space),
    ):
        assert ours.shape == other.shape
        if isinstance(ours, envs.Box):
            np.testing.assert_allclose(ours.low, other.low, rtol=1e-6)
            np.testing.assert_allclose(ours.high, other.high, rtol=1e-6)
        else:
            assert ours.n == other.n


def test_a_batch_may_hold_different_worlds() -> None:
    env = CartPole()
    state = CartPoleState(np.full(4, 0.01, np.float32), np.int32(0))
    worlds = CartPoleParams(half_length=np.array([0.5, 1.0], np.float32))
    axes = CartPoleParams(*(0 if name == "half_length" else None for name in CartPoleParams._fields))
    step = jax.jit(jax.vmap(env.step, in_axes=(None, None, None, axes)))
    both = step(jax.random.key(0), state, np.int32(1), worlds)
    alone = eqx.filter_jit(CartPole(CartPoleParams(half_length=1.0)).step)(
        jax.random.key(0), state, np.int32(1)
    )
    np.testing.assert_allclose(both.observation[1], alone.observation, rtol=1e-6)
    assert both.observation[0, 3] != both.observation[1, 3]


def test_what_lasts_for_too_long_is_cut_off_not_ended() -> None:
    env = envs.make("pendulum", limit=3)
    step, key = jax.jit(env.step), jax.random.key(0)
    state, _ = jax.jit(env.reset)(key)
    flags = []
    for _ in range(3):
        after = step(key, state, np.zeros(1, np.float32))
        state = after.state
        flags.append((bool(after.terminated), bool(after.truncated)))
    assert flags == [(False, False), (False, False), (False, True)]
