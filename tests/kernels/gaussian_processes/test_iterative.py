"""Iterative exact Gaussian processes: against dense algebra at five hundred points, within the errors they state."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Linear, Matern
from chainrule.kernels.gaussian_processes import iterative_solver as solver
from chainrule.kernels.gaussian_processes.iterative import IterativeGaussianProcess
from chainrule.kernels.pivoting import pivoted_points

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-3, 3, size=(500, 2))
Y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.2 * RANDOM.normal(size=500)
NEW = RANDOM.normal(size=(9, 2))
NOISE = 0.04


def process(**settings: Any) -> IterativeGaussianProcess:
    return IterativeGaussianProcess(Matern(1.5, np.float64(1.5)), np.float64(NOISE), **settings)


def dense(log_scale: float = np.log(1.5), log_noise: float = np.log(NOISE)) -> np.ndarray:
    return np.asarray(Matern(1.5, np.exp(log_scale)).gram(X)) + np.exp(log_noise) * np.eye(500)


def log_evidence(*where: float) -> float:
    return float(scipy.stats.multivariate_normal(cov=dense(*where)).logpdf(Y))


def test_weights_and_predictions_are_those_of_dense_algebra() -> None:
    found = process(tolerance=1e-10).fit(X, Y)
    K, across = dense(), np.asarray(Matern(1.5, np.float64(1.5)).gram(X, NEW))
    np.testing.assert_allclose(found.weights, np.linalg.solve(K, Y), atol=1e-7)
    mean, variance = found.predict(NEW, kind="latent")
    np.testing.assert_allclose(mean, across.T @ np.linalg.solve(K, Y), atol=1e-8)
    exact = 1 - (across * np.linalg.solve(K, across)).sum(axis=0)
    np.testing.assert_allclose(variance, exact, atol=1e-8)
    np.testing.assert_allclose(found.predict(NEW)[1], exact + NOISE, atol=1e-8)
    assert np.isnan(found.predict(NEW, variance=False)[1]).all()


def test_the_evidence_and_its_gradient_are_within_their_errors_of_the_exact_ones() -> None:
    exact, h = log_evidence(), 1e-4
    slopes = [
        (log_evidence(np.log(1.5) + h) - log_evidence(np.log(1.5) - h)) / (2 * h),
        (log_evidence(np.log(1.5), np.log(NOISE) + h) - log_evidence(np.log(1.5), np.log(NOISE) - h))
        / (2 * h),
    ]
    found = [process().evidence(X, Y, jax.random.key(seed), probes=16) for seed in range(4)]
    errors = np.array([one.value - exact for one in found])
    stated = np.array([one.standard_error for one in found])
    assert (np.abs(errors) < 4 * stated).all()
    assert (
        0.3 < np.sqrt(np.square(errors).mean() / np.square(stated).mean()) < 2.5
    )  # neither boast nor modesty
    assert stated.max() < 0.01 * abs(exact) + 2
    gradients = np.array([[one.gradient.kernel.log_scale, one.gradient.log_noise] for one in found], float)
    spread = gradients.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(gradients.mean(axis=0) - slopes) < 5 * spread + 1e-3 * np.abs(slopes)).all()


def test_the_preconditioner_is_what_its_factor_says_and_saves_steps() -> None:
    factor = jnp.asarray(pivoted_points(Matern(1.5, np.float64(1.5)), X, 60).factor)
    near = solver.preconditioner(factor, jnp.asarray(NOISE))
    whole = np.asarray(factor) @ np.asarray(factor).T + NOISE * np.eye(500)
    np.testing.assert_allclose(
        near.solve(jnp.asarray(Y)[:, None])[:, 0], np.linalg.solve(whole, Y), atol=1e-8
    )
    np.testing.assert_allclose(near.log_det, np.linalg.slogdet(whole)[1], rtol=1e-10)
    drawn = np.asarray(near.draw(jax.random.key(0), 4000))
    np.testing.assert_allclose(drawn @ drawn.T / 4000, whole, atol=0.15)
    assert process(rank=100).fit(X, Y).steps < 0.7 * process(rank=0).fit(X, Y).steps


def test_products_and_forms_by_tiles_are_those_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "TILE", 500 * 64)  # the last tile is not full
    kernel = RBF(np.float64(0.9))
    K, right = np.asarray(kernel.gram(X)), RANDOM.normal(size=(500, 3))
    x, columns = jnp.asarray(X), jnp.asarray(right)
    np.testing.assert_allclose(solver.kernel_product(kernel, x, columns), K @ right, atol=1e-10)
    form = eqx.filter_jit(eqx.filter_value_and_grad(lambda k: solver.kernel_form(k, x, columns, columns)))
    value, gradient = form(kernel)
    np.testing.assert_allclose(value, (right * (K @ right)).sum(), rtol=1e-10)
    ahead, behind = (float(form(RBF(0.9 * np.exp(h)))[0]) for h in (1e-5, -1e-5))
    np.testing.assert_allclose(gradient.log_scale, (ahead - behind) / 2e-5, rtol=1e-6)


def test_no_matrix_of_all_pairs_is_held() -> None:
    rows, columns, rank = 100_000, 17, 100
    x = jax.ShapeDtypeStruct((rows, 3), jnp.float64)
    factor = jax.ShapeDtypeStruct((rows, rank), jnp.float64)
    right = jax.ShapeDtypeStruct((rows, columns), jnp.float64)
    kernel = Matern(2.5, np.float64(1.0))

    def solve(x: jax.Array, factor: jax.Array, right: jax.Array) -> Any:
        near = solver.preconditioner(factor, jnp.asarray(0.1))
        return solver.conjugate_gradients(kernel, x, near, right, 1e-6, 100)

    memory = jax.jit(solve).lower(x, factor, right).compile().memory_analysis()
    # Some columns, and tiles of four million kernel values with what a Matérn kernel makes of them.
    assert memory.temp_size_in_bytes < 8 * (rows * (12 * columns + 2 * rank) + 12 * 2**22)


def test_learning_raises_the_evidence() -> None:
    x, y = X[:150], Y[:150]
    first = IterativeGaussianProcess(RBF(np.float64(0.5)), np.float64(0.5), rank=30).fit(x, y)
    best = first.optimize(15, rate=0.2, probes=8)

    def exact(process: IterativeGaussianProcess) -> float:
        cov = np.asarray(process.kernel.gram(x)) + float(np.exp(process.log_noise)) * np.eye(150)
        return float(scipy.stats.multivariate_normal(cov=cov).logpdf(y))

    assert exact(best.process) > exact(first.process) + 20


def test_a_solve_that_does_not_end_says_what_to_change_and_that_helps() -> None:
    hard = {"tolerance": 1e-8, "rank": 0}
    with pytest.raises(ArgumentError, match=r"after 5 steps .*\n.*raise rank or limit"):
        process(limit=5, **hard).fit(X, Y)
    assert process(limit=500, **hard).fit(X, Y).steps > 5
    with pytest.raises(ArgumentError, match="tolerance=2"):
        process(tolerance=2)


def test_an_offset_that_learning_takes_to_zero_leaves_a_kernel() -> None:
    """Steps of Adam do not know that offsets are not negative; the kernel does."""
    line = X[:60] @ np.array([1.0, -0.5])
    found = IterativeGaussianProcess(Linear(), 0.1).fit(X[:60], line).optimize(3, rate=0.3, probes=2)
    kernel: Any = found.process.kernel
    assert float(kernel.offset) < 0
    np.testing.assert_allclose(kernel.gram(X[:9]), X[:9] @ X[:9].T, atol=1e-12)
    np.testing.assert_allclose(found.predict(X[:9], variance=False)[0], line[:9], atol=0.1)
    slope = jax.grad(lambda offset: eqx.tree_at(lambda k: k.offset, kernel, offset)(X[0], X[1]))
    assert float(slope(jnp.asarray(kernel.offset))) == 1  # it can grow again
