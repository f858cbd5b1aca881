"""Solving with Gram matrices: the jitter they need, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, factored, nearest_psd, psd_solve
from chainrule.kernels.positive import symmetric

INDEFINITE = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])


def test_a_matrix_that_is_definite_is_solved_without_jitter() -> None:
    matrix = np.asarray(RBF(0.5).gram(np.linspace(0, 1, 5))) + 0.1 * np.eye(5)
    right = np.arange(10.0).reshape(5, 2)
    found = psd_solve(matrix, right)
    assert found.jitter == 0
    np.testing.assert_allclose(found.x, np.linalg.solve(matrix, right), rtol=1e-10)


def test_a_singular_gram_matrix_gets_the_least_jitter_of_the_ladder() -> None:
    matrix = np.ones((4, 4))
    found = psd_solve(matrix, np.ones(4))
    assert found.jitter == pytest.approx(1e-10)
    np.testing.assert_allclose(matrix @ found.x, np.ones(4), rtol=1e-6)


def test_double_precision_is_used_whatever_the_program_around_uses() -> None:
    with jax.enable_x64(False):
        matrix = np.asarray([[1.0, 1 - 1e-12], [1 - 1e-12, 1.0]])
        found = psd_solve(matrix, np.array([1.0, -1.0]))
        assert found.x.dtype == np.float64
        np.testing.assert_allclose(found.x, [1e12, -1e12], rtol=1e-3)


def test_an_indefinite_matrix_is_refused_with_its_eigenvalue_and_the_remedies_work() -> None:
    with pytest.raises(ArgumentError, match=r"smallest eigenvalue -0\.8 .*argument K"):
        psd_solve(INDEFINITE, np.ones(3))
    psd_solve(nearest_psd(INDEFINITE), np.ones(3))
    psd_solve(INDEFINITE + 0.88 * np.eye(3), np.ones(3))


def test_the_nearest_gram_matrix_is_nearer_than_others() -> None:
    nearest = nearest_psd(INDEFINITE)
    assert np.linalg.eigvalsh(nearest)[0] > -1e-12
    least = np.linalg.norm(nearest - INDEFINITE)
    for seed in range(20):
        other = np.random.default_rng(seed).normal(size=(3, 3)) * 0.1
        candidate = nearest + other @ other.T
        assert np.linalg.norm(candidate - INDEFINITE) >= least
    assert least == pytest.approx(0.8, rel=1e-9)


def test_compiled_code_climbs_the_same_ladder_and_derivatives_pass() -> None:
    low_rank = np.outer(np.arange(1.0, 5.0), np.arange(1.0, 5.0))
    outside = factored(jnp.asarray(low_rank))
    inside = jax.jit(factored)(jnp.asarray(low_rank))
    np.testing.assert_allclose(np.asarray(inside.lower), np.asarray(outside.lower), rtol=1e-9)
    assert float(inside.jitter) == pytest.approx(float(outside.jitter))
    assert np.isnan(np.asarray(jax.jit(factored)(jnp.asarray(INDEFINITE)).lower)).any()

    definite = np.asarray(RBF(0.5).gram(np.linspace(0, 1, 4))) + 0.1 * np.eye(4)
    slope = jax.jit(jax.grad(lambda m: factored(m).log_det))(jnp.asarray(definite))
    np.testing.assert_allclose(np.asarray(slope + slope.T) / 2, np.linalg.inv(definite), rtol=1e-8)


def test_what_is_not_a_symmetric_matrix_of_numbers_is_refused() -> None:
    for matrix, words in (
        (np.zeros((2, 3)), "square"),
        ([[1.0, np.inf], [np.inf, 1.0]], r"K\[0, 1\] is inf"),
        ([[1.0, 2.0], [2.5, 1.0]], r"K\[0, 1\] is 2 and K\[1, 0\] is 2\.5"),
    ):
        with pytest.raises(ArgumentError, match=words):
            symmetric("psd_solve", "K", matrix)
    with pytest.raises(ArgumentError, match="does not fit"):
        psd_solve(np.eye(3), np.ones(4))


def test_traced_code_has_the_derivatives_of_the_factor_in_all_orders() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    matrix, along, weights = root @ root.T + np.eye(4), rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    along = along + along.T

    def value(by: jax.Array, factor: object) -> jax.Array:
        return jnp.square((weights * factor(matrix + by * along)).sum())  # type: ignore[operator]

    for order in (jax.grad, lambda f: jax.grad(jax.grad(f)), lambda f: jax.jacfwd(jax.grad(f))):
        found, expected = (
            jax.jit(order(lambda by, f=f: value(by, f)))(0.01)
            for f in (lambda m: factored(m).lower, jnp.linalg.cholesky)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    singular = jax.jit(jax.grad(lambda m: factored(m).jitter))(jnp.ones((3, 3)))
    np.testing.assert_allclose(singular, 1e-10 / 3 * np.eye(3), rtol=1e-6)
