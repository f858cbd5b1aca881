"""Error rates of verification against counting, and against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from scipy.stats import norm

from chainrule.core.errors import ArgumentError
from chainrule.probability.classification.verification import cosine_trials, error_rates

NOISE = np.random.default_rng(0)


@pytest.mark.parametrize("digits", [1, 8])
def test_rates_are_counts_with_ties_too(digits: int) -> None:
    genuine, impostors = NOISE.normal(1, 1, 200).round(digits), NOISE.normal(0, 1, 300).round(digits)
    found = error_rates(genuine, impostors)
    for cut, far, tar in zip(*found, strict=True):
        assert far == (impostors >= cut).mean()
        assert tar == (genuine >= cut).mean()
    both, ours = np.concatenate([genuine, impostors]), np.arange(500) < 200
    far, tar, _ = sklearn.metrics.roc_curve(ours, both, drop_intermediate=False)
    np.testing.assert_allclose(found.false_accepts, far)
    np.testing.assert_allclose(found.true_accepts, tar)
    for rate in (0, 0.001, 0.01, 0.1, 1):
        best = max(
            tar for far, tar in zip(found.false_accepts, found.true_accepts, strict=True) if far <= rate
        )
        assert found.true_accept_at(rate) == best
        assert (impostors >= found.threshold_at(rate)).mean() <= rate


def test_equal_errors_of_two_normal_distributions_and_at_the_ends() -> None:
    quantiles = (np.arange(20000) + 0.5) / 20000
    scores = norm.ppf(quantiles)
    assert error_rates(scores + 2, scores).equal_error_rate() == pytest.approx(norm.cdf(-1), abs=2e-4)
    assert error_rates(scores + 2, scores).equal_threshold() == pytest.approx(1, abs=0.01)
    assert error_rates(np.array([2.0, 3.0]), np.array([0.0, 1.0])).equal_error_rate() == 0
    assert error_rates(np.array([0.0]), np.array([1.0])).equal_error_rate() == 1
    assert error_rates(np.array([1.0]), np.array([1.0])).equal_error_rate() == 0.5


def test_what_has_no_rates_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="0 genuine trials and 2 impostors"):
        error_rates(np.zeros(0), np.zeros(2))
    with pytest.raises(ArgumentError, match="not finite"):
        error_rates(np.array([np.nan]), np.zeros(2))
    with pytest.raises(ArgumentError, match="far=2"):
        error_rates(np.ones(1), np.zeros(2)).true_accept_at(2)


def test_pairs_are_compared_by_their_angle() -> None:
    vectors, who = NOISE.normal(size=(6, 3)), np.array([0, 1, 0, 2, 1, 0])
    found = cosine_trials(vectors, who)
    assert (len(found.genuine), len(found.impostors)) == (4, 11)
    pair = vectors[0] @ vectors[2] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[2])
    assert found.genuine[0] == pytest.approx(pair)
