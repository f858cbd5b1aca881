"""Importance weights: effective sample sizes and tails that are known exactly."""

import math

import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability.monte_carlo import pareto_k, weight_report


def log_weights(variance: float, draws: int, seed: int) -> np.ndarray:
    """Of N(0, 1) from N(0, variance)."""
    x = np.random.default_rng(seed).normal(size=draws) * math.sqrt(variance)
    return -(x**2) / 2 + x**2 / (2 * variance) + math.log(variance) / 2


def test_the_effective_sample_size_of_a_wider_proposal_is_the_known_one() -> None:
    report = weight_report(log_weights(4, 200_000, 0))
    assert report.effective_sample_size / report.draws == pytest.approx(math.sqrt(7) / 4, abs=0.003)  # 0.6614
    assert abs(report.log_mean) < 4 * report.standard_error
    assert report.concern() == ""


@pytest.mark.parametrize("variance", [0.5, 0.4, 0.3, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_proposal_with_half_the_variance_or_less_is_warned_of(variance: float, seed: int) -> None:
    with pytest.warns(ChainruleWarning, match="Pareto k is"):
        weight_report(log_weights(variance, 5000, seed))


def test_a_very_narrow_proposal_is_called_unreliable() -> None:
    with pytest.warns(ChainruleWarning, match=r"above 0\.7: a few draws decide"):
        report = weight_report(log_weights(0.05, 5000, 0))
    assert not report.reliable


@pytest.mark.parametrize("variance", [1.0, 1.2, 2.0, 4.0])
def test_a_wider_proposal_is_not_warned_of(variance: float) -> None:
    assert all(weight_report(log_weights(variance, 2000, seed)).reliable for seed in range(3))


@pytest.mark.parametrize("shape", [-0.4, 0.1, 0.5, 0.9])
def test_the_shape_of_a_pareto_tail_is_found(shape: float) -> None:
    weights = scipy.stats.genpareto.rvs(shape, size=100_000, random_state=np.random.default_rng(1))
    assert pareto_k(weights) == pytest.approx(shape, abs=3 * (1 + abs(shape)) / math.sqrt(949))


def test_the_shape_does_not_depend_on_the_unit_of_the_weights() -> None:
    weights = np.exp(log_weights(0.5, 1000, 0))
    assert pareto_k(1e-30 * weights) == pytest.approx(pareto_k(weights), abs=1e-9)


def test_weights_that_are_all_alike_have_no_tail() -> None:
    report = weight_report(np.full((50, 2), [3.0, -700.0]))
    assert report.log_mean == pytest.approx([3.0, -700.0])
    assert (report.pareto_k == -np.inf).all()
    assert report.effective_sample_size == pytest.approx(50)


def test_rounding_in_single_precision_is_no_tail() -> None:
    rounded = (np.random.default_rng(0).normal(size=500) * 3e-5 - 700).astype(np.float32)
    assert len(np.unique(rounded)) > 1
    assert weight_report(rounded).pareto_k == -np.inf


def test_the_jackknife_is_that_of_leaving_out_one_after_the_other() -> None:
    logs = np.random.default_rng(0).normal(size=12)
    with pytest.warns(ChainruleWarning, match="too few"):
        report = weight_report(logs)
    log_mean = np.log(np.exp(logs).mean())
    left = np.array([np.log(np.delete(np.exp(logs), i).mean()) for i in range(12)])
    assert report.corrected == pytest.approx(12 * log_mean - 11 * left.mean())
    assert report.standard_error == pytest.approx(math.sqrt(11 / 12 * np.square(left - left.mean()).sum()))
    low, high = report.interval(1.0)
    assert high - low == pytest.approx(2 * report.standard_error)
    assert report.corrected > report.log_mean  # the logarithm of a mean is too low


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    report = weight_report(np.stack([log_weights(2, 400, seed) for seed in range(300)], axis=1), warn=False)
    low, high = report.interval()
    assert 0.91 < ((low < 0) & (high > 0)).mean() < 0.985


def test_single_draws_and_undefined_weights_are_refused() -> None:
    with pytest.raises(ArgumentError, match="at least two"):
        weight_report([0.0])
    with pytest.raises(ArgumentError, match="NaN or infinite"):
        weight_report([0.0, np.nan, 1.0])


def test_weights_of_zero_count_as_draws() -> None:
    report = weight_report(np.where(np.arange(100) % 2, 0.0, -np.inf), warn=False)
    assert report.log_mean == pytest.approx(math.log(0.5))
    assert report.effective_sample_size == pytest.approx(50)
