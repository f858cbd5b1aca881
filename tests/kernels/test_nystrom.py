"""Nyström features and pivoted factors: what they explain, what they leave, and what they refuse."""

from collections.abc import Callable
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from chainrule.core.errors import ArgumentError
from chainrule.kernels import (
    RBF,
    Linear,
    Matern,
    Nystrom,
    Polynomial,
    RandomFourierFeatures,
    feature_map,
    landmarks,
)
from chainrule.kernels.pivoting import pivoted_cholesky, pivoted_points

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(60, 2))
KERNEL = RBF(1.0)
K = np.exp(-np.square(POINTS[:, None] - POINTS[None]).sum(-1) / 2)
KEY = jax.random.key(0)


@pytest.mark.parametrize("choice", ["uniform", "kmeans", "pivoted"])
def test_the_trace_left_is_that_of_the_matrix_less_its_approximation(choice) -> None:
    found = Nystrom(KERNEL, POINTS, count=12, choice=choice, key=KEY)
    cross = np.exp(-np.square(POINTS[:, None] - np.asarray(found.landmarks)[None]).sum(-1) / 2)
    own = np.exp(
        -np.square(np.asarray(found.landmarks)[:, None] - np.asarray(found.landmarks)[None]).sum(-1) / 2
    )
    q = cross @ np.linalg.solve(own, cross.T)
    psi = np.asarray(found(POINTS))
    assert psi.dtype == np.float64
    np.testing.assert_allclose(psi @ psi.T, q, atol=1e-8)
    assert float(found.trace_gap) == pytest.approx(np.trace(K - q), abs=1e-8)
    assert np.linalg.eigvalsh(K - q)[0] > -1e-8  # never more than the kernel
    assert np.linalg.norm(K - q, 2) <= float(found.trace_gap) + 1e-9  # so the trace bounds the error


def test_chosen_landmarks_explain_more_than_drawn_ones() -> None:
    gap = {
        choice: float(Nystrom(KERNEL, POINTS, count=15, choice=choice, key=KEY).trace_gap)
        for choice in ("uniform", "kmeans", "pivoted")
    }
    assert gap["pivoted"] < gap["uniform"]
    assert gap["kmeans"] < gap["uniform"]


def test_all_points_as_landmarks_give_the_kernel_back() -> None:
    found = Nystrom(Matern(1.5), POINTS, count=60)
    psi = np.asarray(found(POINTS))
    np.testing.assert_allclose(psi @ psi.T, np.asarray(Matern(1.5).gram(POINTS)), atol=1e-8)
    assert abs(float(found.trace_gap)) < 1e-7


def test_more_landmarks_than_the_rank_are_filled_up_and_harmless() -> None:
    found = Nystrom(Linear(), POINTS, count=5)  # two features, so rank two
    assert found.landmarks.shape == (5, 2)
    assert 0 < float(found.jitter) < 1e-6
    psi = np.asarray(found(POINTS))
    np.testing.assert_allclose(psi @ psi.T, POINTS @ POINTS.T, atol=1e-6)


def test_features_can_be_compiled_and_differentiated() -> None:
    found = Nystrom(KERNEL, POINTS, count=6)
    np.testing.assert_allclose(eqx.filter_jit(found)(jnp.asarray(POINTS[:4])), found(POINTS[:4]), atol=1e-10)
    slope = jax.grad(lambda x: found(x[None, :])[0, 3])(jnp.asarray(POINTS[1]))
    h = np.array([1e-6, 0.0])
    near = [float(found((POINTS[1] + s * h)[None])[0, 3]) for s in (1, -1)]
    assert float(slope[0]) == pytest.approx((near[0] - near[1]) / 2e-6, rel=1e-6)


def test_the_same_landmarks_give_the_features_of_another_library(oracle: Callable[[str], ModuleType]) -> None:
    theirs = oracle("sklearn.kernel_approximation").Nystroem(gamma=1 / 2, n_components=60, random_state=0)
    psi = theirs.fit_transform(POINTS)
    ours = np.asarray(Nystrom(KERNEL, POINTS, count=60, choice="uniform", key=KEY)(POINTS))
    np.testing.assert_allclose(ours @ ours.T, psi @ psi.T, atol=1e-5)


def test_pivots_are_those_of_the_greedy_rule_and_the_factor_gives_the_matrix_back() -> None:
    found = pivoted_cholesky(K)
    np.testing.assert_allclose(found.factor @ found.factor.T, K, atol=1e-12)
    left, chosen = K.copy(), []
    for _ in range(10):
        chosen.append(int(np.diag(left).argmax()))
        left = left - np.outer(left[:, chosen[-1]], left[:, chosen[-1]]) / left[chosen[-1], chosen[-1]]
    assert found.pivots[:10].tolist() == chosen
    np.testing.assert_allclose(pivoted_points(KERNEL, POINTS, 10).left, np.diag(left), atol=1e-12)


def test_the_numerical_rank_is_found() -> None:
    few = RNG.normal(size=(30, 4))
    assert pivoted_cholesky(few @ few.T).rank == 4
    assert pivoted_cholesky(np.zeros((3, 3))).rank == 0
    assert pivoted_cholesky(scipy.linalg.hilbert(5)).rank == 5
    assert pivoted_points(Polynomial(2), RNG.normal(size=(40, 3)), 40).rank == 6


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]],
        [[0.0, 1.0], [1.0, 0.0]],
        [[1.0, 2.0], [2.0, 1.0]],
    ],
)
def test_a_matrix_that_is_not_positive_has_no_pivoted_factor(matrix) -> None:
    with pytest.raises(ArgumentError, match="not positive semi-definite"):
        pivoted_cholesky(matrix)


@pytest.mark.parametrize("method", ["rff", "nystrom"])
@pytest.mark.parametrize(
    "kernel",
    [RBF(2.0), 3.0 * Matern(2.5, 2.0), RBF(2.0) * 0.5 + Linear(0.3), Matern(1.5, 3.0) + RBF(3.0) + 0.2],
)
def test_a_feature_map_comes_close_to_its_kernel(method, kernel) -> None:
    x = POINTS[:12] if method == "rff" else POINTS
    features = feature_map(kernel, x, method, 4000 if method == "rff" else 40, KEY)
    psi = np.asarray(features(jnp.asarray(x)))
    assert psi.shape == (len(x), features.count)
    np.testing.assert_allclose(psi @ psi.T, np.asarray(kernel.gram(x)), atol=0.2 if method == "rff" else 0.05)


def test_a_feature_map_has_as_many_features_as_asked_for() -> None:
    assert feature_map(RBF(1.0), POINTS, "rff", 50, KEY).count == 50
    assert feature_map(RBF(1.0) + Matern(), POINTS, "rff", 50, KEY).count <= 50
    assert feature_map(RBF(1.0), POINTS, "nystrom", 50, KEY).count == 50
    assert isinstance(feature_map(RBF(1.0), POINTS, "rff", 50, KEY), RandomFourierFeatures)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ArgumentError, match="only 60 points"):
        landmarks(KERNEL, POINTS, 61)
    with pytest.raises(ArgumentError, match="needs a key"):
        landmarks(KERNEL, POINTS, 5, choice="uniform")
    with pytest.raises(ArgumentError, match='method must be "rff" or "nystrom"'):
        feature_map(KERNEL, POINTS, "none", 5, KEY)
    with pytest.raises(ArgumentError, match="every random frequency has two"):
        feature_map(KERNEL, POINTS, "rff", 1, KEY)
