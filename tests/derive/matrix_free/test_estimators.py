"""Estimators of traces, diagonals and spectra: unbiased, with honest errors, exact where they can be."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from tests.derive.dense.functions import point
from tests.derive.dense.test_strategies import close

d = cr.derive
key = jax.random.key


def symmetric(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """A matrix with these eigenvalues."""
    q, _ = np.linalg.qr(point(len(values), len(values), seed=seed))
    return np.asarray(q @ np.diag(values) @ q.T)


A = symmetric(np.linspace(-2.0, 5.0, 12))


def within(values: Any, expected: Any, sigmas: float = 4.0) -> None:
    """The mean of independent runs is the expected value, up to chance."""
    values = np.asarray(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - expected) <= sigmas * error + 1e-9)


@pytest.mark.parametrize("method", ["hutchinson", "hutch++"])
@pytest.mark.parametrize("matrix", [A, np.asarray(point(12, 12))])
def test_traces_are_unbiased(method: str, matrix: np.ndarray) -> None:
    run = jax.jit(jax.vmap(lambda k: d.trace(lambda v: matrix @ v, 12, k, samples=9, method=method).value))
    within(run(jax.random.split(key(0), 300)), np.trace(matrix))


def test_the_standard_error_is_the_spread_of_the_estimate() -> None:
    run = jax.jit(jax.vmap(lambda k: d.trace(lambda v: A @ v, 12, k, samples=20)))
    found = run(jax.random.split(key(1), 300))
    assert float(np.std(found.value)) == pytest.approx(float(np.sqrt(np.mean(found.stderr**2))), rel=0.2)


def test_hutch_plus_plus_is_far_better_on_low_rank() -> None:
    low = symmetric(np.concatenate([[100.0, 50.0, 20.0], np.full(37, 0.01)]))
    keys = jax.random.split(key(2), 40)

    def errors(method: str) -> np.ndarray:
        run = jax.jit(jax.vmap(lambda k: d.trace(lambda v: low @ v, 40, k, samples=15, method=method).value))
        return np.abs(np.asarray(run(keys)) - np.trace(low))

    assert np.median(errors("hutch++")) < 0.05 * np.median(errors("hutchinson"))


def test_signs_are_exact_for_diagonal_matrices_and_full_sketches_for_all() -> None:
    values = point(6)
    found = d.trace(lambda v: values * v, 6, key(0), samples=3)
    assert float(found.value) == pytest.approx(values.sum(), rel=1e-12)
    assert float(found.stderr) == pytest.approx(0.0, abs=1e-12)
    full = d.trace(lambda v: A @ v, 12, key(0), samples=36, method="hutch++")
    assert float(full.value) == pytest.approx(np.trace(A), rel=1e-9)
    assert np.isnan(float(d.trace(lambda v: A @ v, 12, key(0), samples=1).stderr))


def test_diagonals_are_unbiased_with_honest_errors() -> None:
    found = jax.jit(lambda k: d.diagonal(lambda v: A @ v, 12, k, samples=2000))(key(3))
    assert np.all(np.abs(found.value - np.diag(A)) < 5 * found.stderr)
    run = jax.jit(jax.vmap(lambda k: d.diagonal(lambda v: A @ v, 12, k, samples=4).value))
    within(run(jax.random.split(key(4), 400)), np.diag(A), sigmas=4.5)


def test_lanczos_finds_the_ends_of_the_spectrum_first() -> None:
    values = np.concatenate([[-10.0], np.linspace(0, 1, 78), [20.0]])
    M = symmetric(values)
    found = d.lanczos(lambda v: M @ v, 80, key(0), steps=25)
    assert float(found.values[0]) == pytest.approx(-10, rel=1e-8)
    assert float(found.values[-1]) == pytest.approx(20, rel=1e-8)
    assert float(found.weights.sum()) == pytest.approx(1.0, rel=1e-10)
    top = np.asarray(found.vectors[:, -1])
    np.testing.assert_allclose(M @ top, 20 * top, atol=1e-6)


def test_all_steps_give_all_eigenvalues() -> None:
    found = d.lanczos(lambda v: A @ v, 12, key(0), steps=100)
    np.testing.assert_allclose(found.values, np.linspace(-2, 5, 12), atol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(12), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_distinct_eigenvalues_do_not_invent_others(dtype: Any) -> None:
    with jax.enable_x64(dtype == np.float64):
        values = np.asarray([2.0] * 5 + [7.0] * 3, dtype)
        found = d.lanczos(lambda v: values * v, 8, key(0), steps=8)
        np.testing.assert_allclose(found.values, [2.0] * 5 + [7.0] * 3, rtol=1e-4)
        zero = d.lanczos(lambda v: 0.0 * v, 5, key(0), steps=5)
        np.testing.assert_allclose(zero.values, np.zeros(5), atol=1e-6)


def test_top_eigenpairs_are_ordered_by_magnitude() -> None:
    values = np.array([9.0, -8.0, 4.0, *np.linspace(-1, 1, 17)])
    M = symmetric(values)
    found, vectors = d.top_eigenpairs(lambda v: M @ v, 20, 3, key(1))
    np.testing.assert_allclose(found, [9, -8, 4], rtol=1e-8)
    np.testing.assert_allclose(M @ vectors, vectors * np.asarray(found)[None, :], atol=1e-6)


def test_top_eigenpairs_of_a_loss_come_from_its_hessian_products() -> None:
    f = lambda x: jnp.sum(jnp.sin(x)) ** 2 + jnp.sum(x**4)  # noqa: E731
    x = point(10)
    H = np.asarray(jax.jit(jax.hessian(f))(x))
    found, _ = d.top_eigenpairs(lambda v: d.hvp(f)(x, v), 10, 2, key(0))
    expected = np.linalg.eigvalsh(H)
    np.testing.assert_allclose(found, expected[np.argsort(-np.abs(expected))][:2], rtol=1e-9)


def test_log_determinants_are_exact_for_one_eigenvalue_and_unbiased_otherwise() -> None:
    found = d.log_determinant(lambda v: 3.0 * v, 7, key(0))
    assert float(found.value) == pytest.approx(7 * np.log(3.0), rel=1e-10)
    values = np.linspace(0.5, 4.0, 15)
    M = symmetric(values)
    found = d.log_determinant(lambda v: M @ v, 15, key(1), samples=60)
    assert abs(float(found.value) - np.log(values).sum()) < 4 * float(found.stderr)


def test_log_determinants_are_compiled_too_and_refused_when_they_run() -> None:
    entries = np.linspace(1.0, 2.0, 7)
    run = jax.jit(lambda scale: d.log_determinant(lambda v: scale * entries * v, 7, key(0)).value)
    assert float(run(3.0)) == pytest.approx(
        float(d.log_determinant(lambda v: 3.0 * entries * v, 7, key(0)).value)
    )
    with pytest.raises(
        Exception, match="log_determinant: the eigenvalues of the matrix are not all positive"
    ):
        jax.block_until_ready(run(-3.0))
    with pytest.raises(ArgumentError, match=r"not all are positive\n *add a multiple of the identity"):
        d.log_determinant(lambda v: -3.0 * v, 7, key(0))
    slope = jax.grad(lambda scale: d.log_determinant(lambda v: scale * entries * v, 7, key(0)).value)(3.0)
    assert float(slope) == pytest.approx(7 / 3.0, rel=1e-8)


def test_a_spectral_density_is_the_same_inside_jit() -> None:
    M = symmetric(np.linspace(0.5, 4.0, 8))
    plain = d.spectral_density(lambda v: M @ v, 8, key(0), samples=2)
    compiled = jax.jit(lambda k: d.spectral_density(lambda v: M @ v, 8, k, samples=2))(key(0))
    for here, inside in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(inside, here, rtol=1e-6, atol=1e-9)


def test_a_spectral_density_integrates_to_one_and_peaks_at_the_eigenvalues() -> None:
    values = np.concatenate([np.full(30, 1.0), np.full(10, 5.0)])
    M = symmetric(values)
    grid, density = d.spectral_density(lambda v: M @ v, 40, key(0), samples=20)
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.01)
    low = grid < 3
    assert np.trapezoid(density[low], grid[low]) == pytest.approx(0.75, abs=0.08)
    assert grid[density.argmax()] == pytest.approx(1.0, abs=0.1)


def test_divergence_is_the_trace_of_the_jacobian_exactly_or_estimated() -> None:
    f = lambda p: {"a": jnp.sin(p["a"]) * p["b"].sum(), "b": p["b"] ** 2}  # noqa: E731
    p = {"a": point(3), "b": point(2)}
    expected = float(np.cos(p["a"]).sum() * p["b"].sum() + 2 * p["b"].sum())
    assert float(jax.jit(d.divergence(f))(p)) == pytest.approx(expected, rel=1e-12)
    run = jax.jit(jax.vmap(lambda k: d.divergence(f, samples=8)(p, k).value))
    within(run(jax.random.split(key(0), 100)), expected)
    field = lambda x: jnp.stack([-x[1], x[0]])  # noqa: E731  # a rotation has none
    close(jax.jit(d.divergence(field))(np.ones(2)), np.asarray(0.0))
