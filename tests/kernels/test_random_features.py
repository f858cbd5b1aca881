"""Random features of the Gaussian kernel: right on average, as good as the usual ones, and useful for linear models."""

import functools
from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import GaussianFeatures, gram, gram_error, logistic, ridge

RNG = np.random.default_rng(0)
POINTS = 0.5 * RNG.normal(size=(12, 2))
G = 0.6


@pytest.mark.parametrize("kind", ["trigonometric", "positive", "hyperbolic"])
@pytest.mark.parametrize("orthogonal", [False, True])
def test_products_of_features_are_the_kernel_on_average(kind: str, orthogonal: bool) -> None:
    def product(key: jax.Array) -> jax.Array:
        psi = GaussianFeatures(2, count=8, g=G, kind=kind, orthogonal=orthogonal, key=key)(
            jnp.asarray(POINTS)
        )
        return psi @ psi.T

    found = np.asarray(jax.jit(jax.vmap(product))(jax.random.split(jax.random.key(0), 4000)))
    standard_error = found.std(axis=0) / 4000**0.5
    assert (np.abs(found.mean(axis=0) - gram(jnp.asarray(POINTS), G)) / standard_error).max() < 5


def test_the_error_falls_with_the_number_of_features() -> None:
    @functools.partial(jax.jit, static_argnums=0)
    def features(count: int, key: jax.Array) -> GaussianFeatures:
        return GaussianFeatures(2, count=count, g=G, key=key)

    few, many = (
        np.mean(
            [
                gram_error(features(count, jax.random.key(seed)), jnp.asarray(POINTS)).root_mean_square
                for seed in range(8)
            ]
        )
        for count in (32, 512)
    )
    assert few / many == pytest.approx(4, rel=0.5)


def test_the_error_is_that_of_the_usual_sampler(oracle: Callable[[str], ModuleType]) -> None:
    sampling = oracle("sklearn.kernel_approximation")
    x = jnp.asarray(POINTS)
    exact = np.asarray(gram(x, G))
    theirs = []
    for seed in range(200):
        psi = sampling.RBFSampler(gamma=G, n_components=64, random_state=seed).fit_transform(POINTS)
        theirs.append(np.square(psi @ psi.T - exact).mean())

    def error(key: jax.Array) -> jax.Array:
        psi = GaussianFeatures(2, count=64, g=G, orthogonal=False, key=key)(x)
        return jnp.square(psi @ psi.T - exact).mean()

    ours = jax.jit(jax.vmap(error))(jax.random.split(jax.random.key(0), 200))
    assert float(ours.mean()) == pytest.approx(np.mean(theirs), rel=0.3)


def test_ridge_on_features_comes_close_to_kernel_ridge() -> None:
    x = jnp.asarray(np.linspace(-2, 2, 80)[:, None])
    y = jnp.sin(3 * x)
    features = GaussianFeatures(1, count=300, g=2.0, key=jax.random.key(0))
    psi, kernel = features(x), np.asarray(gram(x, 2.0))
    said = np.asarray(psi) @ np.asarray(ridge(psi, y, 1e-3))
    exact = kernel @ np.linalg.solve(kernel + 1e-3 * np.eye(80), y)
    assert np.abs(said - y).max() < 0.02
    assert np.abs(said - exact).max() < 0.02


def test_logistic_regression_on_features_tells_a_ring_from_its_middle() -> None:
    angle, radius = RNG.uniform(0, 6.28, 200), np.repeat([0.3, 1.5], 100)
    x = jnp.asarray(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    labels = jnp.asarray(np.repeat([0, 1], 100))
    psi = GaussianFeatures(2, count=64, g=1.0, key=jax.random.key(0))(x)
    w = logistic(psi, labels, 2, 0.01)
    assert bool(((psi @ w).argmax(axis=1) == labels).all())
    p = jax.nn.softmax(psi @ w, axis=1) - jax.nn.one_hot(labels, 2)
    np.testing.assert_allclose(psi.T @ p + 0.01 * w, 0, atol=1e-3)  # a stationary point


def test_settings_that_make_no_sense_are_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(ArgumentError, match="g must be positive"):
        GaussianFeatures(2, count=4, g=0.0, key=key)
    with pytest.raises(ArgumentError, match="even if hyperbolic"):
        GaussianFeatures(2, count=5, g=1.0, kind="hyperbolic", key=key)
    with pytest.raises(ArgumentError, match="penalty must be positive"):
        ridge(jnp.ones((3, 2)), jnp.ones((3, 1)), 0.0)
    with pytest.raises(ArgumentError, match="no best weights"):
        logistic(jnp.ones((3, 2)), jnp.zeros(3, int), 2, 0.0)
