"""Linear models on features come close to the machines on the kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, RandomFourierFeatures, logistic, ridge

RNG = np.random.default_rng(0)


def test_ridge_on_features_comes_close_to_kernel_ridge() -> None:
    x = jnp.asarray(np.linspace(-2, 2, 80)[:, None])
    y = jnp.sin(3 * x)
    psi = RandomFourierFeatures(RBF(gamma=2.0), 1, frequencies=150, key=jax.random.key(0))(x)
    kernel = np.asarray(RBF(gamma=2.0).gram(x))
    said = np.asarray(psi) @ np.asarray(ridge(psi, y, 1e-3))
    exact = kernel @ np.linalg.solve(kernel + 1e-3 * np.eye(80), y)
    assert np.abs(said - y).max() < 0.02
    assert np.abs(said - exact).max() < 0.02


def test_logistic_regression_on_features_tells_a_ring_from_its_middle() -> None:
    angle, radius = RNG.uniform(0, 6.28, 200), np.repeat([0.3, 1.5], 100)
    x = jnp.asarray(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    labels = jnp.asarray(np.repeat([0, 1], 100))
    psi = RandomFourierFeatures(RBF(gamma=1.0), 2, frequencies=32, key=jax.random.key(0))(x)
    w = logistic(psi, labels, 2, 0.01)
    assert bool(((psi @ w).argmax(axis=1) == labels).all())
    p = jax.nn.softmax(psi @ w, axis=1) - jax.nn.one_hot(labels, 2)
    np.testing.assert_allclose(psi.T @ p + 0.01 * w, 0, atol=1e-3)  # a stationary point


def test_penalties_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArgumentError, match="penalty must be positive"):
        ridge(jnp.ones((3, 2)), jnp.ones((3, 1)), 0.0)
    with pytest.raises(ArgumentError, match="no best weights"):
        logistic(jnp.ones((3, 2)), jnp.zeros(3, int), 2, 0.0)
