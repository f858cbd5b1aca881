"""Likelihoods of latent functions: densities against SciPy, means against brute-force quadrature and each other."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy import integrate

from chainrule.core.errors import ArgumentError
from chainrule.kernels.gaussian_processes import likelihoods_race as race
from chainrule.kernels.gaussian_processes.likelihoods import (
    FunctionLikelihood,
    GaussianLikelihood,
    LogisticLikelihood,
    PoissonLikelihood,
    ProbitLikelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)

F = np.array([[-1.5], [0.2], [2.0]])
SPREAD = np.array([[0.3], [1.7], [0.9]])
CASES: dict[str, tuple[FunctionLikelihood, np.ndarray, Any]] = {
    "gaussian": (
        GaussianLikelihood(0.3),
        np.array([0.0, 1.0, -2.0]),
        lambda f, y: scipy.stats.norm(f, np.sqrt(0.3)).logpdf(y),
    ),
    "student": (
        StudentTLikelihood(0.5, 3.0),
        np.array([0.0, 1.0, -2.0]),
        lambda f, y: scipy.stats.t(3.0, f, 0.5).logpdf(y),
    ),
    "poisson": (
        PoissonLikelihood(),
        np.array([0.0, 3.0, 20.0]),
        lambda f, y: scipy.stats.poisson(np.exp(f)).logpmf(y),
    ),
    "logistic": (
        LogisticLikelihood(),
        np.array([0, 1, 1]),
        lambda f, y: scipy.stats.logistic.logcdf((2 * y - 1) * f),
    ),
    "probit": (
        ProbitLikelihood(),
        np.array([0, 1, 1]),
        lambda f, y: scipy.stats.norm.logcdf((2 * y - 1) * f),
    ),
}


def log_sum(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return np.asarray(race.expected_log_sum(jnp.asarray(mean), jnp.asarray(deviation)))


def softmax(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return np.asarray(race.expected_softmax(jnp.asarray(mean), jnp.asarray(deviation)))


def integral(of: Any, mean: float, variance: float) -> float:
    spread = np.sqrt(variance)
    found, _ = integrate.quad(
        lambda f: of(f) * scipy.stats.norm.pdf(f, mean, spread),
        mean - 12 * spread,
        mean + 12 * spread,
        epsabs=1e-13,
        limit=200,
    )
    return float(found)


@pytest.mark.parametrize("name", list(CASES))
def test_densities_are_those_of_scipy_and_their_means_those_of_adaptive_quadrature(name: str) -> None:
    likelihood, y, log_prob = CASES[name]
    with jax.enable_x64(True):
        f, spread, seen = jnp.asarray(F), jnp.asarray(SPREAD), jnp.asarray(y)
        np.testing.assert_allclose(likelihood.log_prob(f, seen), log_prob(F[:, 0], y), rtol=1e-6)
        expected = [integral(lambda f, i=i: log_prob(f, y[i]), F[i, 0], SPREAD[i, 0]) for i in range(3)]
        # Student's density has poles near the real line, which polynomials do not follow so far.
        accurate = 2e-5 if name == "student" else 1e-6
        np.testing.assert_allclose(likelihood.expected(f, spread, seen), expected, rtol=accurate)


@pytest.mark.parametrize("name", ["logistic", "probit"])
def test_probabilities_of_two_classes_are_the_integral_and_sum_to_one(name: str) -> None:
    likelihood, _, log_prob = CASES[name]
    p = np.asarray(likelihood.predictive(jnp.asarray(F), jnp.asarray(SPREAD)).mean)
    expected = [integral(lambda f: np.exp(log_prob(f, 1)), F[i, 0], SPREAD[i, 0]) for i in range(3)]
    np.testing.assert_allclose(p[:, 1], expected, rtol=1e-8)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_predicted_numbers_have_the_variance_of_function_and_noise_together() -> None:
    noise = {"gaussian": 0.3, "student": 0.25 * 3}
    for name, own in noise.items():
        found = CASES[name][0].predictive(jnp.asarray(F), jnp.asarray(SPREAD))
        np.testing.assert_allclose(found.mean, F[:, 0])
        np.testing.assert_allclose(found.variance, SPREAD[:, 0] + own, rtol=1e-6)
    rates = np.exp(F[0, 0] + np.sqrt(SPREAD[0, 0]) * np.random.default_rng(0).normal(size=400_000))
    counts = np.random.default_rng(1).poisson(rates)
    found = CASES["poisson"][0].predictive(jnp.asarray(F), jnp.asarray(SPREAD))
    np.testing.assert_allclose([found.mean[0], found.variance[0]], [counts.mean(), counts.var()], rtol=0.02)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0, 2.0])
def test_the_race_of_two_is_the_logistic_integral_of_their_difference(spread: float) -> None:
    mean = np.array([[0.3, -1.0], [0.0, 0.0], [4.0, 0.0]])
    deviation = spread * np.array([[1.0, 0.7]] * 3)
    apart, both = mean[:, 1] - mean[:, 0], np.square(deviation).sum(axis=1)
    logs, shares = [], []
    for far, width, first in zip(apart, both, mean[:, 0], strict=True):
        if width == 0:
            logs.append(first + np.logaddexp(0, far))
            shares.append(scipy.stats.logistic.cdf(far))
        else:
            logs.append(first + integral(lambda g: np.logaddexp(0, g), far, width))
            shares.append(integral(scipy.stats.logistic.cdf, far, width))
    tolerance = 1e-8 if spread < 1 else 2e-6 if spread == 1 else 1e-4
    np.testing.assert_allclose(log_sum(mean, deviation), logs, atol=max(tolerance, 1e-7))
    found = softmax(mean, deviation)
    np.testing.assert_allclose(found[:, 1], shares, atol=max(tolerance / 10, 1e-8))
    covariance = np.square(deviation)[:, :, None] * np.eye(2)[None]
    found = race.correlated_softmax(jnp.asarray(mean), jnp.asarray(covariance))
    np.testing.assert_allclose(found[:, 1], shares, atol=3e-4)


def test_the_race_of_many_agrees_with_draws_and_its_slope_is_the_softmax() -> None:
    random = np.random.default_rng(0)
    mean, deviation = random.normal(size=(2, 6)), random.uniform(0.2, 1.5, size=(2, 6))
    drawn = mean[None] + deviation[None] * random.normal(size=(200_000, 2, 6))
    logs = scipy.special.logsumexp(drawn, axis=2)
    error = 4 * logs.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(log_sum(mean, deviation) - logs.mean(axis=0)) < error).all()
    slope = jax.grad(lambda m: race.expected_log_sum(m, jnp.asarray(deviation)).sum())(jnp.asarray(mean))
    np.testing.assert_allclose(slope, softmax(mean, deviation), atol=1e-4)
    # And that of the very sum that is computed, nodes included.
    step = 1e-5 * np.eye(6)[2][None]
    differences = (log_sum(mean + step, deviation) - log_sum(mean - step, deviation)) / 2e-5
    np.testing.assert_allclose(slope[:, 2], differences, rtol=1e-8)
    shares = scipy.special.softmax(drawn, axis=2).mean(axis=0)
    np.testing.assert_allclose(softmax(mean, deviation), shares, atol=4e-3)
    likelihood = SoftmaxLikelihood(6)
    np.testing.assert_allclose(
        likelihood.expected(jnp.asarray(mean), jnp.asarray(deviation**2), jnp.array([2, 5])),
        mean[[0, 1], [2, 5]] - log_sum(mean, deviation),
    )


def test_observations_of_the_wrong_sort_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"classes are whole numbers from 0.*float64"):
        LogisticLikelihood().checked("fit", [0.0, 1.0])
    with pytest.raises(ArgumentError, match="holds 3 at position 1"):
        SoftmaxLikelihood(3).checked("fit", [0, 3])
    with pytest.raises(ArgumentError, match=r"y\[1\] is 1.5"):
        PoissonLikelihood().checked("fit", [1, 1.5])
    with pytest.raises(ArgumentError, match=r"y\[1\] not finite"):
        GaussianLikelihood().checked("fit", [1, np.nan])
    with pytest.raises(ArgumentError, match="degrees - 2 is -1"):
        StudentTLikelihood(degrees=1.0)
    names, numbers = np.unique(["a", "b", "a"], return_inverse=True)  # as the remedy says
    assert SoftmaxLikelihood(len(names)).checked("fit", numbers).tolist() == [0, 1, 0]
