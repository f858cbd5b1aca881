"""Affine maps, sums, marginals, independence, and covariances that are singular or none at all."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Eigen
from chainrule.probability import gaussian as g

MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[2.0, 0.6, 0.3], [0.6, 1.0, 0.2], [0.3, 0.2, 1.5]])


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_affine_images_and_sums_are_those_of_draws() -> None:
    random = np.random.default_rng(0)
    x = random.multivariate_normal(MEAN, COVARIANCE, 20_000)
    y = random.multivariate_normal(2 * MEAN, np.eye(3), 20_000)
    matrix, shift = random.normal(size=(2, 3)), np.array([1.0, 2.0])
    mean, covariance = g.affine(MEAN, COVARIANCE, matrix, shift)
    np.testing.assert_allclose(mean, (x @ matrix.T + shift).mean(axis=0), atol=0.05)
    np.testing.assert_allclose(covariance, np.cov(x @ matrix.T, rowvar=False), atol=0.15)
    mean, covariance = g.add((MEAN, COVARIANCE), (2 * MEAN, np.eye(3)))
    np.testing.assert_allclose(mean, (x + y).mean(axis=0), atol=0.05)
    np.testing.assert_allclose(covariance, np.cov(x + y, rowvar=False), atol=0.1)


def test_the_scaled_sum_of_two_copies_is_distributed_like_one() -> None:
    centred = (np.zeros(3), COVARIANCE)
    np.testing.assert_allclose(
        g.affine(*g.add(centred, centred), np.eye(3) / math.sqrt(2)).covariance, COVARIANCE, atol=1e-14
    )


def test_marginals_keep_the_order_they_are_asked_in() -> None:
    mean, covariance = g.marginal(MEAN, COVARIANCE, [-1, 0])
    np.testing.assert_array_equal(mean, [0.5, 1.0])
    np.testing.assert_array_equal(covariance, [[1.5, 0.3], [0.3, 2.0]])


def test_jointly_normal_groups_are_independent_when_their_block_is_zero() -> None:
    blocks = np.zeros((4, 4))
    blocks[:2, :2], blocks[2:, 2:] = COVARIANCE[:2, :2], COVARIANCE[1:, 1:]
    assert g.independent(blocks, [[0, 1], [2, 3]]).value
    assert not g.independent(blocks, [[0], [1, 2, 3]]).value
    found = g.independent(COVARIANCE, [[2], [0, 1]])
    assert found.pair == (2, 0)
    assert found.largest == pytest.approx(0.3 / math.sqrt(3))
    assert g.independent(COVARIANCE, [[2], [0, 1]], tolerance=0.2).value
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    turned = g.affine(np.zeros(4), blocks, np.kron(np.eye(2), rotation)).covariance
    assert g.independent(turned, [[0, 1], [2, 3]]).value


def test_uncorrelated_normal_variables_need_not_be_independent() -> None:
    x, y = np.asarray(g.sign_flipped_pair(jax.random.key(0), 20_000)).T
    for one in (x, y):
        assert scipy.stats.kstest(one, "norm").pvalue > 0.01
    assert abs((x * y).mean()) < 4 * (x * y).std() / math.sqrt(len(x))
    assert (x**2 * y**2).mean() == pytest.approx(3, abs=0.5)
    assert ((x + y) == 0).mean() == pytest.approx(0.5, abs=0.02)  # no density: not jointly normal


def test_any_covariance_has_a_factor() -> None:
    flat = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    for covariance, rank in ((COVARIANCE, 3), (flat, 1), (np.zeros((2, 2)), 0)):
        found = Eigen.of(covariance)
        assert int(found.rank) == rank
        np.testing.assert_allclose(found.factor @ found.factor.T, covariance, atol=1e-14)


def test_densities_on_the_support_are_scipys() -> None:
    matrix = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    mean, flat = np.ones(3), matrix @ matrix.T
    points = mean + np.random.default_rng(0).normal(size=(5, 2)) @ matrix.T
    oracle = scipy.stats.multivariate_normal(mean, flat, allow_singular=True)
    scored = jax.jit(jax.vmap(lambda x: g.log_prob_on_support(x, mean, flat)))
    np.testing.assert_allclose(scored(points), oracle.logpdf(points), rtol=1e-9)
    assert np.isneginf(scored(points + np.array([0.1, 0, 0]))).all()
    regular = scipy.stats.multivariate_normal(MEAN, COVARIANCE)
    np.testing.assert_allclose(
        jax.vmap(lambda x: g.log_prob_on_support(x, MEAN, COVARIANCE))(points), regular.logpdf(points)
    )


def test_a_covariance_of_zero_is_a_point_mass() -> None:
    zero = np.zeros((2, 2))
    assert float(g.log_prob_on_support([1.0, 2.0], [1.0, 2.0], zero)) == 0
    assert float(g.log_prob_on_support([1.0, 2.001], [1.0, 2.0], zero)) == -math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: g.affine([0.0], [[1.0, 0.0]], [[1.0]]), r"affine\(covariance\): a covariance is a square"),
        (lambda: g.affine([0.0], 2.0, [[1.0]]), r"shape \(\)\n.*covariance=\[\[v\]\]"),
        (lambda: g.affine([0.0], [[1.0]], [[1.0, 2.0]]), r"affine\(matrix\): shape \(1, 2\)"),
        (lambda: g.affine([0.0, 0.0], [[1.0]], [[1.0]]), r"affine\(mean\): shape \(2,\)"),
        (lambda: g.affine([math.nan], [[1.0]], [[1.0]]), r"mean\): entry 0 is nan"),
        (lambda: Eigen.of([[1.0, 0.5], [0.4, 1.0]]), r"entry \[0, 1\] is 0.5 .* symmetric\n"),
        (lambda: Eigen.of([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue -1"),
        (lambda: Eigen.of([[math.inf]]), r"entry \[0, 0\] is inf"),
        (lambda: g.add(([0.0], [[1.0]]), ([0.0, 0.0], np.eye(2))), "have no sum"),
        (lambda: g.marginal(MEAN, COVARIANCE, [3]), "no variable 3 among 3"),
        (lambda: g.marginal(MEAN, COVARIANCE, [0, -3]), "variable 0 is named twice"),
        (lambda: g.independent(COVARIANCE, [[0, 1]]), "two groups"),
        (lambda: g.log_prob_on_support(np.zeros((4, 3)), MEAN, COVARIANCE), "jax.vmap"),
        (lambda: g.sign_flipped_pair(jax.random.key(0), 0), "at least 1"),
    ],
)
def test_what_is_no_normal_distribution_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_rounding_of_single_precision_is_forgiven() -> None:
    factor = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    assert int(Eigen.of(jnp.asarray(factor @ factor.T)).rank) == 3
