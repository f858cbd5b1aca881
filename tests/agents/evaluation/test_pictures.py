"""Pictures of evaluations: what they hold, and what they say when there are too few runs."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs import wrappers
from chainrule.agents.envs.wrappers.moments import SeenMoments
from chainrule.agents.evaluation.evaluate import AgentEvaluation, evaluate
from chainrule.agents.evaluation.maps import _shown, maps
from chainrule.agents.evaluation.pictures import (
    action_bars,
    course,
    learning_curves,
    learning_table,
    pictures,
    returns_histogram,
    score_distribution,
)
from chainrule.agents.evaluation.recording import Recording, record
from chainrule.agents.evaluation.statistics import band
from chainrule.agents.learning.base import Decision, Policy
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Heatmap, Lines, Scatter
from chainrule.core.types import Array, Key, Tree
from chainrule.models.protocol import Alarm
from chainrule.report import draw
from tests.agents.evaluation.countdown import Countdown, Remembering
from tests.agents.worlds import Corridor

NOISE = np.random.default_rng(0)
STEPS = np.arange(1, 21) * 1000
KEYS = jax.random.split(jax.random.key(3), 12)


@final
class Linear(Policy):
    """Values what it sees by a sum of products; does the first action of finitely many, or the value itself."""

    weights: Array
    continuous: bool = False

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del key, greedy, legal
        value = observation @ self.weights
        if self.continuous:
            return Decision(value[None], memory, value, value[None])
        action = (value > 0).astype(jnp.int32)
        return Decision(action, memory, value, jax.nn.one_hot(action, 4))


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return record(Remembering(), Countdown(9), KEYS)


def curves(runs: int, **options: object) -> list[Lines]:
    found = learning_curves(STEPS, NOISE.normal(size=(runs, 20)), **options)  # type: ignore[arg-type]
    assert all(isinstance(one, Lines) for one in found)
    return found  # type: ignore[return-value]


def test_enough_runs_have_a_band_a_mean_and_threads() -> None:
    returns = NOISE.normal(size=(6, 20))
    (found,) = learning_curves(STEPS, returns, lines={"random": -1.0})
    assert isinstance(found, Lines)
    assert list(found.series) == ["interquartile mean", "mean", "random"]
    expected = band(returns)
    for shown, wanted in zip(
        found.series["interquartile mean"][1:], (expected.value, *expected.ends), strict=True
    ):
        np.testing.assert_array_equal(shown, wanted)
    assert found.threads is not None
    np.testing.assert_array_equal(found.threads[1], returns)
    assert found.footnote is not None
    assert found.footnote.text.startswith("6 runs; the band is a 95 % interval")


@pytest.mark.parametrize(
    ("runs", "said"), [(4, "4 runs are too few for a band"), (1, "One run says nothing")]
)
def test_few_runs_have_single_lines_and_a_note(runs: int, said: str) -> None:
    (found,) = curves(runs)
    assert len(found.series) == runs
    assert all(len(one) == 2 for one in found.series.values())
    assert found.threads is None
    assert found.footnote is not None
    assert said in found.footnote.text


def test_seconds_have_a_picture_of_their_own_and_alarms_are_marks_on_both() -> None:
    alarm = Alarm("KL spike", 5000, "text")
    by_step, by_time = curves(5, seconds=STEPS / 500, alarms=[alarm])
    assert list(by_step.marks) == [(5000.0, "KL spike")]
    assert list(by_time.marks) == [(10.0, "KL spike")]
    assert by_time.x_label == "seconds"
    assert "KL spike" in draw(by_step)


def test_curves_of_another_length_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"must be \(runs, 20\)"):
        learning_curves(STEPS, np.zeros((3, 19)))


def test_a_table_says_how_soon_and_how_often_a_threshold_was_reached() -> None:
    rising = np.tile(np.arange(20.0), (6, 1))
    never = np.zeros((6, 20))
    found = learning_table(STEPS, {"rising": rising, "never": never}, 10.0)
    assert [list(row) for row in found.rows] == [
        ["rising", "19 (19 to 19)", "9.5 (9.5 to 9.5)", "100%", "11 k"],
        ["never", "0 (0 to 0)", "0 (0 to 0)", "0%", "not by half of the runs"],
    ]


def test_a_score_distribution_has_a_curve_for_each_algorithm() -> None:
    found = score_distribution({"a": NOISE.normal(size=6), "b": NOISE.normal(size=(3, 2))})
    assert [len(one) for one in found.series.values()] == [4, 2]
    assert found.footnote is not None


def test_histograms_share_their_bins_and_count_all_episodes() -> None:
    found = returns_histogram(
        {name: _evaluation(returns) for name, returns in (("a", [1, 1, 2, 4]), ("b", [0.0, 4]))}
    )
    assert list(found.positions) == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose(found.series["a"], [0, 0.5, 0.25, 0, 0.25])
    np.testing.assert_allclose(found.series["b"], [0.5, 0, 0, 0, 0.5])
    many = returns_histogram({"a": _evaluation(NOISE.normal(size=50))})
    assert many.series["a"].sum() == pytest.approx(1)


def _evaluation(returns: object) -> AgentEvaluation:
    values = jnp.asarray(np.asarray(returns, np.float32))
    flags = jnp.asarray(np.ones(values.shape, bool))
    return AgentEvaluation(values, values, values.astype(np.int32), flags, values, values, None, greedy=True)


def test_the_course_of_an_episode_is_what_was_expected_beside_what_came(recordings: list[Recording]) -> None:
    one = next(one for one in recordings if not one.terminated)
    rewards, values = course(one, 0.5)
    assert isinstance(rewards, Lines)
    assert isinstance(values, Lines)
    np.testing.assert_array_equal(rewards.series["reward"][1], one.rewards)
    np.testing.assert_array_equal(values.series["came"][1], one.rest(0.5))
    assert values.footnote is not None
    ended = course(next(one for one in recordings if one.terminated), 0.5)[1]
    assert isinstance(ended, Lines)
    assert ended.footnote is None


def test_action_bars_show_every_action_along_the_episode(recordings: list[Recording]) -> None:
    one = max(recordings, key=len)
    over_time, moments = action_bars(one)
    assert isinstance(over_time, Heatmap)
    assert isinstance(moments, Bars)
    np.testing.assert_array_equal(over_time.values, one.preferences.T)
    assert "probability" in over_time.title
    assert list(moments.series) == ["step 0", f"step {len(one) // 2}", f"step {len(one) - 1}"]


def test_a_grid_shows_values_in_its_cells_and_the_way_from_each() -> None:
    env = envs.vector_observations(envs.make("frozen-lake"))
    weights = jnp.asarray(NOISE.normal(size=16), jnp.float32)
    kept = {"best": record(Linear(weights), env, KEYS[:1])[0]}
    values, visited = maps(Linear(weights), env, kept)
    assert isinstance(values, Heatmap)
    assert isinstance(visited, Heatmap)
    holes = np.array([list("SFFF"), list("FHFH"), list("FFFH"), list("HFFG")])
    inside = (holes != "H") & (holes != "G")
    expected = np.asarray(weights).reshape(4, 4)
    np.testing.assert_allclose(values.values[inside], expected[inside], rtol=1e-6)
    assert np.isnan(values.values[~inside]).all()
    arrows = np.where(inside, np.where(expected > 0, "↓", "←"), "")
    np.testing.assert_array_equal(values.words, arrows)
    assert "↓" in draw(values)
    assert visited.values.sum() == len(kept["best"]) + 1
    numbers = kept["best"].states.inner.number
    np.testing.assert_array_equal(visited.values.ravel(), np.bincount(numbers, minlength=16))


@pytest.mark.parametrize("name", ["mountain-car", "pendulum"])
def test_a_plane_shows_values_actions_and_ways(name: str) -> None:
    env = envs.make(name)
    size = env.observation_space.shape[0]
    policy = Linear(jnp.asarray(np.arange(1.0, size + 1), jnp.float32), continuous=name == "pendulum")
    kept = {"median": record(policy, env, KEYS[:1], limit=40)[0]}
    values, actions, visited = maps(policy, env, kept)
    assert isinstance(values, Scatter)
    assert isinstance(actions, Scatter)
    assert isinstance(visited, Heatmap)
    left, right, bottom, top = values.extent
    x, y = np.meshgrid(np.linspace(left, right, 31), np.linspace(bottom, top, 31))
    by_hand = np.cos(x) + 2 * np.sin(x) + 3 * y if name == "pendulum" else x + 2 * y
    np.testing.assert_allclose(values.field, by_hand, rtol=1e-4, atol=1e-5)
    assert visited.values.sum() == 41
    path = values.groups["median"]
    assert path.shape == (41, 2)
    inside = (path >= [left - 1e-6, bottom - 1e-6]) & (path <= [right + 1e-6, top + 1e-6])
    assert inside.all()
    if name == "pendulum":
        assert actions.shades is not None
        np.testing.assert_allclose(actions.shades[0], by_hand.ravel(), rtol=1e-4, atol=1e-5)
    else:
        assert sum(len(points) for points in actions.groups.values()) == 31 * 31
    draw(values), draw(actions)


def test_a_world_without_a_plane_has_no_maps(recordings: list[Recording]) -> None:
    assert maps(Remembering(), Countdown(9), {"best": recordings[0]}) == []
    assert maps(Linear(jnp.ones(3)), Corridor(), {}) == []


def test_one_agent_in_pictures(recordings: list[Recording]) -> None:
    judged = {"greedy": evaluate(Remembering(), Countdown(9), KEYS)}
    found = pictures(Remembering(), Countdown(9), judged, {"best": recordings[0]}, 0.9)
    names = [
        "returns-histogram",
        "episode-rewards",
        "episode-values",
        "episode-actions",
        "episode-action-bars",
    ]
    assert [one.name for one in found] == names
    assert pictures(Remembering(), Countdown(9), {}, {}, 0.9) == []


def test_maps_see_through_wrappers_whose_moments_are_settled() -> None:
    inside = envs.make("pendulum")
    moments = SeenMoments(jnp.float32(9.0), jnp.array([0.5, 0.0, 1.0]), jnp.array([0.25, 1.0, 4.0]))
    env = wrappers.TimeLimit(wrappers.NormalizeObservation(inside, moments), 20)
    policy = Linear(jnp.array([1.0, 0.0, 0.0]), continuous=True)
    names = {str(number): one for number, one in enumerate(record(policy, env, KEYS[:2], greedy=False))}
    titles = [picture.title for picture in maps(policy, env, names, names)]
    assert titles == ["What the agent expects", "What the agent does", "Where it comes while exploring"]
    shown = _shown(env, jnp.asarray(inside.plane().observations[0]))  # type: ignore[attr-defined]
    raw = inside.plane().observations[0]  # type: ignore[attr-defined]
    assert shown is not None
    np.testing.assert_allclose(shown, (raw - [0.5, 0, 1]) / [0.5, 1, 2], rtol=1e-4)
    assert not maps(policy, wrappers.FrameStack(env, 2), {})


def test_values_of_other_rewards_than_those_that_are_earned_stand_alone(recordings: list[Recording]) -> None:
    *_, values = course(recordings[0], 0.9, earned=False)
    assert isinstance(values, Lines)
    assert set(values.series) == {"expected"}
