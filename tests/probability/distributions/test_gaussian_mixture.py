"""Mixtures of normal distributions: density, score and draws against numbers known otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability.distributions import GaussianMixture

KEY = jax.random.key(0)
COVARIANCES = np.array([[[1.0, 0.5], [0.5, 2.0]], [[0.3, 0.0], [0.0, 0.1]]])
MEANS = np.array([[0.0, 1.0], [2.0, -1.0]])
MIXTURE = GaussianMixture([3.0, 1.0], MEANS, COVARIANCES)
X = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), jnp.float32)


def test_the_density_is_the_weighted_sum_of_normal_densities() -> None:
    parts = [scipy.stats.multivariate_normal(m, c).pdf(X) for m, c in zip(MEANS, COVARIANCES, strict=True)]
    np.testing.assert_allclose(MIXTURE.log_prob(X), np.log(0.75 * parts[0] + 0.25 * parts[1]), rtol=1e-4)


def test_the_score_is_the_gradient_of_the_log_density_under_noise_too() -> None:
    def log_density(x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(MIXTURE.components(x, 0.6, 0.8).logs, axis=1).sum()

    score = MIXTURE.score(MIXTURE.components(X, 0.6, 0.8))
    np.testing.assert_allclose(score, jax.grad(log_density)(X), rtol=1e-4, atol=1e-5)


def test_draws_have_the_moments_of_the_mixture() -> None:
    drawn = np.asarray(MIXTURE.sample(KEY, 20_000))
    mean = 0.75 * MEANS[0] + 0.25 * MEANS[1]
    apart = MEANS - mean
    covariance = sum(
        w * (c + np.outer(d, d)) for w, c, d in zip((0.75, 0.25), COVARIANCES, apart, strict=True)
    )
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.1)


@pytest.mark.parametrize(
    ("weights", "covariances", "message"),
    [([1.0], [1.0, 1.0], "2 positive weights"), ([1.0, 1.0], [1.0, -1.0], "negative eigenvalue")],
)
def test_what_is_no_mixture_is_refused(weights: list, covariances: list, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        GaussianMixture(weights, MEANS, covariances)
