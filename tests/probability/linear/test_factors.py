"""Factors under noise: closed form, EM, missing values, against dense Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability.linear import (
    FactorModel,
    Factors,
    expectation_maximization,
    fit_factors,
    ppca,
    principal_components,
)

RANDOM = np.random.default_rng(1)


def with_covariance(covariance: np.ndarray, rows: int = 500) -> np.ndarray:
    """Rows whose mean is zero and whose covariance is this one to the last digit."""
    x = RANDOM.normal(size=(rows, len(covariance)))
    x -= x.mean(axis=0)
    white = x @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, bias=True))).T
    return white @ np.linalg.cholesky(covariance).T


def mean_log_likelihood(found: Factors, x: np.ndarray) -> float:
    covariance = found.loadings @ found.loadings.T + np.diag(found.noise)
    return float(scipy.stats.multivariate_normal(found.mean, covariance).logpdf(x).mean())


SPECTRUM = np.array([4.0, 2.0, 1.0, 0.5])
X = with_covariance(np.diag(SPECTRUM))


def test_the_closed_form_of_a_known_spectrum() -> None:
    found = ppca(principal_components(X), 2)
    np.testing.assert_allclose(found.noise, 0.75)
    np.testing.assert_allclose((found.loadings**2).sum(axis=0), [3.25, 1.25])
    assert mean_log_likelihood(found, X) == pytest.approx(-6.427793, abs=1e-6)
    with jax.enable_x64(True):
        model = FactorModel.of(found)
        assert float(model.distribution.log_prob(jnp.asarray(X)).mean()) == pytest.approx(-6.427793, abs=1e-6)
        codes, spread = model.posterior(jnp.asarray(X))
        np.testing.assert_allclose(np.linalg.eigvalsh(spread), [0.1875, 0.375])
        rate = 0.5 * (
            np.square(codes).sum(axis=1).mean() + np.trace(spread) - 2 - np.linalg.slogdet(spread)[1]
        )
    assert rate == pytest.approx(1.327403, abs=1e-6)


def test_it_is_the_top_of_the_likelihood_and_rotations_of_the_factors_change_nothing() -> None:
    found = ppca(principal_components(X), 2)
    best = mean_log_likelihood(found, X)
    for _ in range(20):
        mean, loadings, _ = (a + 0.02 * RANDOM.normal(size=a.shape) for a in found)
        moved = Factors(mean, loadings, found.noise + 0.02 * RANDOM.normal())
        assert mean_log_likelihood(moved, X) < best
    turn = np.linalg.qr(RANDOM.normal(size=(2, 2)))[0]
    turned = found._replace(loadings=found.loadings @ turn)
    assert mean_log_likelihood(turned, X) == pytest.approx(best, abs=1e-12)


def test_iterations_raise_the_likelihood_to_the_closed_form() -> None:
    found, values = Factors(np.ones(4), RANDOM.normal(size=(4, 2)), np.ones(4)), []
    for _ in range(400):
        found, value = expectation_maximization(found, X, "isotropic")
        values.append(value)
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] == pytest.approx(-6.427793, abs=1e-6)
    np.testing.assert_allclose(found.noise, 0.75, rtol=1e-3)


def test_noise_of_every_feature_is_found_by_factor_analysis() -> None:
    loadings, noise = np.array([[1.0], [0.8], [-0.6], [0.5], [0.9]]), np.array([0.1, 0.4, 0.2, 0.3, 0.5])
    rows = with_covariance(loadings @ loadings.T + np.diag(noise))
    model = fit_factors(rows, 1, noise="diagonal", iterations=2000, tolerance=1e-12)
    np.testing.assert_allclose(model.noise, noise, atol=1e-3)
    np.testing.assert_allclose(np.abs(model.loadings), np.abs(loadings), atol=1e-3)


def test_missing_values_are_integrated_out() -> None:
    rows = with_covariance(np.array([[2.0, 1.2, 0.5], [1.2, 1.5, 0.3], [0.5, 0.3, 1.0]]), 400)
    gone = RANDOM.random(rows.shape) < 0.2
    gone[gone.all(axis=1)] = False
    holes = np.where(gone, np.nan, rows)
    start = ppca(principal_components(rows), 1)
    # The likelihood of a row is that of the marginal distribution of what is seen of it.
    covariance = start.loadings @ start.loadings.T + np.diag(start.noise)
    expected = np.mean(
        [
            scipy.stats.multivariate_normal(np.zeros(s.sum()), covariance[np.ix_(s, s)]).logpdf(row[s])
            for row, s in zip(holes, ~gone, strict=True)
        ]
    )
    found, values = start, []
    for _ in range(200):
        found, value = expectation_maximization(found, holes, "isotropic")
        values.append(value)
    assert values[0] == pytest.approx(expected, abs=1e-9)
    assert (np.diff(values) > -1e-9).all()
    np.testing.assert_allclose(found.noise, start.noise, rtol=0.25)


def test_what_leaves_no_noise_is_refused() -> None:
    flat = np.outer(RANDOM.normal(size=50), [1.0, 2.0, 3.0])
    with pytest.raises(ArgumentError, match="explain all of the variance"):
        ppca(principal_components(flat), 2)
    with pytest.raises(ArgumentError, match=r"k=4.*from 1 to 3 factors[\s\S]*use k=3"):
        ppca(principal_components(X), 4)
    with pytest.raises(ArgumentError, match="feature 1 is missing in every row"):
        fit_factors(np.array([[1.0, np.nan], [2.0, np.nan]]), 1)
