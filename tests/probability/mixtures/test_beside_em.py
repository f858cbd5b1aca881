"""What stands beside EM: the bound it climbs, the same maximum by gradients, mixtures of which entries are known."""

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Exponential, Mixture, MultivariateNormal, Normal
from chainrule.probability.mixtures import (
    KINDS,
    MixtureParameters,
    ascend_mixture,
    condition,
    em_step,
    fit_mixture,
    lower_bound,
    responsibilities,
    start_mixture,
)

RANDOM = np.random.default_rng(3)
X = np.concatenate(
    [RANDOM.normal(size=(80, 2)) * [1.0, 0.4], RANDOM.normal(size=(60, 2)) + np.array([3.0, 2.0])]
)
FOUND = MixtureParameters(
    np.array([0.3, 0.7]),
    np.array([[0.0, 1.0], [2.0, -1.0]]),
    np.array([[[1.0, 0.4], [0.4, 0.5]], [[0.6, -0.2], [-0.2, 2.0]]]),
)


def log_joint(x: np.ndarray) -> np.ndarray:
    return np.stack(
        [
            np.log(weight) + scipy.stats.multivariate_normal(mean, covariance).logpdf(x)
            for weight, mean, covariance in zip(*FOUND, strict=True)
        ],
        axis=1,
    )


def test_the_bound_is_the_likelihood_less_the_divergence_from_the_posterior() -> None:
    logs = log_joint(X)
    posterior = scipy.special.softmax(logs, axis=1)
    np.testing.assert_allclose(responsibilities(FOUND, X), posterior, atol=1e-12)
    q = RANDOM.dirichlet([1.0, 1.0], size=len(X))
    q[0] = [1.0, 0.0]
    gap = scipy.special.rel_entr(q, posterior).sum(axis=1).mean()
    likelihood = scipy.special.logsumexp(logs, axis=1).mean()
    assert lower_bound(FOUND, X, q) == pytest.approx(likelihood - gap, abs=1e-12)
    assert lower_bound(FOUND, X, posterior) == pytest.approx(likelihood, abs=1e-12)
    new, _ = em_step(FOUND, X, "full", 0.0)
    assert lower_bound(new, X, posterior) >= likelihood
    with pytest.raises(ArgumentError, match="sum to 1"):
        lower_bound(FOUND, X, 2 * q)


@pytest.mark.parametrize("covariance", KINDS)
def test_gradients_end_where_em_does(covariance: str) -> None:
    start = start_mixture(X, 2, covariance=covariance, restarts=1)
    by_em = fit_mixture(X, 2, covariance=covariance, start=start, tolerance=1e-10)
    found = ascend_mixture(X, start, covariance=covariance, tolerance=1e-12)
    assert found.converged
    assert found.log_likelihood == pytest.approx(by_em.log_likelihood, abs=1e-5)
    assert found.mean_log_prob(X) == pytest.approx(found.log_likelihood, abs=1e-9)
    assert found.bic == pytest.approx(by_em.bic, rel=1e-5)
    assert (np.diff(found.trace) > 0).all()


def test_a_mixture_of_which_an_entry_is_known_is_the_joint_over_the_marginal() -> None:
    with jax.enable_x64(True):
        whole = Mixture(FOUND.weights, MultivariateNormal(FOUND.means, FOUND.covariances))
        found = condition(whole, {1: 0.3})
        x = np.linspace(-12, 12, 4001)
        joint = np.exp(
            scipy.special.logsumexp(log_joint(np.stack([x, np.full_like(x, 0.3)], axis=1)), axis=1)
        )
        density = joint / (joint.sum() * (x[1] - x[0]))
        np.testing.assert_allclose(np.exp(found.log_prob(x[:, None])), density, atol=1e-8)
        with pytest.raises(ArgumentError, match="at least one has to be known"):
            condition(whole, {0: 1.0, 1: 1.0})
    with pytest.raises(ArgumentError, match="fit_mixture"):
        condition(Mixture([0.5, 0.5], [Exponential(1.0), Normal(0.0, 1.0)]), {0: 1.0})
