"""Gaussian processes in weight space: Gaussian conditioning on the features, the exact process as features grow."""

import jax
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError, DataError
from chainrule.kernels import RBF, Constant, GaussianProcess, Linear, Matern, WeightSpaceGaussianProcess
from chainrule.kernels.gaussian_processes import weight_space

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2], axis=1) + 0.1 * RNG.normal(size=(60, 2))
NEW = np.concatenate([RNG.normal(size=(10, 2)), [[30.0, 30.0]]])
KERNEL = 2.0 * RBF([1.0, 1.5])
NOISE = 0.05
KEY = jax.random.key(1)


def psi(found: weight_space.WeightSpacePosterior, x: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(found.features(x), np.float64)


@pytest.mark.parametrize(("method", "count"), [("rff", 16), ("rff", 100), ("nystrom", 12)])
def test_weights_are_conditioned_on_the_targets(method: str, count: int) -> None:
    found = WeightSpaceGaussianProcess(KERNEL, NOISE, approximate=method, count=count).fit(X, Y, key=KEY)
    seen, new = psi(found, X), psi(found, NEW)
    covariance = seen @ seen.T + NOISE * np.eye(len(X))
    gain = np.linalg.solve(covariance, seen @ new.T)
    mean, variance = found.predict(NEW, kind="latent")
    np.testing.assert_allclose(mean, gain.T @ Y, atol=1e-6)
    unseen = 2.0 - np.square(new).sum(axis=1)
    expected = np.square(new).sum(axis=1) - (gain * (seen @ new.T)).sum(axis=0) + np.maximum(unseen, 0)
    np.testing.assert_allclose(variance, expected, atol=1e-6)
    np.testing.assert_allclose(found.predict(NEW)[1], variance + NOISE)
    evidence = scipy.stats.multivariate_normal(np.zeros(len(X)), covariance).logpdf(Y.T).sum()
    assert found.log_marginal_likelihood == pytest.approx(evidence, abs=1e-4)


def test_with_all_landmarks_it_is_the_exact_process_and_far_away_the_prior() -> None:
    kernel = 2.0 * Matern(1.5, 1.0)
    exact = GaussianProcess(kernel, NOISE).fit(X, Y)
    found = WeightSpaceGaussianProcess(kernel, NOISE, count=len(X)).fit(X, Y)
    mean, variance = found.predict(NEW)
    theirs = exact.predict(NEW)
    np.testing.assert_allclose(mean, theirs.mean, atol=1e-6)
    np.testing.assert_allclose(variance, theirs.variance[:, 0], atol=1e-6)
    assert found.log_marginal_likelihood == pytest.approx(float(exact.log_marginal_likelihood), abs=1e-4)
    few = WeightSpaceGaussianProcess(kernel, NOISE, count=5).fit(X, Y)
    assert few.predict(NEW, kind="latent")[1][-1] == pytest.approx(2.0, abs=1e-3)


def test_more_random_features_come_closer() -> None:
    exact = GaussianProcess(KERNEL, NOISE).fit(X, Y[:, 0]).predict(NEW)
    errors = []
    for count in (40, 4000):
        found = WeightSpaceGaussianProcess(KERNEL, NOISE, approximate="rff", count=count)
        mean, variance = found.fit(X, Y[:, 0], key=KEY).predict(NEW)
        assert mean.shape == variance.shape == (len(NEW),)
        errors.append((np.abs(mean - exact.mean).mean(), np.abs(variance - exact.variance).mean()))
    assert errors[1][0] < 0.3 * errors[0][0]
    assert errors[1][1] < 0.3 * errors[0][1]


def test_a_linear_kernel_is_bayesian_linear_regression_however_rows_are_tiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weight_space, "TILE", 9 * 3)
    x, y = X[:50], Y[:50, :1]
    kernel = 3.0 * Linear(1.0)
    found = WeightSpaceGaussianProcess(kernel, NOISE, approximate="rff", count=3).fit(x, y)
    design = np.sqrt(3.0) * np.concatenate([x, np.ones((50, 1))], axis=1)
    precision = np.eye(3) + design.T @ design / NOISE
    weights = np.linalg.solve(precision, design.T @ y / NOISE)
    np.testing.assert_allclose(found.weights, weights, atol=1e-6)
    np.testing.assert_allclose(found.lower @ found.lower.T, precision, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: WeightSpaceGaussianProcess(KERNEL, approximate="none"), 'must be "rff" or "nystrom"'),
        (lambda: WeightSpaceGaussianProcess(KERNEL, noise=0.0), "noise"),
        (lambda: WeightSpaceGaussianProcess(KERNEL, count=61).fit(X, Y), "there are only 60 points"),
        (lambda: WeightSpaceGaussianProcess(KERNEL, count=5).fit([[np.nan, 0.0]], [0.0]), "is nan"),
        (
            lambda: WeightSpaceGaussianProcess(Constant(1.0), count=1).fit([0.0], [0.0]).predict([]),
            "no points",
        ),
        (
            lambda: WeightSpaceGaussianProcess(KERNEL, count=5).fit(X, Y).predict(NEW.T),
            r"expected \(n, 2\), got \(2, 11\): transpose it",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises((ArgumentError, DataError), match=words):
        call()
