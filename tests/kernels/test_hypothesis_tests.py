"""Two-sample and independence tests: statistics by definition, p-values that are uniform under the hypothesis."""

import math
from itertools import permutations

import jax
import numpy as np
import pytest
from scipy import stats

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Linear, hypothesis_tests
from chainrule.kernels.hypothesis_tests import independence_test, two_sample_test
from chainrule.kernels.independence import hsic
from chainrule.kernels.mean_embedding import squared_mmd

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(25, 2)), RNG.normal(size=(20, 2))
X = RNG.normal(size=60)


@pytest.mark.parametrize("estimate", ["biased", "unbiased"])
def test_the_statistic_is_the_estimate_and_shuffles_are_estimates_of_shuffled_samples(estimate) -> None:
    found = two_sample_test(A, B + 1, RBF(1.0), estimate=estimate, permutations=500)
    assert found.statistic == pytest.approx(float(squared_mmd(A, B + 1, RBF(1.0), estimate)), abs=1e-12)
    assert found.p_value == (1 + (found.null >= found.statistic).sum()) / 501
    assert found.p_value < 0.01
    pooled, rng, direct = np.concatenate([A, B + 1]), np.random.default_rng(1), []
    value = jax.jit(lambda a, b: squared_mmd(a, b, RBF(1.0), estimate))
    for _ in range(200):
        order = rng.permutation(45)
        direct.append(float(value(pooled[order[:25]], pooled[order[25:]])))
    assert stats.ks_2samp(found.null, direct).pvalue > 1e-3


@pytest.mark.parametrize("estimate", ["features", "linear"])
def test_quick_estimates_tell_samples_apart_and_leave_the_same_alone(estimate) -> None:
    x, y = np.random.default_rng(2).normal(size=(2, 400))
    settings = {"estimate": estimate, "permutations": 200, "count": 100}
    assert two_sample_test(x, y + 1, RBF(1.0), **settings).p_value < 0.01
    assert two_sample_test(x, y, RBF(1.0), **settings).p_value > 0.02


def test_p_values_are_never_zero_and_one_where_samples_are_the_same() -> None:
    assert two_sample_test(A, A + 100, permutations=9).p_value == pytest.approx(0.1)
    assert two_sample_test(A, A, estimate="biased", permutations=50).p_value == 1


def test_keys_decide_the_shuffles() -> None:
    first, again, other = (
        two_sample_test(A, B, RBF(1.0), permutations=20, key=jax.random.key(k)).null for k in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def uniform(p_values: list[float], least: float = 1e-3) -> None:
    """P-values of shuffles are uniform on 1/(B+1), ..., 1; noise within a step makes them so on the unit interval."""
    smooth = np.array(p_values) - np.random.default_rng(0).random(len(p_values)) / 100
    assert stats.kstest(smooth, "uniform").pvalue > least


@pytest.mark.slow
def test_p_values_of_equal_distributions_are_uniform() -> None:
    draws = np.random.default_rng(5).normal(size=(500, 2, 15))
    keys = list(jax.random.split(jax.random.key(0), 500))
    uniform(
        [
            two_sample_test(*d, RBF(1.0), permutations=99, key=k).p_value
            for d, k in zip(draws, keys, strict=True)
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("estimate", ["biased", "unbiased"])
def test_p_values_of_independent_variables_are_uniform(estimate) -> None:
    draws = np.random.default_rng(6).normal(size=(500, 2, 20))
    keys = list(jax.random.split(jax.random.key(0), 500))
    uniform(
        [
            independence_test(*d, RBF(1.0), RBF(1.0), estimate=estimate, permutations=99, key=k).p_value
            for d, k in zip(draws, keys, strict=True)
        ]
    )


def test_few_p_values_of_equal_distributions_are_below_a_tenth() -> None:
    draws = np.random.default_rng(7).normal(size=(60, 2, 15))
    keys = list(jax.random.split(jax.random.key(0), 60))
    found = [
        two_sample_test(*d, RBF(1.0), permutations=49, key=k).p_value
        for d, k in zip(draws, keys, strict=True)
    ]
    assert stats.binomtest(sum(p <= 0.1 for p in found), 60, 0.1).pvalue > 1e-3


def test_the_biased_criterion_is_the_trace_of_centred_gram_matrices() -> None:
    y = X**2
    k, m = (np.asarray(RBF(1.0).gram(one)) for one in (X, y))
    h = np.eye(60) - 1 / 60
    assert float(hsic(X, y, RBF(1.0), RBF(1.0))) == pytest.approx(np.trace(k @ h @ m @ h) / 60**2)


def test_the_linear_criterion_is_the_squared_covariance() -> None:
    y = 0.5 * X + RNG.normal(size=60)
    assert float(hsic(X, y, Linear(), Linear())) == pytest.approx(np.cov(X, y, ddof=0)[0, 1] ** 2)


def test_the_unbiased_criterion_is_the_mean_over_different_rows() -> None:
    x, y = np.random.default_rng(8).normal(size=(2, 6))
    k, m = (np.asarray(RBF(1.0).gram(one)) for one in (x, y))
    quadruples = np.array(list(permutations(range(6), 4)))
    i, j, q, r = quadruples.T
    expected = (k[i, j] * m[i, j] + k[i, j] * m[q, r] - 2 * k[i, j] * m[i, q]).mean()
    assert float(hsic(x, y, RBF(1.0), RBF(1.0), "unbiased")) == pytest.approx(expected, abs=1e-12)


def test_by_features_it_is_the_criterion_of_the_kernels_that_they_stand_for() -> None:
    y, linear = X**2, {"estimate": "features", "count": 2}
    assert float(hsic(X, X + y, Linear(), Linear(), **linear)) == pytest.approx(
        np.cov(X, X + y, ddof=0)[0, 1] ** 2, rel=1e-4
    )
    exact, near = (
        float(hsic(X, y, RBF(1.0), RBF(1.0), estimate, count=4000)) for estimate in ("biased", "features")
    )
    assert near == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(
    "settings", [{}, {"estimate": "biased"}, {"method": "gamma"}, {"estimate": "features", "count": 50}]
)
def test_dependence_without_correlation_is_found_and_independence_is_left_alone(settings) -> None:
    other = np.random.default_rng(3).normal(size=60)
    assert independence_test(X, X**2 + 0.1 * other, permutations=200, **settings).p_value < 0.01
    assert independence_test(X, other, permutations=200, **settings).p_value > 0.05


def test_the_gamma_distribution_has_the_p_values_of_shuffles() -> None:
    y = 0.2 * X + np.random.default_rng(4).normal(size=60)
    near = independence_test(X, y, method="gamma")
    exact = independence_test(X, y, estimate="biased", permutations=2000)
    assert near.statistic == pytest.approx(exact.statistic)
    assert near.p_value == pytest.approx(exact.p_value, abs=0.05)


@pytest.mark.parametrize("method", ["gamma", "permutation"])
def test_what_never_changes_depends_on_nothing(method) -> None:
    assert independence_test(np.ones(10), np.arange(10.0), method=method, permutations=20).p_value == 1.0


def test_criteria_can_be_differentiated() -> None:
    slope = jax.jit(jax.grad(lambda y: hsic(X, y, RBF(1.0), RBF(1.0), "unbiased")))
    y, step = X**2, np.random.default_rng(9).normal(size=60)
    ahead, behind = (float(hsic(X, y + s * 1e-5 * step, RBF(1.0), RBF(1.0), "unbiased")) for s in (1, -1))
    assert float((np.asarray(slope(y)) * step).sum()) == pytest.approx((ahead - behind) / 2e-5, rel=1e-5)


def test_more_points_than_a_gram_matrix_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypothesis_tests, "MOST", 30)
    with pytest.raises(ArgumentError, match=r'45 points needs .* GiB.*\n.*estimate="features" or "linear"'):
        two_sample_test(A, B)
    with pytest.raises(ArgumentError, match=r'60 points needs .* GiB.*\n.*estimate="features"'):
        independence_test(X, X)
    assert independence_test(X, X, estimate="features", count=20, permutations=50).p_value < 0.05
    assert math.isfinite(two_sample_test(A, B, estimate="linear").p_value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: two_sample_test(A[:1], B), "two points or more"),
        (lambda: two_sample_test(A, B, permutations=0), "permutations must be a whole number of at least 1"),
        (lambda: two_sample_test(A, B, estimate="best"), "estimate must be"),
        (lambda: independence_test(X, X[:5]), "60 rows and y has 5"),
        (lambda: independence_test(X, X, method="guess"), '"permutation" or "gamma"'),
        (lambda: independence_test(X[:5], X[:5], method="gamma"), "5 rows are too few"),
        (lambda: hsic(X, X[:5]), "60 rows and y has 5"),
        (lambda: hsic(X[:3], X[:3], estimate="unbiased"), "needs 4 rows, not 3\n.*biased"),
        (lambda: hsic(X, X, estimate="best"), '"biased", "unbiased" or "features"'),
        (lambda: independence_test(X, X, estimate="best"), '"biased", "unbiased" or "features"'),
        (lambda: independence_test(X, X, method="gamma", estimate="features"), "that of the kernels"),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
