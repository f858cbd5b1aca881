"""Sparse Gaussian processes: the published bound, the exact process where nothing is left out, derivatives, memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError, DataError
from chainrule.kernels import RBF, Matern, Precomputed
from chainrule.kernels.gaussian_processes import sparse
from chainrule.kernels.gaussian_processes.climbing import climbed
from chainrule.kernels.gaussian_processes.sparse import SparseGaussianProcess, inducing_inputs

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-3, 3, size=(60, 2))
Y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RANDOM.normal(size=60)


def process(inducing: object, scale: float = 1.3, noise: float = 0.05) -> SparseGaussianProcess:
    return SparseGaussianProcess(RBF(np.float64(scale)), np.float64(noise), inducing)


def exact_evidence(kernel: RBF, noise: float) -> float:
    return float(
        scipy.stats.multivariate_normal(cov=np.asarray(kernel.gram(X)) + noise * np.eye(60)).logpdf(Y)
    )


def test_the_bound_of_three_points_is_the_known_number_and_with_all_inputs_the_evidence() -> None:
    x, t = [0.0, 1.0, 2.0], [0.0, 1.0, 0.0]
    found = process([0.5, 1.5], 1.0, 0.1).fit(x, t)
    np.testing.assert_allclose(found.bound, -6.098457, atol=5e-7)
    whole = process(x, 1.0, 0.1).fit(x, t)
    np.testing.assert_allclose(whole.bound, -3.493578, atol=5e-7)
    mean, latent = whole.predict([0.5], kind="latent")
    _, observed = whole.predict([0.5])
    np.testing.assert_allclose([mean[0], latent[0], observed[0]], [0.574548, 0.082395, 0.182395], atol=5e-7)


def test_the_bound_is_the_dense_formula_never_above_the_evidence_and_rises_with_more_inputs() -> None:
    kernel, noise = RBF(np.float64(1.3)), 0.05
    evidence = exact_evidence(kernel, noise)
    bounds = []
    for count in (5, 15, 30):
        Z = X[:count]
        found = process(Z).fit(X, Y)
        across = np.asarray(kernel.gram(Z, X))
        Q = across.T @ np.linalg.solve(np.asarray(kernel.gram(Z)), across)
        dense = scipy.stats.multivariate_normal(cov=Q + noise * np.eye(60)).logpdf(Y)
        np.testing.assert_allclose(found.bound, dense - (60 - np.trace(Q)) / (2 * noise), rtol=1e-6)
        bounds.append(found.bound)
    assert bounds[0] < bounds[1] < bounds[2] < evidence
    np.testing.assert_allclose(process(X).fit(X, Y).bound, evidence, rtol=1e-7)


def test_predictions_with_all_inputs_are_exact_conditioning() -> None:
    kernel, noise = RBF(np.float64(1.3)), 0.05
    new = RANDOM.normal(size=(7, 2))
    K, across = np.asarray(kernel.gram(X)) + noise * np.eye(60), np.asarray(kernel.gram(X, new))
    mean, variance = process(X).fit(X, Y).predict(new, kind="latent")
    np.testing.assert_allclose(mean, across.T @ np.linalg.solve(K, Y), atol=1e-7)
    np.testing.assert_allclose(variance, 1 - (across * np.linalg.solve(K, across)).sum(axis=0), atol=1e-7)


def test_tiles_change_nothing_and_the_gradient_is_that_of_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = process(X[:8])
    x, y = jnp.asarray(X), jnp.asarray(Y)
    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda p: p.bound(x, y)))(start)
    monkeypatch.setattr(sparse, "TILE", 8 * 7)  # seven rows at a time, the last tile not full
    bound = eqx.filter_jit(lambda p: p.bound(x, y))
    np.testing.assert_allclose(bound(start), value, rtol=1e-10)
    direction = RANDOM.normal(size=(8, 2))
    for where, along in (
        (lambda p: p.inducing, direction),
        (lambda p: p.log_noise, np.float64(1.0)),
        (lambda p: p.kernel.log_scale, np.float64(1.0)),
    ):
        ends = [float(bound(eqx.tree_at(where, start, where(start) + h * along))) for h in (1e-6, -1e-6)]
        slope = (np.asarray(where(gradient)) * along).sum()
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_no_matrix_has_two_sides_of_all_rows() -> None:
    rows, count = 100_000, 64
    shapes = (
        jax.ShapeDtypeStruct((rows, 3), jnp.float64),
        jax.ShapeDtypeStruct((rows,), jnp.float64),
    )
    start = SparseGaussianProcess(Matern(2.5), 0.1, np.zeros((count, 3)))
    gradient = jax.jit(lambda x, y: jax.grad(lambda p: p.bound(x, y), allow_int=True)(start))
    memory = gradient.lower(*shapes).compile().memory_analysis()
    if memory is not None:  # what a derivative holds grows with rows x inducing inputs at most
        assert memory.temp_size_in_bytes < 3 * 8 * rows * count


def test_learning_raises_the_bound_towards_the_evidence() -> None:
    first = SparseGaussianProcess(RBF(0.5), 0.5, 12).fit(X, Y)
    still = first.optimize(15, move=False)
    moved = first.optimize(30)
    assert first.bound < still.bound < moved.bound
    np.testing.assert_array_equal(still.inducing, first.inducing)
    assert np.abs(moved.inducing - first.inducing).max() > 1e-3
    learnt = moved.process
    assert moved.bound < exact_evidence(learnt.kernel, float(np.exp(learnt.log_noise)))


def test_inducing_inputs_are_as_many_as_asked_or_as_there_are_different_rows() -> None:
    assert inducing_inputs(RBF(1.0), X, 10).shape == (10, 2)
    np.testing.assert_array_equal(inducing_inputs(RBF(1.0), X, 10), inducing_inputs(RBF(1.0), X, 10))
    repeated = np.repeat(X[:4], 30, axis=0)
    assert inducing_inputs(RBF(1.0), repeated, 10).shape == (4, 2)
    assert SparseGaussianProcess(RBF(1.0), 0.1).fit(X, Y).inducing.shape == (60, 2)  # 512 unless told


def test_tables_of_similarities_are_not_learnt() -> None:
    table = Precomputed(np.eye(2))
    found = climbed(lambda k: k[0].matrix.sum() - jnp.square(k[1] - 2).sum(), (table, jnp.zeros(1)))
    np.testing.assert_array_equal(found.best[0].matrix, np.eye(2))
    np.testing.assert_allclose(found.best[1], 2, atol=1e-5)
    with pytest.raises(ArgumentError, match="not finite where it begins"):
        climbed(lambda x: jnp.log(x).sum(), jnp.zeros(2))


def test_data_that_do_not_fit_are_named() -> None:
    with pytest.raises(ArgumentError, match="inducing inputs have 1 features and x has 2"):
        process([0.0, 1.0]).fit(X, Y)
    with pytest.raises(ArgumentError, match="bound: inducing inputs have 1 features and x has 2"):
        process([0.0, 1.0]).bound(X, Y)
    with pytest.raises(ArgumentError, match="where the 4 inducing inputs are is not known yet"):
        process(4).bound(X, Y)
    with pytest.raises(ArgumentError, match=r"bound\(y\): one number for each of 60 points, not \(3,\)"):
        process(X[:4]).bound(X, Y[:3])
    with pytest.raises(DataError, match=r"row 1 is nan"):
        process(4).fit([0.0, 1.0], [0.0, np.nan])
    with pytest.raises(ArgumentError, match="one number for each row"):
        process(4).fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(ArgumentError, match="noise is 0; noise must be positive"):
        SparseGaussianProcess(RBF(1.0), 0.0)
    with pytest.raises(ArgumentError, match='kind must be "observation" or "latent"'):
        process(4).fit(X, Y).predict(X, kind="function")
