"""Mixtures by EM: monotone, a stationary point of the likelihood, and where scikit-learn ends from the same start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from sklearn.mixture import GaussianMixture as Reference

from chainrule.core.errors import ArgumentError
from chainrule.probability import Full, Mixture, MultivariateNormal
from chainrule.probability.mixtures import KINDS, MixtureParameters, em_step, fit_mixture, start_mixture
from chainrule.probability.mixtures.expectation_maximization import _ROWS

RANDOM = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0, 1.0], [3.0, 1.0, 0.0], [-2.0, 4.0, 2.0]])
X = np.concatenate(
    [RANDOM.normal(size=(150, 3)) @ (np.eye(3) * 0.7 + 0.2 * RANDOM.normal(size=(3, 3))) + c for c in CENTRES]
)


@pytest.mark.parametrize("covariance", KINDS)
def test_every_kind_ends_where_the_reference_does_from_the_same_start(covariance: str) -> None:
    start = start_mixture(X, 3, covariance=covariance, restarts=1)
    found = fit_mixture(X, 3, covariance=covariance, start=start, tolerance=1e-10)
    assert found.converged
    assert (np.diff(found.trace) > -1e-9).all(), "the likelihood falls"
    inverse = np.linalg.inv(start.covariances)
    precisions = {
        "full": inverse,
        "tied": inverse[0],
        "diag": np.diagonal(inverse, axis1=1, axis2=2),
        "spherical": inverse[:, 0, 0],
    }[covariance]
    reference = Reference(
        3,
        covariance_type=covariance,
        tol=1e-10,
        max_iter=500,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=precisions,
    ).fit(X)
    assert found.log_likelihood == pytest.approx(reference.score(X), abs=1e-5)
    assert found.bic == pytest.approx(reference.bic(X), rel=1e-5)
    assert found.aic == pytest.approx(reference.aic(X), rel=1e-5)
    np.testing.assert_allclose(found.parameters.means, reference.means_, atol=1e-2)


def test_the_gradient_of_the_likelihood_is_zero_where_it_ends() -> None:
    found = fit_mixture(X, 3, restarts=1, tolerance=1e-13, regularisation=0.0, iterations=2000)
    with jax.enable_x64(True):

        def likelihood(logits: jax.Array, means: jax.Array, factors: jax.Array) -> jax.Array:
            normal = MultivariateNormal(means, Full(factors))
            return Mixture(jax.nn.softmax(logits), normal, normalize=True).log_prob(jnp.asarray(X)).mean()

        parts = found.parameters
        at = (np.log(parts.weights), parts.means, np.linalg.cholesky(parts.covariances))
        slopes = jax.grad(likelihood, argnums=(0, 1, 2))(*(jnp.asarray(a) for a in at))
        value = likelihood(*(jnp.asarray(a) for a in at))
    assert float(value) == pytest.approx(found.log_likelihood, abs=1e-9)
    assert max(np.abs(np.asarray(slope)).max() for slope in slopes) < 1e-5


def test_rows_in_pieces_are_the_same_as_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.probability.mixtures import expectation_maximization as module

    start = start_mixture(X, 2, restarts=1)
    whole = em_step(start, X[:449], "full")
    monkeypatch.setattr(module, "_ROWS", 100)
    jax.clear_caches()
    pieces = em_step(start, X[:449], "full")
    assert _ROWS > 449
    for one, other in zip((*whole[0], whole[1]), (*pieces[0], pieces[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    jax.clear_caches()


def test_data_far_from_zero_keep_their_digits() -> None:
    start = start_mixture(X, 2, restarts=1)
    far = MixtureParameters(start.weights, start.means + 1e5, start.covariances)
    near, moved = em_step(start, X, "full"), em_step(far, X + 1e5, "full")
    np.testing.assert_allclose(moved[0].covariances, near[0].covariances, rtol=1e-5, atol=1e-6)
    assert moved[1] == pytest.approx(near[1], abs=1e-5)


def test_the_distribution_is_the_density_and_its_responsibilities_are_bayes_rule() -> None:
    found = fit_mixture(X, 3, restarts=2)
    parts, few = found.parameters, X[:20]
    each = np.stack(
        [
            np.log(w) + scipy.stats.multivariate_normal(m, c).logpdf(few)
            for w, m, c in zip(parts.weights, parts.means, parts.covariances, strict=True)
        ],
        axis=1,
    )
    total = scipy.special.logsumexp(each, axis=1)
    np.testing.assert_allclose(found.distribution.log_prob(few), total, rtol=1e-4)
    np.testing.assert_allclose(
        found.distribution.responsibilities(few), np.exp(each - total[:, None]), atol=1e-4
    )


def test_a_component_that_shrinks_to_a_point_is_reported() -> None:
    rows = np.concatenate([RANDOM.normal(size=(60, 2)), np.full((30, 2), 5.0)])
    found = fit_mixture(rows, 2, restarts=3)
    (number,) = found.collapsed
    np.testing.assert_allclose(found.parameters.means[number], 5.0, atol=1e-3)


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"k=3: there are only 2 different rows[\s\S]*use k=2"):
        fit_mixture(np.array([[0.0], [1.0], [1.0]]), 3)
    with pytest.raises(ArgumentError, match="covariance"):
        fit_mixture(X, 2, covariance="round")
    with pytest.raises(ArgumentError, match="finite"):
        fit_mixture(np.array([[0.0], [np.inf]]), 1)
