"""Gaussian classes in closed form against scikit-learn."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf as their_ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

from chainrule.core.errors import ArgumentError
from chainrule.probability.classification import (
    GaussianClasses,
    count_classes,
    fit_gaussian_classes,
    ledoit_wolf,
)

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
X = RNG.normal(size=(300, 4)) @ RNG.normal(size=(4, 4)) + 2 * RNG.normal(size=(3, 4))[Y]


def posteriors(found: GaussianClasses, x: np.ndarray) -> np.ndarray:
    """Bayes' rule in NumPy."""
    logs = []
    for k in range(len(found.means)):
        covariance = found.covariances[min(k, len(found.covariances) - 1)]
        covariance = np.diag(covariance) if covariance.ndim == 1 else covariance
        apart = x - found.means[k]
        square = (apart @ np.linalg.inv(covariance) * apart).sum(axis=1)
        logs.append(-0.5 * square - 0.5 * np.linalg.slogdet(covariance)[1] + np.log(found.counts[k]))
    joint = np.stack(logs, axis=1)
    joint = np.exp(joint - joint.max(axis=1, keepdims=True))
    return joint / joint.sum(axis=1, keepdims=True)


def test_linear_discriminant_analysis() -> None:
    found = fit_gaussian_classes(X, Y, 3, covariance="shared")
    theirs = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(X, Y)
    np.testing.assert_allclose(found.covariances[0], theirs.covariance_, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(posteriors(found, X), theirs.predict_proba(X), atol=1e-6)


def test_quadratic_discriminant_analysis() -> None:
    found = fit_gaussian_classes(X, Y, 3, covariance="per-class")
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", store_covariance=True).fit(X, Y)
    np.testing.assert_allclose(found.covariances, theirs.covariance_, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(posteriors(found, X), theirs.predict_proba(X), atol=1e-6)


def test_gaussian_naive_bayes() -> None:
    found = fit_gaussian_classes(X, Y, 3, covariance="diagonal")
    theirs = GaussianNB(var_smoothing=0).fit(X, Y)
    np.testing.assert_allclose(found.covariances, theirs.var_, rtol=1e-6)
    np.testing.assert_allclose(posteriors(found, X), theirs.predict_proba(X), atol=1e-6)


def test_the_shrinkage_of_ledoit_and_wolf() -> None:
    rows = X[:12] - X[:12].mean(axis=0)
    np.testing.assert_allclose(ledoit_wolf(rows), their_ledoit_wolf(rows, assume_centered=True)[1], rtol=1e-9)
    found = fit_gaussian_classes(X, Y, 3, covariance="per-class", shrinkage="auto")
    for k in range(3):
        own = X[np.equal(Y, k)]
        own = own - own.mean(axis=0)
        expected, share = their_ledoit_wolf(own, assume_centered=True)
        np.testing.assert_allclose(found.shrinkage[k], share, rtol=1e-9)
        np.testing.assert_allclose(found.covariances[k], expected, rtol=1e-8, atol=1e-10)


def test_weights_count_like_copies() -> None:
    weights = RNG.integers(1, 4, len(X)).astype(float)
    copies = np.repeat(np.arange(len(X)), weights.astype(int))
    for covariance in ("shared", "per-class", "diagonal"):
        one = fit_gaussian_classes(X, Y, 3, covariance=covariance, shrinkage="auto", weights=weights)
        other = fit_gaussian_classes(X[copies], Y[copies], 3, covariance=covariance, shrinkage="auto")
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_singular_covariance_is_raised_and_said() -> None:
    rows = np.concatenate([X, X[:, :1]], axis=1)  # a column twice
    found = fit_gaussian_classes(rows, Y, 3, covariance="per-class", regularisation=1e-4)
    assert found.raised.tolist() == [1, 1, 1]
    for covariance in found.covariances:
        np.testing.assert_allclose(np.linalg.eigvalsh(covariance)[0], found.floor, rtol=1e-6)
    np.testing.assert_allclose(found.floor, 1e-4 * rows.var(axis=0).mean(), rtol=1e-9)
    constant = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    assert fit_gaussian_classes(constant, Y, 3, covariance="diagonal").raised.tolist() == [1, 1, 1]


def test_a_class_without_examples_is_refused() -> None:
    with pytest.raises(ArgumentError, match="class 3 has no examples"):
        fit_gaussian_classes(X, Y, 4)
    with pytest.raises(ArgumentError, match="class 3 has no examples"):
        count_classes(np.zeros((300, 2), int), Y, 4, 2)


def test_bernoulli_naive_bayes() -> None:
    bits = (X > 0).astype(int)
    found = count_classes(bits, Y, 3, 2, pseudo_count=0.5)
    theirs = BernoulliNB(alpha=0.5).fit(bits, Y)
    np.testing.assert_allclose(found.log_probs[..., 1], theirs.feature_log_prob_, atol=1e-6)
    joint = np.log(found.counts / found.counts.sum()) + sum(
        found.log_probs[:, i, bits[:, i]].T for i in range(bits.shape[1])
    )
    np.testing.assert_allclose(joint, theirs.predict_joint_log_proba(bits), atol=1e-6)


def test_tokens_of_texts_are_multinomial() -> None:
    tokens = RNG.integers(0, 7, (300, 20))
    found = count_classes(tokens.reshape(-1, 1), np.repeat(Y, 20), 3, 7)
    counts = np.stack([np.bincount(row, minlength=7) for row in tokens])
    np.testing.assert_allclose(
        found.log_probs[:, 0], MultinomialNB().fit(counts, Y).feature_log_prob_, atol=1e-6
    )


def test_what_is_no_value_is_not_counted() -> None:
    found = count_classes(np.array([[0, -1], [1, 0]]), np.array([0, 0]), 1, 2)
    np.testing.assert_allclose(np.exp(found.log_probs[0]), [[0.5, 0.5], [2 / 3, 1 / 3]])
