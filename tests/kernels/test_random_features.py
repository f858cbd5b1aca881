"""Random features: right on average, with the variance that is known, as good as the usual ones, and of use."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import (
    RBF,
    Kernel,
    Linear,
    Matern,
    OrnsteinUhlenbeck,
    PositiveFeatures,
    RandomFourierFeatures,
    RationalQuadratic,
    gram_error,
)
from chainrule.nn.attention.features import log_features

RNG = np.random.default_rng(0)
POINTS = 0.5 * RNG.normal(size=(8, 2))
X, Y = np.array([0.3, -0.7]), np.array([-0.2, 0.4])
PAIR = np.stack([X, Y])
G = 0.6


COUNT = 20_000
FOURIER: list[tuple[Kernel, dict[str, bool]]] = [
    (RBF(gamma=G), {"orthogonal": False}),
    (RBF(scale=[0.5, 2.0]), {}),
    (RBF(gamma=G), {"phases": True}),
    (Matern(0.5, 1.3), {}),
    (Matern(1.5, [0.7, 1.3]), {}),
    (Matern(2.5, 1.3), {"orthogonal": False}),
    (OrnsteinUhlenbeck(0.8), {}),
    (RationalQuadratic(0.8, 1.7), {}),
    (RBF(1.3) * Matern(1.5, 1.1), {}),
]
POSITIVE: list[tuple[RBF, dict[str, bool]]] = [
    (RBF(gamma=G), {"pairs": False, "orthogonal": False}),
    (RBF(scale=[0.9, 1.4]), {}),
]


def right_on_average(features: Any, kernel: Kernel) -> None:
    """The mean over draws is the kernel, within five standard errors."""
    psi = np.asarray(features(jnp.asarray(POINTS))).reshape(len(POINTS), -1, COUNT)
    terms = COUNT * np.einsum("ifm,jfm->mij", psi, psi)
    error = terms.std(axis=0) / COUNT**0.5 + 1e-6  # the diagonal of cosines and sines is exact
    assert (np.abs(terms.mean(axis=0) - np.asarray(kernel.gram(POINTS))) / error).max() < 5


@pytest.mark.parametrize(("kernel", "options"), FOURIER)
def test_cosines_and_sines_are_the_kernel_on_average(kernel: Kernel, options: dict[str, bool]) -> None:
    right_on_average(
        RandomFourierFeatures(kernel, 2, frequencies=COUNT, key=jax.random.key(0), **options), kernel
    )


def test_a_kernel_of_double_precision_is_rounded_where_single_is_the_default(
    recwarn: pytest.WarningsRecorder,
) -> None:
    for kernel in (RBF(0.7), RationalQuadratic(0.8, 1.7), RBF(1.3) * Matern(1.5, 1.1)):
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), kernel)
        found, expected = (
            RandomFourierFeatures(k, 2, frequencies=4, key=jax.random.key(0)).w for k in (wide, kernel)
        )
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert not recwarn.list


@pytest.mark.parametrize(("kernel", "options"), POSITIVE)
def test_positive_features_are_the_kernel_on_average(kernel: RBF, options: dict[str, bool]) -> None:
    right_on_average(PositiveFeatures(kernel, 2, draws=COUNT, key=jax.random.key(1), **options), kernel)


def test_the_variance_of_one_frequency_is_the_known_one() -> None:
    kernel = RBF(gamma=0.5)
    value = float(kernel(X, Y))
    assert value == pytest.approx(0.481909, abs=5e-7)
    known = (1 + float(kernel(2 * X, 2 * Y)) - 2 * value**2) / 2
    assert known == pytest.approx(0.294731, abs=5e-7)
    options = {"frequencies": 400_000, "orthogonal": False, "key": jax.random.key(3)}
    cosines, sines = np.split(np.asarray(RandomFourierFeatures(kernel, 2, **options)(PAIR)), 2, axis=1)
    terms = 400_000 * (cosines[0] * cosines[1] + sines[0] * sines[1])
    assert terms.mean() == pytest.approx(value, abs=5e-3)
    assert terms.var() == pytest.approx(known, rel=0.01)
    shifted = np.asarray(RandomFourierFeatures(kernel, 2, phases=True, **options)(PAIR))
    assert (400_000 * shifted[0] * shifted[1]).var() == pytest.approx(
        known + 0.5, rel=0.02
    )  # the phase adds 1/2


def test_the_variance_of_positive_features_is_the_known_one_and_pairs_lower_it() -> None:
    w = np.random.default_rng(0).normal(size=(1_000_000, 2))
    plain = np.exp(np.asarray(log_features(jnp.asarray(PAIR), jnp.asarray(w), False)))
    products = plain[0] * plain[1]
    squares, value = np.square(X + Y).sum(), np.exp(X @ Y)
    known = value**2 * (np.exp(squares) - 1)
    assert known == pytest.approx(0.053281, abs=5e-7)
    assert products.mean() == pytest.approx(value, rel=2e-3)
    assert products.var() == pytest.approx(known, rel=0.02)
    both = np.exp(np.asarray(log_features(jnp.asarray(PAIR), jnp.asarray(w), True)))
    paired = (both[0] * both[1]).reshape(2, -1).mean(axis=0)
    assert known * (1 - np.exp(-squares)) / 2 == pytest.approx(0.002535, abs=5e-7)
    assert paired.var() == pytest.approx(0.002535, rel=0.02)


def test_positive_features_use_twice_gamma_between_the_points() -> None:
    kernel = RBF(gamma=0.5)
    found = PositiveFeatures(kernel, 2, draws=COUNT, key=jax.random.key(0))(jnp.asarray(PAIR))
    assert float(found[0] @ found[1]) == pytest.approx(0.481909, abs=2e-3)
    assert bool((found > 0).all())


def test_the_error_falls_with_the_root_of_the_number_of_frequencies() -> None:
    kernel = RBF(gamma=G)
    counts = np.array([16, 64, 256, 1024])

    @functools.partial(jax.jit, static_argnums=0)
    def errors(count: int, keys: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            psi = RandomFourierFeatures(kernel, 2, frequencies=count, orthogonal=False, key=key)(
                jnp.asarray(POINTS)
            )
            return jnp.square(psi @ psi.T - kernel.tile(jnp.asarray(POINTS), jnp.asarray(POINTS))).mean()

        return jnp.sqrt(jax.vmap(one)(keys).mean())

    keys = jax.random.split(jax.random.key(0), 200)
    found = [float(errors(int(count), keys)) for count in counts]
    assert np.polyfit(np.log(counts), np.log(found), 1)[0] == pytest.approx(-0.5, abs=0.03)


def test_the_error_is_that_of_the_usual_sampler(oracle: Callable[[str], ModuleType]) -> None:
    sampling = oracle("sklearn.kernel_approximation")
    x, kernel = jnp.asarray(POINTS), RBF(gamma=G)
    exact = np.asarray(kernel.gram(x))
    theirs = []
    for seed in range(200):
        psi = sampling.RBFSampler(gamma=G, n_components=64, random_state=seed).fit_transform(POINTS)
        theirs.append(np.square(psi @ psi.T - exact).mean())

    def error(key: jax.Array) -> jax.Array:
        psi = RandomFourierFeatures(kernel, 2, frequencies=64, phases=True, orthogonal=False, key=key)(x)
        return jnp.square(psi @ psi.T - exact).mean()

    ours = jax.jit(jax.vmap(error))(jax.random.split(jax.random.key(0), 200))
    assert float(ours.mean()) == pytest.approx(np.mean(theirs), rel=0.3)


def test_frequencies_are_learnt_like_any_array() -> None:
    features = RandomFourierFeatures(RBF(1.0), 2, key=jax.random.key(0))
    assert features.count == 2048  # 1024 frequencies unless told
    few = RandomFourierFeatures(RBF(1.0), 2, frequencies=3, key=jax.random.key(0))
    loss = lambda features: (features(jnp.asarray(PAIR)) ** 3).sum()  # noqa: E731
    slope = eqx.filter_grad(loss)(few).w
    moved = lambda h: loss(eqx.tree_at(lambda f: f.w, few, few.w.at[1, 0].add(h)))  # noqa: E731
    assert float(slope[1, 0]) == pytest.approx(float(moved(1e-5) - moved(-1e-5)) / 2e-5, rel=1e-6)


def test_errors_of_a_gram_matrix_are_reported() -> None:
    features = RandomFourierFeatures(RBF(gamma=G), 2, frequencies=4096, key=jax.random.key(0))
    found = gram_error(features, RBF(gamma=G), jnp.asarray(POINTS))
    assert 0 < found.root_mean_square <= found.largest < 0.05
    assert found.relative < 0.05


def test_settings_that_make_no_sense_are_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(ArgumentError, match=r"frequencies=0\): frequencies must be a whole number"):
        RandomFourierFeatures(RBF(1.0), 2, frequencies=0, key=key)
    with pytest.raises(ArgumentError, match="LinearKernel has no spectrum that is known here"):
        RandomFourierFeatures(Linear(), 2, key=key)
    with pytest.raises(ArgumentError, match="Matern has no positive features"):
        PositiveFeatures(Matern(), 2, key=key)
    with pytest.raises(ArgumentError, match="3 scales for points of 2 features"):
        RandomFourierFeatures(RBF([1.0, 2.0, 3.0]), 2, key=key)
    with pytest.raises(ArgumentError, match="points with 2 coordinates"):
        RandomFourierFeatures(RBF(1.0), 2, key=key)(jnp.ones((3, 5)))
