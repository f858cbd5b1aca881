"""Sparse tensors of third order equal closed forms and dense derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive import sparse
from tests.derive.sparse.prepared.functions import chain, tall, tree

N = 7
X = np.linspace(0.5, 1.5, N)


def test_a_chain_of_squares_has_one_constant_off_its_diagonal() -> None:
    T = sparse.third(lambda x: jnp.sum(x[:-1] ** 2 * x[1:]), X, "values")
    assert T.indices.tolist() == [[i + 1, i, i] for i in range(N - 1)]
    np.testing.assert_allclose(T(X), np.full(N - 1, 2.0))
    assert T.nnz == 3 * (N - 1)


def test_fourth_powers_have_a_diagonal() -> None:
    T = sparse.third(lambda x, scale: scale * jnp.sum(x**4), X, "dense", args=(1.0,))
    wanted = np.zeros((N, N, N))
    wanted[np.arange(N), np.arange(N), np.arange(N)] = 24 * 3.0 * X
    np.testing.assert_allclose(T(X, 3.0), wanted, rtol=1e-12)
    assert T.report.products == {"forward": 1}
    assert T.matrix.report.products == {"second-order": 1}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_random_cubic_form_gives_its_coefficients_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    triples = np.sort(draw.integers(0, N, (12, 3)), axis=1)[:, ::-1]
    weights = draw.normal(size=12)
    wanted = np.zeros((N, N, N))
    for (i, j, k), weight in zip(triples, weights, strict=True):
        for turn in ((i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)):
            wanted[turn] += weight  # each of the six orders in which the product can be differentiated
    f = lambda x: jnp.sum(weights * x[triples[:, 0]] * x[triples[:, 1]] * x[triples[:, 2]])  # noqa: E731
    T = sparse.third(f, X)
    np.testing.assert_allclose(T(X).todense(), wanted, atol=1e-12)
    assert T.nnz == np.count_nonzero(wanted)


def test_a_rosenbrock_chain_equals_the_dense_tensor_under_transformations() -> None:
    T = sparse.third(chain, X, "dense")
    dense = jax.jit(jax.jacfwd(jax.hessian(chain)))
    np.testing.assert_allclose(T(X), dense(X), rtol=1e-10, atol=1e-9)
    batch = np.stack([X, 2 * X])
    np.testing.assert_allclose(jax.jit(jax.vmap(T))(batch)[1], dense(2 * X), rtol=1e-10, atol=1e-9)
    assert T.indices.shape[0] < T.nnz < 4 * N


def test_quadratic_functions_have_none() -> None:
    T = sparse.third(lambda x: jnp.sum(x[1:] * x[:-1]), X)
    assert T.nnz == 0
    assert T(X).todense().shape == (N, N, N)
    assert not T(X).todense().any()


@pytest.mark.parametrize("format", ["bcoo", "dense"])
def test_second_derivatives_of_several_outputs_are_a_tensor(format: str) -> None:
    T = sparse.second(tall, X, format)
    found: Any = T(X)
    found = found.todense() if format == "bcoo" else found
    np.testing.assert_allclose(found, jax.jit(jax.hessian(tall))(X), rtol=1e-11, atol=1e-12)
    assert T.shape == (3 * N - 1, N, N)
    assert T.nnz == 2 * (N - 1) + 2 * N


def test_points_may_be_trees_and_bad_formats_are_named() -> None:
    x = {"u": np.linspace(0.3, 2.0, 5), "v": np.array([1.5, 0.5])}
    T = sparse.second(tree, x, "dense")
    flat, restore = jax.flatten_util.ravel_pytree(x)
    wanted = jax.jit(jax.hessian(lambda z: jax.flatten_util.ravel_pytree(tree(restore(z)))[0]))(flat)
    np.testing.assert_allclose(T(x), wanted, atol=1e-12)
    with pytest.raises(ArgumentError, match="format must be"):
        sparse.third(chain, X, "csr")
