"""Gaussian processes in linear time: equal to exact conditioning for every kernel they know, and refused otherwise."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Matern, OrnsteinUhlenbeck
from chainrule.kernels.gaussian_processes.state_space import (
    StateSpaceGaussianProcess,
    linear_system,
    prefix_sums,
)
from tests.tiers import tiers

RANDOM = np.random.default_rng(0)
T = np.concatenate([RANDOM.uniform(0, 10, 80), [3.0, 3.0]])  # one time twice
Y = np.sin(T) + 0.3 * RANDOM.normal(size=len(T))
NEW = np.array([-1.0, 3.0, 5.05, 12.0, 0.5])
ONE = np.float64(1.0)
KERNELS: dict[str, Any] = {
    "ornstein-uhlenbeck": lambda s: OrnsteinUhlenbeck(s * 1.5),
    "matern12": lambda s: Matern(0.5, s * 1.5),
    "matern32": lambda s: Matern(1.5, s * 1.5),
    "matern52": lambda s: Matern(2.5, s * 1.5),
    "scaled": lambda s: 2.5 * Matern(2.5, s * 0.7),
    "sum": lambda s: 2.0 * Matern(1.5, s * 0.4) + Matern(2.5, s * 5.0),
}


@pytest.mark.parametrize("name", tiers(KERNELS, slow=("matern12", "matern32", "scaled")))
def test_evidence_and_predictions_are_those_of_exact_conditioning(name: str) -> None:
    kernel, noise = KERNELS[name](ONE), 0.1
    K = np.asarray(kernel.gram(T)) + noise * np.eye(len(T))
    across, own = np.asarray(kernel.gram(T, NEW)), np.asarray(kernel.gram(NEW))
    found = StateSpaceGaussianProcess(kernel, np.float64(noise)).fit(T, Y)
    evidence = scipy.stats.multivariate_normal(cov=K).logpdf(Y)
    np.testing.assert_allclose(found.log_marginal_likelihood, evidence, rtol=0, atol=1e-8)
    mean, variance = found.predict(NEW, kind="latent")
    np.testing.assert_allclose(mean, across.T @ np.linalg.solve(K, Y), atol=1e-8)
    exact = np.diagonal(own - across.T @ np.linalg.solve(K, across))
    np.testing.assert_allclose(variance, exact, atol=1e-8)
    np.testing.assert_allclose(found.predict(NEW)[1], exact + noise, atol=1e-8)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_chain_has_the_covariance_of_the_kernel_and_composes(nu: float) -> None:
    kernel = Matern(nu, np.float64(0.8))
    system = linear_system(kernel)
    for time in (0.0, 0.3, 2.0):
        moved = system.transition(jnp.asarray(time)) @ system.stationary
        np.testing.assert_allclose(system.reading @ moved @ system.reading, kernel(0.0, time), atol=1e-12)
    half, whole = (np.asarray(system.transition(jnp.asarray(t))) for t in (0.7, 1.4))
    np.testing.assert_allclose(half @ half, whole, atol=1e-12)
    rate = scipy.linalg.logm(whole) / 1.4
    np.testing.assert_allclose(scipy.linalg.expm(0.7 * rate), half, atol=1e-8)


def test_the_gradient_is_that_of_differences_and_learning_follows_it() -> None:
    order = np.argsort(T, kind="stable")
    times, y = jnp.asarray(T[order]), jnp.asarray(Y[order])
    slope = eqx.filter_jit(eqx.filter_value_and_grad(lambda p: p.log_evidence(times, y)))

    def at(log_scale: float, log_noise: float) -> Any:
        return slope(StateSpaceGaussianProcess(Matern(1.5, np.exp(log_scale)), np.exp(log_noise)))

    _, gradient = at(0.3, -2.0)
    h = 1e-5
    in_scale = (at(0.3 + h, -2.0)[0] - at(0.3 - h, -2.0)[0]) / (2 * h)
    in_noise = (at(0.3, -2.0 + h)[0] - at(0.3, -2.0 - h)[0]) / (2 * h)
    np.testing.assert_allclose(gradient.kernel.log_scale, in_scale, rtol=1e-6)
    np.testing.assert_allclose(gradient.log_noise, in_noise, rtol=1e-6)
    first = StateSpaceGaussianProcess(Matern(1.5, 0.3), 1.0).fit(T, Y)
    best = first.optimize(30)
    assert best.log_marginal_likelihood > first.log_marginal_likelihood + 5
    np.testing.assert_allclose(np.exp(best.process.log_noise), 0.09, rtol=0.5)


@pytest.mark.parametrize("count", [1, 2, 7, 16, 17])
def test_prefix_sums_of_matrices_are_products_in_order(count: int) -> None:
    matrices = RANDOM.normal(size=(count, 2, 2))
    found = prefix_sums(lambda a, b: b @ a, jnp.asarray(matrices), jnp.eye(2))
    expected = [np.eye(2)]
    for matrix in matrices:
        expected.append(matrix @ expected[-1])
    np.testing.assert_allclose(found, np.stack(expected[1:]), atol=1e-12)


def test_many_points_cost_memory_in_proportion() -> None:
    sizes = []
    for count in (1000, 4000):
        process = StateSpaceGaussianProcess(Matern(2.5, ONE), np.float64(0.1))
        lowered = eqx.filter_jit(lambda p, t, y: p.log_evidence(t, y)).lower(
            process, jnp.arange(count, dtype=float), jnp.zeros(count)
        )
        sizes.append(lowered.compile().compiled.memory_analysis().temp_size_in_bytes)
    assert sizes[1] < 5 * sizes[0]


def test_kernels_without_a_chain_and_points_of_several_coordinates_are_refused() -> None:
    with pytest.raises(ArgumentError, match="RBF is no finite chain"):
        StateSpaceGaussianProcess(RBF(1.0))
    with pytest.raises(ArgumentError, match="a product of two kernels"):
        StateSpaceGaussianProcess(Matern(0.5) * Matern(1.5))
    with pytest.raises(ArgumentError, match="times have one scale, not 2"):
        StateSpaceGaussianProcess(Matern(0.5, [1.0, 2.0]))
    with pytest.raises(ArgumentError, match="times are one number each, not 2"):
        StateSpaceGaussianProcess(Matern(0.5)).fit(np.zeros((3, 2)), np.zeros(3))
