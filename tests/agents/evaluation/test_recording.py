"""Recordings: whole episodes as data, there and back through a file."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.wrappers import OneHot
from chainrule.agents.evaluation.baselines import RandomPolicy
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.evaluation.recording import Recording, record, record_extremes
from chainrule.core.errors import CapabilityError, DataError
from tests.agents.evaluation.countdown import Countdown, Remembering
from tests.agents.worlds import Corridor

KEYS = jax.random.split(jax.random.key(3), 12)
LONG = 150
"""Longer than two parts of a recording, which come from separate calls of one program."""


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return record(Remembering(), Countdown(LONG), KEYS)


def test_every_step_is_there_and_nothing_after_the_end(recordings: list[Recording]) -> None:
    lengths = np.asarray(evaluate(Remembering(), Countdown(LONG), KEYS).lengths)
    assert (lengths > 128).any()
    assert (lengths < 64).any()
    for length, one in zip(lengths, recordings, strict=True):
        assert len(one) == length
        np.testing.assert_array_equal(one.rewards, np.arange(1, length + 1))
        np.testing.assert_array_equal(one.actions, np.arange(length) % 3)
        np.testing.assert_array_equal(one.states.t, np.arange(length + 1))
        np.testing.assert_array_equal(one.observations[:, 0], length)
        np.testing.assert_array_equal(one.values, np.arange(length, 0, -1))
        np.testing.assert_array_equal(one.preferences.argmax(-1), one.actions)
        assert one.score == length * (length + 1) / 2
        assert one.terminated == (length % 2 == 0)


def test_the_key_gives_the_same_episode_again(recordings: list[Recording]) -> None:
    key = jax.random.wrap_key_data(recordings[5].key)
    (again,) = record(Remembering(), Countdown(LONG), key[None])
    np.testing.assert_array_equal(again.observations, recordings[5].observations)


def test_best_median_and_worst_are_kept(recordings: list[Recording]) -> None:
    kept = record_extremes(Remembering(), Countdown(LONG), KEYS)
    scores = sorted(one.score for one in recordings)
    assert [kept[name].score for name in ("best", "median", "worst")] == [scores[-1], scores[5], scores[0]]


def test_a_limit_cuts_a_recording_off() -> None:
    cut = record(Remembering(), Countdown(LONG), KEYS, limit=70)
    assert max(len(one) for one in cut) == 70
    assert all(one.states.t[-1] == len(one) for one in cut)
    assert not any(one.terminated for one in cut if len(one) == 70)


def test_stepping_again_from_recorded_states_gives_the_next_ones() -> None:
    env = envs.make("cartpole")
    (one,) = record(RandomPolicy(env.action_space), env, KEYS[:1], greedy=False)
    after = jax.jit(jax.vmap(lambda s, a: env.step(jax.random.key(0), s, a)))(
        jax.tree.map(lambda leaf: leaf[:-1], one.states), one.actions
    )
    np.testing.assert_allclose(after.observation, one.observations[1:], rtol=1e-5, atol=1e-6)
    assert bool(after.terminated[-1])


def test_what_came_later_is_discounted(recordings: list[Recording]) -> None:
    one = min(recordings, key=len)
    expected = [sum(0.5 ** (k - t) * (k + 1) for k in range(t, len(one))) for t in range(len(one))]
    np.testing.assert_allclose(one.rest(0.5), expected)


def test_a_file_gives_the_recording_back(tmp_path: Path, recordings: list[Recording]) -> None:
    one = recordings[0]
    one.save(tmp_path / "deep" / "best")
    found = Recording.load(tmp_path / "deep" / "best", Countdown(LONG))
    for a, b in zip(jax.tree.leaves(_arrays(one)), jax.tree.leaves(_arrays(found)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (found.greedy, found.terminated) == (one.greedy, one.terminated)
    assert type(found.states) is type(one.states)
    assert found.drawing(3).to_svg() == one.drawing(3).to_svg()


def _arrays(one: Recording) -> list[object]:
    return [one.key, one.states, one.observations, one.actions, one.rewards, one.values, one.preferences]


def test_a_recording_of_another_environment_is_refused(tmp_path: Path, recordings: list[Recording]) -> None:
    recordings[0].save(tmp_path / "best")
    with pytest.raises(DataError, match=r"has nothing as states\.x, but CartPole has float32"):
        Recording.load(tmp_path / "best", envs.make("cartpole"))


@pytest.mark.parametrize("harm", ["cut", "gone", "format", "words"])
def test_a_damaged_recording_is_refused(tmp_path: Path, recordings: list[Recording], harm: str) -> None:
    recordings[0].save(tmp_path / "best")
    words, arrays = tmp_path / "best.json", tmp_path / "best.safetensors"
    if harm == "cut":
        arrays.write_bytes(arrays.read_bytes()[:100])
    elif harm == "gone":
        arrays.unlink()
    elif harm == "format":
        words.write_text(json.dumps({**json.loads(words.read_text()), "format": 99}))
    else:
        words.write_text("[1, 2]")
    with pytest.raises(DataError, match="recording best"):
        Recording.load(tmp_path / "best", Countdown(LONG))


def test_wrapped_environments_are_drawn_as_what_is_inside() -> None:
    env = OneHot(envs.make("frozen-lake"))
    (one,) = record(RandomPolicy(env.action_space), env, KEYS[:1], greedy=False)
    assert one.can_be_drawn
    assert one.drawing(0).width == 128


def test_an_environment_without_a_drawing_says_so() -> None:
    (one,) = record(RandomPolicy(Corridor().action_space), Corridor(), KEYS[:1])
    assert not one.can_be_drawn
    with pytest.raises(CapabilityError, match="Corridor cannot be drawn"):
        one.drawing(0)
