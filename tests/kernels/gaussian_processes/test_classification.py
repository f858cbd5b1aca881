"""Gaussian process classification: against scikit-learn, brute-force integrals of one or two points, dense formulas."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as theirs

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF
from chainrule.kernels.gaussian_processes import classification_laplace as laplace
from chainrule.kernels.gaussian_processes.classification import LaplaceClassifier, VariationalClassifier
from chainrule.kernels.gaussian_processes.classification_dirichlet import DirichletClassifier
from chainrule.kernels.gaussian_processes.likelihoods import (
    LogisticLikelihood,
    ProbitLikelihood,
    SoftmaxLikelihood,
)

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2))
Y = (X[:, 0] * X[:, 1] + 0.3 * RANDOM.normal(size=40) > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
NEW = RANDOM.normal(size=(5, 2))


def kernel(scale: float = 0.8) -> RBF:
    return RBF(np.float64(scale))


@eqx.filter_jit
def slope(classifier: LaplaceClassifier, x: Any, y: Any) -> Any:
    return eqx.filter_value_and_grad(lambda c: c.log_evidence(x, y))(classifier)


def test_mode_evidence_gradient_and_latent_means_are_those_of_scikit_learn() -> None:
    them = GaussianProcessClassifier(theirs.RBF(0.8), optimizer=None).fit(X, Y)
    value, gradient = them.log_marginal_likelihood(them.kernel_.theta, eval_gradient=True)
    ours = LaplaceClassifier(kernel()).fit(X, Y)
    np.testing.assert_allclose(ours.log_marginal_likelihood, value, atol=1e-7)
    again, tangent = slope(LaplaceClassifier(kernel()), jnp.asarray(X), jnp.asarray(Y))
    np.testing.assert_allclose([again, tangent.kernel.log_scale], [value, gradient[0]], atol=1e-7)
    base = them.base_estimator_
    across = base.kernel_(X, NEW)
    mean = across.T @ (Y - base.pi_)
    white = np.linalg.solve(base.L_, base.W_sr_[:, None] * across)
    found = ours.latent(NEW)
    np.testing.assert_allclose(found.mean[:, 0], mean, atol=1e-5)
    np.testing.assert_allclose(found.covariance[:, 0, 0], 1 - np.square(white).sum(axis=0), atol=1e-5)
    # Their integral is a sum of five error functions, good to three digits; ours is quadrature.
    np.testing.assert_allclose(ours.predict(NEW), them.predict_proba(NEW), atol=2e-4)


@pytest.mark.parametrize("link", [LogisticLikelihood(), ProbitLikelihood()])
def test_the_gradient_of_the_evidence_is_its_difference_and_the_mode_is_one(link: Any) -> None:
    x, y = jnp.asarray(X), jnp.asarray(Y)
    _, gradient = slope(LaplaceClassifier(kernel(), link), x, y)
    ahead, behind = (
        float(slope(LaplaceClassifier(kernel(0.8 * np.exp(h)), link), x, y)[0]) for h in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(gradient.kernel.log_scale, (ahead - behind) / 2e-5, rtol=1e-6)
    mode = LaplaceClassifier(kernel(), link).fit(X, Y).mode
    first = jax.grad(lambda f: laplace.log_likelihood(link, f, y))(jnp.asarray(mode.latent))
    np.testing.assert_allclose(first, mode.weights, atol=1e-6)  # at the mode the gradient is K^-1 f


def test_several_classes_have_the_evidence_of_the_dense_formula_and_its_slope() -> None:
    likelihood = SoftmaxLikelihood(3)
    ours = LaplaceClassifier(kernel(), likelihood).fit(X, THREE)
    K = np.asarray(kernel().gram(X))
    whole, f = np.kron(np.eye(3), K), np.asarray(ours.mode.latent)
    shares = scipy.special.softmax(f, axis=0)
    W = np.diag(shares.reshape(-1)) - np.block(
        [[np.diag(shares[c] * shares[d]) for d in range(3)] for c in range(3)]
    )
    logs = scipy.special.log_softmax(f, axis=0)[THREE, np.arange(len(X))].sum()
    evidence = (
        logs
        - 0.5 * f.reshape(-1) @ np.linalg.solve(whole, f.reshape(-1))
        - 0.5 * np.linalg.slogdet(np.eye(len(whole)) + whole @ W)[1]
    )
    np.testing.assert_allclose(ours.log_marginal_likelihood, evidence, rtol=1e-6)
    across = np.kron(np.eye(3), np.asarray(kernel().gram(X, NEW[:1])))
    # W is singular along the mean of the classes: W (I + K W)^-1 is (K + W^-1)^-1 without its inverse.
    covariance = np.eye(3) - across.T @ W @ np.linalg.solve(np.eye(len(whole)) + whole @ W, across)
    np.testing.assert_allclose(ours.latent(NEW[:1]).covariance[0], covariance, atol=1e-6)
    np.testing.assert_allclose(ours.predict(NEW).sum(axis=1), 1)
    x, y = jnp.asarray(X), jnp.asarray(THREE)
    _, gradient = slope(LaplaceClassifier(kernel(), likelihood), x, y)
    ahead, behind = (
        float(slope(LaplaceClassifier(kernel(0.8 * np.exp(h)), likelihood), x, y)[0]) for h in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(gradient.kernel.log_scale, (ahead - behind) / 2e-5, rtol=1e-5)


def two_points(link: Any) -> tuple[float, np.ndarray]:
    """Evidence and the probability of class 1 at both of two points, by a grid over the two latent values."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    lower = np.linalg.cholesky(np.asarray(kernel(1.0).gram([0.0, 0.7])))
    f = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1) @ lower.T
    joint = np.outer(weights, weights) * link(f[..., 0]) * link(-f[..., 1])
    evidence = joint.sum()
    return float(np.log(evidence)), np.array([(joint * link(f[..., i])).sum() / evidence for i in range(2)])


@pytest.mark.parametrize(
    ("likelihood", "link"),
    [(LogisticLikelihood(), scipy.special.expit), (ProbitLikelihood(), scipy.stats.norm.cdf)],
)
def test_both_ways_are_close_to_the_exact_posterior_of_two_points(likelihood: Any, link: Any) -> None:
    evidence, shares = two_points(link)
    quick = LaplaceClassifier(kernel(1.0), likelihood).fit([0.0, 0.7], [1, 0])
    best = VariationalClassifier(kernel(1.0), likelihood).fit([0.0, 0.7], [1, 0])
    assert abs(quick.log_marginal_likelihood - evidence) < 0.02
    assert evidence - 0.02 < best.bound < evidence  # a bound from below, and a close one
    for found in (quick, best):
        np.testing.assert_allclose(found.predict([0.0, 0.7])[:, 1], shares, atol=0.01)


def test_the_variational_bound_is_at_its_top_in_q_and_its_slope_in_the_kernel_is_exact() -> None:
    found = VariationalClassifier(kernel()).fit(X, Y)
    x, y = jnp.asarray(X), jnp.asarray(Y)
    tangent = eqx.filter_jit(eqx.filter_grad(lambda p: p.bound(x, y, len(x))))(found.process)
    np.testing.assert_allclose(tangent.mean, 0, atol=1e-3)
    np.testing.assert_allclose(tangent.factor, 0, atol=1e-3)
    ahead, behind = (
        VariationalClassifier(kernel(0.8 * np.exp(h))).fit(X, Y, tolerance=1e-12).bound for h in (1e-3, -1e-3)
    )
    np.testing.assert_allclose(tangent.kernel.log_scale, (ahead - behind) / 2e-3, rtol=1e-3)
    assert np.abs(found.predict(NEW) - LaplaceClassifier(kernel()).fit(X, Y).predict(NEW)).max() < 0.05


def test_learning_the_kernel_raises_the_evidence_to_where_scikit_learn_finds_it() -> None:
    them = GaussianProcessClassifier(theirs.RBF(0.8)).fit(X, Y)
    ours = LaplaceClassifier(kernel()).fit(X, Y).optimize()
    np.testing.assert_allclose(ours.log_marginal_likelihood, them.log_marginal_likelihood_value_, atol=1e-5)
    np.testing.assert_allclose(ours.kernel.scale, them.kernel_.length_scale, rtol=1e-2)
    first = VariationalClassifier(kernel()).fit(X, Y)
    assert first.optimize(rounds=2).bound > first.bound


@pytest.mark.slow
def test_several_classes_variationally_are_close_to_laplace() -> None:
    likelihood = SoftmaxLikelihood(3)
    best = VariationalClassifier(kernel(), likelihood).fit(X, THREE)
    quick = LaplaceClassifier(kernel(), likelihood).fit(X, THREE)
    assert abs(best.bound - quick.log_marginal_likelihood) < 2
    assert np.abs(best.predict(NEW) - quick.predict(NEW)).max() < 0.05


def test_regression_on_dirichlet_targets_is_the_closed_form_and_classifies_as_laplace_does() -> None:
    found = DirichletClassifier(kernel(), concentration=0.01).fit(X, THREE)
    K, across = np.asarray(kernel().gram(X)), np.asarray(kernel().gram(X, NEW))
    for c in range(3):
        counts = np.where(c == THREE, 1.01, 0.01)
        noise = np.log1p(1 / counts)
        targets = np.log(counts) - noise / 2
        middle = targets.mean()
        mean = middle + across.T @ np.linalg.solve(K + np.diag(noise), targets - middle)
        np.testing.assert_allclose(found.latent(NEW).mean[:, c], mean, rtol=1e-6)
    p = found.predict(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
    assert (p.argmax(axis=1) == THREE).mean() > 0.9


def test_classes_that_cannot_be_told_apart_or_counted_are_refused() -> None:
    with pytest.raises(ArgumentError, match="all examples are of class 1"):
        LaplaceClassifier(kernel()).fit([0.0, 1.0], [1, 1])
    with pytest.raises(ArgumentError, match="holds 2 at position 0; the 2 classes"):
        LaplaceClassifier(kernel()).fit([0.0, 1.0], [2, 1])
    for machine in (DirichletClassifier, LaplaceClassifier, VariationalClassifier):
        with pytest.raises(ArgumentError, match="whole numbers from 0"):
            machine(kernel()).fit([0.0, 1.0], ["no", "yes"])
    with pytest.raises(ArgumentError, match="3 rows of x for 2 classes"):
        VariationalClassifier(kernel()).fit([0.0, 1.0, 2.0], [0, 1])
    with pytest.raises(ArgumentError, match=r"expected \(n, 2\), got \(2, 3\): transpose it"):
        LaplaceClassifier(kernel()).fit(X, Y).predict(np.zeros((2, 3)))
