"""Wrappers, held against the same computation written out by hand."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs import wrappers
from chainrule.agents.envs.base import Environment, TimeStep, advance_or_restart
from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete
from chainrule.agents.envs.wrappers.moments import SeenMoments, merged
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key


class Count(NamedTuple):
    t: Array
    last: Array


@final
class Counting(Environment[Count]):
    """Sees (number of steps, last action), earns the number of steps, ends after `ends` of them."""

    params: Any = ()
    ends: int = 4

    @property
    def observation_space(self) -> Box:
        return Box(0, np.inf, (2,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(5)

    def begin(self, key: Key, params: Any) -> tuple[Count, Array]:
        return Count(jnp.zeros(()), jnp.zeros((), jnp.int32)), jnp.zeros(2)

    def advance(self, key: Key, state: Count, action: Array, params: Any) -> TimeStep:
        t = state.t + 1
        seen = jnp.stack([t, action.astype(jnp.float32)])
        return TimeStep(Count(t, action), seen, t, t >= self.ends, jnp.zeros((), bool), {})


def walk(env: Environment[Any], actions: list[int], seed: int = 0) -> tuple[Any, Any, Any]:
    """First observation, all that followed, and the last state; episodes begin anew."""
    state, first = eqx.filter_jit(env.reset)(jax.random.key(seed))

    def one(state: Any, given: tuple[Array, Array]) -> tuple[Any, Any]:
        moved = advance_or_restart(env, given[0], state, given[1])
        return moved.state, moved._replace(state=())

    keys = jax.random.split(jax.random.key(seed + 1), len(actions))
    last, all_of_it = jax.jit(lambda s, g: jax.lax.scan(one, s, g))(
        state, (keys, np.array(actions, np.int32))
    )
    return np.asarray(first), jax.tree.map(np.asarray, all_of_it), last


def test_a_limit_of_time_cuts_off_what_has_not_ended() -> None:
    _, moved, _ = walk(wrappers.TimeLimit(Counting(), 3), [0] * 7)
    assert moved.truncated.tolist() == [False, False, True, False, False, True, False]
    assert not moved.terminated.any()
    assert moved.reward.tolist() == [1, 2, 3, 1, 2, 3, 1]


def test_what_ends_with_the_last_step_is_not_cut_off() -> None:
    _, moved, _ = walk(wrappers.TimeLimit(Counting(), 4), [0] * 5)
    assert moved.terminated.tolist() == [False, False, False, True, False]
    assert not moved.truncated.any()


def test_stacked_frames_are_the_last_ones_and_begin_with_the_first() -> None:
    env = wrappers.FrameStack(Counting(), 3)
    first, moved, _ = walk(env, [1, 2, 3, 4, 1])
    assert env.observation_space.shape == (6,)
    assert first.tolist() == [0] * 6
    assert moved.observation[1].tolist() == [0, 0, 1, 1, 2, 2]
    assert moved.observation[3].tolist() == [0] * 6  # of the next episode
    assert moved.final_observation[3].tolist() == [2, 2, 3, 3, 4, 4]
    assert moved.observation[4].tolist() == [0, 0, 0, 0, 1, 1]


def test_rewards_are_clipped_and_scaled() -> None:
    _, moved, _ = walk(wrappers.ScaleReward(wrappers.ClipReward(Counting(), -1, 2.5), 2.0), [0] * 4)
    assert moved.reward.tolist() == [2, 4, 5, 5]


def test_repeated_actions_earn_all_rewards_until_the_end() -> None:
    _, moved, _ = walk(wrappers.ActionRepeat(Counting(), 3), [1, 2, 3])
    assert moved.reward.tolist() == [1 + 2 + 3, 4, 1 + 2 + 3]
    assert moved.terminated.tolist() == [False, True, False]
    assert moved.final_observation[:, 0].tolist() == [3, 4, 3]


def test_sticky_actions_are_the_last_ones_as_often_as_said() -> None:
    actions = [i % 5 for i in range(4000)]
    _, moved, _ = walk(wrappers.StickyActions(Counting(ends=10**6), 0.25), actions)
    done = moved.final_observation[:, 1]
    stuck = done[1:] == done[:-1]
    assert done[0] == 0
    assert ((done[1:] == actions[1:]) | stuck).all()
    assert abs(stuck.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_an_episode_begins_with_no_action_to_stick_to() -> None:
    _, moved, _ = walk(wrappers.StickyActions(Counting(), 1.0), [3, 1, 1, 1, 2, 1])
    assert moved.final_observation[:, 1].tolist() == [3, 3, 3, 3, 2, 2]


def test_the_log_says_return_and_length_of_episodes() -> None:
    _, moved, _ = walk(wrappers.EpisodeLog(Counting()), [0] * 6)
    assert moved.info["episode_return"].tolist() == [1, 3, 6, 10, 1, 3]
    assert moved.info["episode_length"].tolist() == [1, 2, 3, 4, 1, 2]


def test_observations_are_normalised_by_everything_seen_so_far() -> None:
    env = wrappers.NormalizeObservation(Counting())
    _, moved, last = walk(env, [1, 2, 3, 4, 1, 2])
    raw = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 0), (1, 1), (2, 2)]
    seen = np.array(raw, float)
    np.testing.assert_allclose(last.moments.mean, seen.mean(0), rtol=1e-6)
    np.testing.assert_allclose(last.moments.variance, seen.var(0), rtol=1e-5)
    assert last.moments.number == 8
    expected = (seen[-1] - seen.mean(0)) / seen.std(0)
    np.testing.assert_allclose(moved.observation[-1], expected, rtol=1e-5)
    np.testing.assert_allclose(moved.observation[3], (0 - seen[:6].mean(0)) / seen[:6].std(0), rtol=1e-5)


def test_returns_are_normalised_by_their_deviation_so_far() -> None:
    env = wrappers.NormalizeReward(Counting(), gamma=0.5)
    _, moved, last = walk(env, [0] * 6)
    returns = np.array([1, 2.5, 4.25, 6.125, 1, 2.5])
    np.testing.assert_allclose(last.moments.variance, returns.var(), rtol=1e-5)
    np.testing.assert_allclose(moved.reward[-1], 2 / returns.std(), rtol=1e-5)
    assert moved.reward[0] == pytest.approx(1)


def test_statistics_outlive_episodes_under_any_other_wrapper() -> None:
    inside = wrappers.NormalizeObservation(wrappers.NormalizeReward(Counting()))
    env = wrappers.EpisodeLog(
        wrappers.TimeLimit(wrappers.FrameStack(wrappers.StickyActions(inside, 0.0), 2), 3)
    )
    _, moved, last = walk(env, [1, 2, 3, 4, 1, 2])
    _, alone, _ = walk(wrappers.TimeLimit(inside, 3), [1, 2, 3, 4, 1, 2])
    found = last.inner.inner.inner.inner
    assert found.moments.number == 9  # six steps, and the beginnings of three episodes
    assert found.inner.moments.number == 6
    np.testing.assert_allclose(moved.observation[:, 2:], alone.observation, rtol=1e-5)


def test_a_trained_agent_is_judged_by_settled_statistics() -> None:
    env = wrappers.TimeLimit(wrappers.NormalizeReward(wrappers.NormalizeObservation(Counting())), 3)
    _, _, last = walk(env, [1, 2, 3, 4])
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), last)
    judged = wrappers.settled(env, both)
    assert isinstance(judged, wrappers.TimeLimit)
    first, moved, after = walk(judged, [1, 2])
    moments = last.inner.inner.moments
    np.testing.assert_allclose(first, -moments.mean / np.sqrt(moments.variance + 1e-8), rtol=1e-5)
    np.testing.assert_allclose(after.inner.moments.mean, moments.mean, rtol=1e-6)
    assert moved.reward.tolist() == [1, 2]


def test_moments_of_streams_are_those_of_all_numbers() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) for n in (2, 5, 9)]
    each = SeenMoments(
        jnp.array([2.0, 5.0, 9.0]),
        jnp.stack([part.mean(0) for part in parts]),
        jnp.stack([part.var(0) for part in parts]),
    )
    all_of_them = np.concatenate(parts)
    np.testing.assert_allclose(merged(each).mean, all_of_them.mean(0), rtol=1e-5)
    np.testing.assert_allclose(merged(each).variance, all_of_them.var(0), rtol=1e-5)


def test_whole_numbers_become_vectors() -> None:
    env = envs.vector_observations(envs.make("chain"))
    state, first = jax.jit(env.reset)(jax.random.key(0))
    assert first.tolist() == [1, 0, 0, 0, 0]
    assert env.observation_space.contains(first)
    inner, there = envs.innermost(env, state)
    assert isinstance(inner, envs.FiniteEnvironment)
    assert there.number == 0


def test_several_whole_numbers_become_one_vector() -> None:
    @final
    class Two(Environment[Array]):
        params: Any = ()

        @property
        def observation_space(self) -> MultiDiscrete:
            return MultiDiscrete((2, 3))

        @property
        def action_space(self) -> Discrete:
            return Discrete(1)

        def begin(self, key: Key, params: Any) -> tuple[Array, Array]:
            return jnp.zeros(()), jnp.array([1, 2])

        def advance(self, key: Key, state: Array, action: Array, params: Any) -> TimeStep:
            raise NotImplementedError

    assert wrappers.OneHot(Two()).reset(jax.random.key(0))[1].tolist() == [0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda env: wrappers.TimeLimit(env, 0), "limit"),
        (lambda env: wrappers.FrameStack(env, 0), "count"),
        (lambda env: wrappers.ActionRepeat(env, 0), "count"),
        (lambda env: wrappers.StickyActions(env, 1.5), r"StickyActions\(probability=1.5\)"),
        (lambda env: wrappers.ClipReward(env, 1.0, -1.0), "low must not lie above high"),
        (lambda env: wrappers.NormalizeReward(env, 1.5), r"gamma=1.5"),
        (lambda env: wrappers.OneHot(env), "not whole numbers"),
        (lambda env: wrappers.FrameStack(envs.make("chain"), 2), "not arrays of real numbers"),
    ],
)
def test_settings_of_wrappers_that_cannot_be_are_refused(wrap: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        wrap(Counting())
