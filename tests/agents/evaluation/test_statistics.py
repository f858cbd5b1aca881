"""Statistics against closed forms, full enumeration and SciPy."""

import itertools

import numpy as np
import pytest
import scipy.stats

from chainrule.agents.evaluation import statistics
from chainrule.agents.evaluation.statistics import (
    FEWEST,
    area_under_curve,
    band,
    improvement,
    interquartile_mean,
    interval,
    mean,
    median,
    profile,
    steps_to,
)
from chainrule.core.errors import ArgumentError

NOISE = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(3, 1), (5, 1), (8, 1), (10, 3), (4, 2, 7, 3)])
def test_the_interquartile_mean_is_scipy_s_trimmed_mean(shape: tuple[int, ...]) -> None:
    scores = NOISE.normal(size=shape)
    flat = scores.reshape(*shape[:-2], -1)
    np.testing.assert_allclose(interquartile_mean(scores), scipy.stats.trim_mean(flat, 0.25, axis=-1))


def test_the_median_is_over_tasks_of_means_over_runs() -> None:
    scores = np.array([[1.0, 10.0, 100.0], [3.0, 20.0, 300.0]])
    assert median(scores) == 15


def test_a_bootstrap_interval_is_that_of_all_samples_there_are() -> None:
    scores = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    means = np.mean(list(itertools.product(scores, repeat=5)), axis=1)  # all 3,125
    exact = np.percentile(means, [2.5, 97.5])
    found = interval(scores, mean, samples=20_000)
    assert found.value == 6.2
    np.testing.assert_allclose([found.low, found.high], exact, atol=0.21)  # means differ in steps of 0.2


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    draws = NOISE.normal(size=(200, 40, 1))
    found = [interval(one, mean, samples=500) for one in draws]
    covered = np.mean([one.low <= 0 <= one.high for one in found])
    assert 0.89 <= covered <= 0.99


def test_runs_are_drawn_within_tasks_never_across() -> None:
    scores = np.tile([[0.0, 1000.0]], (6, 1))  # no run differs from another on the same task
    found = interval(scores, mean)
    assert (found.low, found.value, found.high) == (500, 500, 500)


def test_tasks_are_drawn_independently_of_each_other() -> None:
    one = NOISE.normal(size=12)
    both = np.stack([one, -one], axis=1)
    # Drawn together, the two tasks would cancel out in every sample.
    found = interval(both, mean)
    assert found.value == pytest.approx(0, abs=1e-12)
    error = one.std() / np.sqrt(12) / np.sqrt(2)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_an_interval_is_the_same_every_time_and_written_in_words() -> None:
    scores = NOISE.normal(size=(7, 2))
    assert interval(scores) == interval(scores)
    assert str(interval(np.arange(5.0), mean)) == "2 (0.8 to 3.2)"
    assert str(interval(np.arange(4.0), mean)) == "1.5"


def test_few_runs_have_no_interval_and_no_band() -> None:
    few = NOISE.normal(size=(FEWEST - 1, 3))
    assert np.isnan(interval(few).low)
    assert np.isnan(improvement(few, NOISE.normal(size=(9, 3))).high)
    assert band(few).ends == ()
    assert profile(few, np.array([0.0])).ends == ()


def test_a_band_has_at_each_point_what_an_interval_has() -> None:
    curves = NOISE.normal(size=(9, 4)) * [1, 2, 3, 4] + [0, 10, 20, 30]
    found = band(curves, mean, samples=8000)
    for point in range(4):
        alone = interval(curves[:, point], mean, samples=8000)
        width = alone.high - alone.low
        assert found.value[point] == pytest.approx(alone.value)
        assert found.ends[0][point] == pytest.approx(alone.low, abs=0.06 * width)
        assert found.ends[1][point] == pytest.approx(alone.high, abs=0.06 * width)


def test_a_band_does_not_depend_on_how_much_is_drawn_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = NOISE.normal(size=(6, 50))
    once = band(curves)
    monkeypatch.setattr(statistics, "_AT_ONCE", 10_000)
    again = band(curves)
    np.testing.assert_array_equal(once.ends, again.ends)


def test_the_probability_of_improvement_is_that_of_mann_and_whitney() -> None:
    a, b = NOISE.integers(0, 9, size=(8, 3)), NOISE.integers(0, 7, size=(11, 3))
    by_task = [scipy.stats.mannwhitneyu(a[:, t], b[:, t]).statistic / (8 * 11) for t in range(3)]
    found = improvement(a, b)
    assert found.value == pytest.approx(np.mean(by_task))
    assert found.low < found.value < found.high
    other = improvement(b, a)
    assert other.value == pytest.approx(1 - found.value)


def test_an_improvement_s_interval_is_that_of_drawing_runs_by_hand() -> None:
    a, b = NOISE.normal(0.5, size=10), NOISE.normal(size=10)
    rows = NOISE.integers(10, size=(2, 4000, 10))
    drawn = (a[rows[0]][:, :, None] > b[rows[1]][:, None, :]).mean(axis=(1, 2))
    found = improvement(a, b, samples=4000)
    np.testing.assert_allclose([found.low, found.high], np.percentile(drawn, [2.5, 97.5]), atol=0.03)


def test_a_score_distribution_falls_from_all_to_none() -> None:
    scores = NOISE.normal(size=(8, 2))
    thresholds = np.linspace(-5, 5, 21)
    found = profile(scores, thresholds)
    np.testing.assert_allclose(found.value, [(scores > t).mean() for t in thresholds])
    assert (np.diff(found.value) <= 0).all()
    assert (found.ends[0] <= found.value).all()
    assert (found.value <= found.ends[1]).all()
    spread = found.ends[1][10] - found.ends[0][10]
    shares = (scores > 0).mean(axis=0)
    error = np.sqrt((shares * (1 - shares) / 8).sum()) / 2
    assert spread == pytest.approx(2 * 1.96 * error, abs=0.13)  # shares differ in steps of 1/16


def test_the_area_under_a_straight_line_is_its_middle() -> None:
    steps = np.array([0.0, 1.0, 5.0, 10.0])  # not evenly spread
    np.testing.assert_allclose(area_under_curve(steps, np.stack([steps, 3 - steps])), [5.0, -2.0])
    np.testing.assert_allclose(area_under_curve(np.array([7.0]), np.array([[4.0]])), [4.0])


def test_steps_to_a_threshold_count_the_first_time_only() -> None:
    curves = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 1.0, 1.9]])
    np.testing.assert_array_equal(steps_to(2.0, np.array([10, 20, 30]), curves), [20, 10, np.inf])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: interval(np.array([1.0, np.nan, 2.0])), "not finite"),
        (lambda: interval(np.zeros((2, 2, 2))), r"\(runs,\) or \(runs, tasks\)"),
        (lambda: interval(np.zeros(0)), r"\(runs,\) or \(runs, tasks\)"),
        (lambda: band(np.zeros(3)), r"\(runs, points\)"),
        (lambda: improvement(np.zeros((5, 2)), np.zeros((5, 3))), "2 and 3 tasks"),
        (lambda: area_under_curve(np.array([0.0, 0.0]), np.zeros((1, 2))), "steps must rise"),
        (lambda: steps_to(0.0, np.zeros(3), np.zeros((1, 2))), r"\(runs, points\)"),
        (lambda: profile(np.zeros(5), np.zeros(0)), "thresholds"),
        (lambda: interval(np.zeros(5), samples=0), "samples"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_input_is_named(call: object, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call()  # type: ignore[operator]
