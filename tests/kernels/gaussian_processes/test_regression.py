"""Exact Gaussian processes: published numbers, scikit-learn, tinygp, conditioning by hand, both routes, bad data."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as TheirRBF
from sklearn.gaussian_process.kernels import ConstantKernel

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.kernels import RBF, Composed, Constant, Linear, Matern, White, host
from chainrule.kernels.gaussian_processes import (
    GaussianProcess,
    GaussianProcessPosterior,
    brownian_motion,
    ornstein_uhlenbeck,
    smooth_functions,
)

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(7, 3))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=60)
with jax.enable_x64(True):
    KERNEL = Constant(1.7) * RBF([1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def posterior() -> GaussianProcessPosterior:
    return GaussianProcess(KERNEL, 0.04).fit(X, Y)


def by_hand(kernel: object, noise: object, mean: float = 0.0) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, covariance and log evidence by conditioning the joint Gaussian."""
    whole = np.asarray(kernel.gram(np.concatenate([X, NEW])))  # type: ignore[attr-defined]
    seen = whole[:60, :60] + np.diag(np.broadcast_to(np.asarray(noise), 60))
    gain = whole[60:, :60] @ np.linalg.inv(seen)
    log_prob = scipy.stats.multivariate_normal(np.full(60, mean), seen).logpdf(Y)
    return mean + gain @ (Y - mean), whole[60:, 60:] - gain @ whole[:60, 60:], float(log_prob)


def test_three_points_have_the_published_numbers() -> None:
    found = GaussianProcess(RBF(1.0), 0.1).fit([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(found.predict([0.5]).mean, 0.574548, atol=5e-7)
    np.testing.assert_allclose(found.predict([0.5]).variance, 0.182395, atol=5e-7)
    np.testing.assert_allclose(found.predict([0.5], kind="latent").variance, 0.082395, atol=5e-7)
    np.testing.assert_allclose(found.log_marginal_likelihood, -3.493578, atol=5e-7)
    np.testing.assert_allclose(found.leave_one_out().mean, [0.694792, 0.0, 0.694792], atol=5e-7)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_predictions_and_slopes_of_the_evidence_are_those_of_tinygp(
    nu: float, oracle: Callable[[str], ModuleType]
) -> None:
    tinygp = oracle("tinygp")
    kernels, scale = tinygp.kernels, 1.4
    theirs = {0.5: kernels.Exp, 1.5: kernels.Matern32, 2.5: kernels.Matern52, np.inf: kernels.ExpSquared}[nu]
    # Its distances are sums of absolute values unless it is told otherwise.
    distance = kernels.distance.L2Distance()

    def their_process(scale: Any) -> Any:
        return tinygp.GaussianProcess(1.7 * theirs(scale, distance=distance), jnp.asarray(X), diag=0.04)

    def our_process(scale: Any) -> GaussianProcessPosterior:
        return GaussianProcess(Constant(1.7) * (RBF(scale) if nu == np.inf else Matern(nu, scale)), 0.04).fit(
            X, Y
        )

    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):  # tinygp relies on it
        evidence, conditioned = their_process(scale).condition(jnp.asarray(Y), jnp.asarray(NEW), diag=0.0)
        slope = jax.grad(lambda scale: their_process(scale).log_probability(jnp.asarray(Y)))(scale)
    with jax.enable_x64(True):
        found, own = (
            our_process(scale),
            jax.grad(lambda scale: our_process(scale).log_marginal_likelihood)(scale),
        )
        latent = found.predict(NEW, "latent")
    np.testing.assert_allclose(found.log_marginal_likelihood, evidence, rtol=1e-10)
    np.testing.assert_allclose(latent.mean, conditioned.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(latent.variance, conditioned.variance, rtol=1e-8)
    np.testing.assert_allclose(own, slope, rtol=1e-8)


def test_predictions_are_those_of_scikit_learn(posterior: GaussianProcessPosterior) -> None:
    kernel = ConstantKernel(1.7) * TheirRBF([1.0, 2.0, 3.0])
    theirs = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(X, Y)
    mean, deviation = theirs.predict(NEW, return_std=True)
    found = posterior.predict(NEW, "latent")
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.variance, deviation**2, rtol=1e-8)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood, theirs.log_marginal_likelihood_value_, rtol=1e-10
    )
    covariance = theirs.predict(NEW, return_cov=True)[1]
    np.testing.assert_allclose(
        posterior.predict(NEW, "latent", covariance=True).variance, covariance, atol=1e-10
    )


def test_an_observation_varies_by_the_noise_more_than_the_function(
    posterior: GaussianProcessPosterior,
) -> None:
    seen, latent = posterior.predict(NEW), posterior.predict(NEW, "latent")
    np.testing.assert_allclose(seen.variance - latent.variance, 0.04, rtol=1e-10)
    both = posterior.predict(NEW, covariance=True).variance
    np.testing.assert_allclose(np.diagonal(both), seen.variance, rtol=1e-8)


@pytest.mark.parametrize("noise", [0.04, RNG.uniform(0.01, 0.5, 60)], ids=["one", "of every point"])
def test_everything_is_conditioning_of_a_gaussian(noise: object) -> None:
    found = GaussianProcess(KERNEL, noise, mean=0.5).fit(X, Y)
    mean, covariance, log_prob = by_hand(KERNEL, noise, 0.5)
    answer = found.predict(NEW, "latent", covariance=True)
    np.testing.assert_allclose(answer.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(answer.variance, covariance, atol=1e-10)
    np.testing.assert_allclose(found.log_marginal_likelihood, log_prob, rtol=1e-10)


def test_noise_of_every_point_is_asked_for_at_new_ones() -> None:
    found = GaussianProcess(KERNEL, np.full(60, 0.1)).fit(X, Y)
    with pytest.raises(ArgumentError, match="not known at new ones"):
        found.predict(NEW)
    given = found.predict(NEW, noise=np.full(7, 0.3)).variance - found.predict(NEW, "latent").variance
    np.testing.assert_allclose(given, 0.3, rtol=1e-10)
    with pytest.raises(ArgumentError, match="59 variances for 60 points"):
        GaussianProcess(KERNEL, np.full(59, 0.1)).fit(X, Y)
    with pytest.raises(ArgumentError, match="without noise"):
        found.predict(NEW, "latent", noise=0.1)


def test_outputs_that_share_a_kernel_are_predicted_as_each_alone(posterior: GaussianProcessPosterior) -> None:
    both = GaussianProcess(KERNEL, 0.04).fit(X, np.stack([Y, -2 * Y], axis=1))
    mean, variance = both.predict(NEW)
    np.testing.assert_allclose(mean, posterior.predict(NEW).mean[:, None] * [[1, -2]], rtol=1e-9)
    np.testing.assert_allclose(variance[:, 1], posterior.predict(NEW).variance, rtol=1e-10)
    other = GaussianProcess(KERNEL, 0.04).fit(X, -2 * Y).log_marginal_likelihood
    np.testing.assert_allclose(
        both.log_marginal_likelihood, posterior.log_marginal_likelihood + other, rtol=1e-10
    )
    np.testing.assert_allclose(both.leave_one_out().mean[:, 0], posterior.leave_one_out().mean, rtol=1e-8)
    assert both.sample(jax.random.key(0), NEW, 5).shape == (5, 7, 2)


def test_leaving_points_out_equals_fitting_without_them(posterior: GaussianProcessPosterior) -> None:
    found = posterior.leave_one_out()
    for i in (0, 17, 59):
        rest = np.arange(60) != i
        alone = GaussianProcess(KERNEL, 0.04).fit(X[rest], Y[rest]).predict(X[i : i + 1])
        np.testing.assert_allclose([found.mean[i], found.variance[i]], np.ravel(alone), rtol=1e-7)
        density = scipy.stats.norm(alone.mean[0], alone.variance[0] ** 0.5).logpdf(Y[i])
        np.testing.assert_allclose(found.log_prob[i], density, rtol=1e-7)


def test_a_linear_kernel_is_bayesian_linear_regression() -> None:
    found = GaussianProcess(Linear(), 0.04).fit(X, Y).predict(NEW, "latent")
    precision = np.eye(3) + X.T @ X / 0.04
    weights = np.linalg.solve(precision, X.T @ Y / 0.04)
    np.testing.assert_allclose(found.mean, NEW @ weights, rtol=1e-8)
    np.testing.assert_allclose(
        found.variance, np.einsum("ij,jk,ik->i", NEW, np.linalg.inv(precision), NEW), rtol=1e-6
    )


def test_weights_of_features_give_the_kernel_of_their_products() -> None:
    features = jnp.array(RNG.normal(size=(3, 4)))
    kernel = Composed(Linear(), lambda x: jnp.tanh(x @ features))
    drawn = np.tanh(NEW @ features) @ RNG.normal(size=(4, 40_000))
    np.testing.assert_allclose(np.cov(drawn), kernel.gram(NEW), atol=0.1)


def test_draws_have_the_mean_and_covariance_of_the_posterior(posterior: GaussianProcessPosterior) -> None:
    drawn = posterior.sample(jax.random.key(1), NEW, 40_000)
    mean, covariance = posterior.predict(NEW, "latent", covariance=True)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.02)


def test_traced_code_computes_the_same(posterior: GaussianProcessPosterior) -> None:
    @jax.jit
    def predicted(scale: jax.Array, x: jax.Array) -> tuple:
        found = GaussianProcess(Constant(1.7) * RBF(scale), 0.04).fit(X, jnp.asarray(Y))
        return found.predict(x, "latent"), found.log_marginal_likelihood

    (mean, variance), log_prob = predicted(jnp.array([1.0, 2.0, 3.0]), jnp.asarray(NEW))
    answer = posterior.predict(NEW, "latent")
    np.testing.assert_allclose(mean, answer.mean, rtol=1e-9)
    np.testing.assert_allclose(variance, answer.variance, rtol=1e-7)
    np.testing.assert_allclose(log_prob, posterior.log_marginal_likelihood, rtol=1e-10)
    slope = jax.jacobian(lambda x: posterior.predict(x).mean)(jnp.asarray(NEW[:1]))[0, 0]
    step = 1e-6 * np.eye(3)
    ahead, behind = posterior.predict(NEW[:1] + step).mean, posterior.predict(NEW[:1] - step).mean
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-5)


def test_tiles_change_nothing(posterior: GaussianProcessPosterior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.cut, "__defaults__", (17,))
    monkeypatch.setattr("chainrule.kernels.gaussian_processes.posterior.ENTRIES", 180)
    again = GaussianProcess(KERNEL, 0.04).fit(X, Y)
    np.testing.assert_allclose(again.log_marginal_likelihood, posterior.log_marginal_likelihood, rtol=1e-12)
    np.testing.assert_allclose(again.predict(NEW).variance, posterior.predict(NEW).variance, rtol=1e-10)


def test_points_that_repeat_need_a_jitter_and_say_so() -> None:
    twice = np.concatenate([X, X])
    found = GaussianProcess(RBF(1.0)).fit(twice, np.concatenate([Y, Y]))
    assert 0 < found.jitter < 1e-5
    np.testing.assert_allclose(found.predict(X[:3]).mean, Y[:3], atol=1e-3)


def test_brownian_motion_has_the_time_as_variance_and_independent_increments() -> None:
    times = np.array([0.25, 0.5, 1.0])
    drawn = brownian_motion().sample(jax.random.key(0), times, 20_000)
    np.testing.assert_allclose(drawn.var(axis=0), times, rtol=0.03)
    np.testing.assert_allclose(np.corrcoef(drawn[:, 0], drawn[:, 2] - drawn[:, 1])[0, 1], 0, atol=0.03)


def test_brownian_motion_on_the_unit_interval_has_the_known_eigenvalues() -> None:
    times = (np.arange(400) + 0.5) / 400
    values = np.linalg.eigvalsh(np.asarray(brownian_motion().kernel.gram(times)))[::-1] / 400
    theory = 1 / ((np.arange(1, 4) - 0.5) ** 2 * np.pi**2)
    np.testing.assert_allclose(theory, [0.405285, 0.045032, 0.016211], atol=5e-7)
    np.testing.assert_allclose(values[:3], theory, rtol=1e-4)


def test_presets_are_their_kernels() -> None:
    for process, kernel in ((smooth_functions(0.7), RBF(0.7)), (ornstein_uhlenbeck(0.7), Matern(0.5, 0.7))):
        np.testing.assert_allclose(process.kernel.gram(X), kernel.gram(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "noise", "error", "said"),
    [
        (np.full((2, 2), np.nan), [0.0, 1.0], 0.1, DataError, r"row 0, column 0 is nan \(and 3 more\)"),
        ([[0.0], [1.0]], [0.0, np.inf], 0.1, DataError, r"fit\(y\): row 1 is inf"),
        ([[0.0], [1.0]], [0.0, 1.0, 2.0], 0.1, ArgumentError, "3 targets for 2 points"),
        ([[1.0], [2.0], [1.0]], [0.0, 1.0, 2.0], 0.0, DataError, "rows 0 and 2 are the same point"),
        (np.zeros((2, 2, 2)), [0.0, 1.0], 0.1, ArgumentError, r"reshape\(len\(x\), -1\)"),
        (np.zeros((0, 2)), [], 0.1, DataError, "no points to learn from"),
        (np.zeros((20_001, 1)), np.zeros(20_001), 0.1, ArgumentError, "20,001 points takes 3.2 GB of memory"),
        ([["a"]], [1.0], 0.1, ArgumentError, "not an array of numbers"),
    ],
)
def test_bad_data_are_refused_by_name(x: object, y: object, noise: float, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        GaussianProcess(RBF(1.0), noise).fit(x, y)


def test_bad_arguments_are_refused(posterior: GaussianProcessPosterior) -> None:
    with pytest.raises(ArgumentError, match=r"expected \(n, 3\), got \(3, 7\): transpose it"):
        posterior.predict(NEW.T)
    with pytest.raises(ArgumentError, match='kind must be "observation" or "latent"'):
        posterior.predict(NEW, "both")
    with pytest.raises(ArgumentError, match="noise must be at least 0"):
        GaussianProcess(RBF(1.0), -0.1)
    with pytest.raises(ArgumentError, match="a Kernel is needed, not a str"):
        GaussianProcess("rbf")


def test_columns_that_teach_badly_are_warned_of() -> None:
    flat = np.stack([X[:, 0], np.ones(60)], axis=1)
    with pytest.warns(ChainruleWarning, match="column 1 never changes"):
        GaussianProcess(RBF([1.0, 1.0]), 0.1).fit(flat, Y)
    with pytest.warns(ChainruleWarning, match="column 1 ranges over"):
        GaussianProcess(RBF(1.0), 0.1).fit(X[:, :2] * [[1.0, 1e4]], Y)


def test_noise_as_a_kernel_is_noise() -> None:
    found = GaussianProcess(KERNEL + White(0.04)).fit(X, Y)
    given = GaussianProcess(KERNEL, 0.04).fit(X, Y)
    np.testing.assert_allclose(found.log_marginal_likelihood, given.log_marginal_likelihood, rtol=1e-10)
    np.testing.assert_allclose(found.predict(NEW).variance, given.predict(NEW).variance, rtol=1e-9)


def test_a_matrix_is_factored_and_inverted_in_its_own_memory() -> None:
    matrix = np.asfortranarray(np.eye(host.SMALL + 2) + 0.1)
    expected = np.linalg.inv(matrix)
    lower = host.factor(lambda: matrix)
    assert np.shares_memory(lower.matrix, matrix)
    inverse = lower.inverted()
    assert np.shares_memory(inverse, matrix)
    np.testing.assert_allclose(np.tril(inverse), np.tril(expected), rtol=1e-10)
    small = host.factor(lambda: np.asfortranarray(np.eye(5) + 0.1)).inverted()
    np.testing.assert_allclose(small, np.linalg.inv(np.eye(5) + 0.1), rtol=1e-12)
