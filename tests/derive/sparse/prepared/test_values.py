"""Prepared sparse derivatives equal dense ones, in every method, format and transformation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import JAXSparse

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive import sparse
from chainrule.derive.sparse import compressed_products
from chainrule.derive.sparse.formats import FORMATS
from tests.derive.sparse.prepared import functions
from tests.derive.sparse.prepared.functions import HESSIANS, JACOBIANS

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("name", JACOBIANS)
@pytest.mark.parametrize("method", ["auto", "column", "row", "bidirectional"])
def test_a_sparse_jacobian_equals_the_dense_one(name: str, method: str) -> None:
    f, x = JACOBIANS[name]
    J = sparse.jacobian(f, x, method, "dense")
    np.testing.assert_allclose(J(x), functions.dense_jacobian(f, x), **CLOSE)
    J.coloring.check()
    elsewhere = jax.tree.map(lambda a: np.asarray(a) * 1.25, x)
    np.testing.assert_allclose(J(elsewhere), functions.dense_jacobian(f, elsewhere), **CLOSE)
    J.verify(elsewhere)


@pytest.mark.parametrize("name", HESSIANS)
@pytest.mark.parametrize("method", ["auto", "star", "acyclic", "column"])
def test_a_sparse_hessian_equals_the_dense_one(name: str, method: str) -> None:
    f, x = HESSIANS[name]
    H = sparse.hessian(f, x, method, "dense")
    np.testing.assert_allclose(H(x), functions.dense_hessian(f, x), rtol=1e-11, atol=1e-11)
    H.verify(x)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))])
def test_substitution_solves_random_symmetric_matrices(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n = 30
    full = draw.standard_normal((n, n)) * (draw.random((n, n)) < 0.1)
    full = full + full.T
    found = {}
    for method in ("star", "acyclic", "column"):
        H = sparse.hessian(
            lambda z: 0.5 * z @ jnp.asarray(full) @ z,
            np.ones(n),
            method,
            "dense",
            pattern=functions.pattern_of(full),
        )
        np.testing.assert_allclose(H(np.ones(n)), full, rtol=1e-10, atol=1e-12)
        found[method] = sum(H.report.products.values())
    assert found["acyclic"] <= found["star"]


def test_substitution_in_both_directions_gives_a_jacobian_with_fewer_products() -> None:
    draw = np.random.default_rng(9)
    full = (draw.random((18, 20)) < 0.2) * draw.standard_normal((18, 20))
    pattern = functions.pattern_of(full)
    counts = {}
    for method in ("bidirectional", "bidirectional-acyclic"):
        J = sparse.jacobian(lambda z: jnp.asarray(full) @ z, np.ones(20), method, "dense", pattern=pattern)
        np.testing.assert_allclose(J(np.ones(20)), full, rtol=1e-10, atol=1e-12)
        counts[method] = sum(J.report.products.values())
    assert J.report.depth > 0
    assert counts["bidirectional-acyclic"] < counts["bidirectional"]


def test_a_long_two_coloured_path_is_solved_in_few_rounds() -> None:
    n = 300
    H = sparse.hessian(functions.chain, np.linspace(0.5, 1.5, n), "acyclic", "csr")
    assert H.report.products == {"second-order": 2}
    assert H.report.depth >= n // 2 - 1
    dense = functions.dense_hessian(functions.chain, np.linspace(0.5, 1.5, n))
    np.testing.assert_allclose(H(np.linspace(0.5, 1.5, n)).toarray(), dense, rtol=1e-9, atol=1e-9)


def test_the_textbook_path_needs_two_products_by_substitution_and_three_directly() -> None:
    full = np.array([[1.0, 2, 3, 0], [2, 4, 0, 5], [3, 0, 6, 0], [0, 5, 0, 7]])
    pattern = functions.pattern_of(full)
    counts = {}
    for method in ("column", "star", "acyclic"):
        H = sparse.hessian(
            lambda z: 0.5 * z @ jnp.asarray(full) @ z, np.ones(4), method, "dense", pattern=pattern
        )
        np.testing.assert_allclose(H(np.ones(4)), full)
        counts[method] = H.report.products["second-order"]
        assert H.report.depth == (1 if method == "acyclic" else 0)
    assert counts == {"column": 3, "star": 3, "acyclic": 2}


def test_colours_that_nothing_is_read_from_cost_no_product() -> None:
    swapped = sparse.hessian(lambda z: z[0] * z[1], np.ones(2))
    assert swapped.report.products == {"second-order": 1}
    star = sparse.hessian(lambda z: z[0] * jnp.sum(z[1:]), np.ones(6), "star", "dense")
    assert (star.coloring.num_colors, star.report.products) == (2, {"second-order": 1})
    np.testing.assert_allclose(star(np.ones(6))[0], [0, 1, 1, 1, 1, 1])


@pytest.fixture(scope="module")
def arrows() -> dict[str, sparse.SparseDerivative]:
    """One derivative in every format."""
    f, x = JACOBIANS["arrow"]
    with jax.enable_x64(True):
        return {format: sparse.jacobian(f, x, format=format) for format in FORMATS}


@jax.jit
def filled(matrix: Any) -> jax.Array:
    return matrix.todense()


@jax.jit
def arrow_jacobians(batch: jax.Array) -> jax.Array:
    return jax.vmap(jax.jacfwd(functions.arrow))(batch)


def test_formats_hold_the_same_numbers_in_the_order_of_the_pattern(
    arrows: dict[str, sparse.SparseDerivative],
) -> None:
    f, x = JACOBIANS["arrow"]
    dense = np.asarray(functions.dense_jacobian(f, x))
    pattern = arrows["values"].pattern
    np.testing.assert_allclose(arrows["values"](x), dense[pattern.rows, pattern.cols])
    for format in ("bcoo", "bcsr"):
        np.testing.assert_allclose(filled(arrows[format](x)), dense)
        assert arrows[format](x).unique_indices
    for format in ("csr", "csc"):
        assert arrows[format](x).format == format
        assert arrows[format](x).has_canonical_format
        np.testing.assert_allclose(arrows[format](x).toarray(), dense)
    np.testing.assert_allclose(arrows["dense"](x), dense)


def test_values_and_matrices_made_of_them_serve_every_format_and_transformation(
    arrows: dict[str, sparse.SparseDerivative],
) -> None:
    f, x = JACOBIANS["arrow"]
    batch = np.stack([x, 2 * x])
    wanted = np.asarray(arrow_jacobians(batch))
    slope = jax.jit(jax.grad(lambda z: jnp.sum(jax.jacfwd(f)(z) ** 2)))(x)
    for J in arrows.values():
        both = jax.jit(jax.vmap(J.values))(batch)
        rows = np.asarray(both)
        assert both.shape == (2, J.pattern.nnz)
        for values, dense in zip(rows, wanted, strict=True):
            made = J.matrix(jnp.asarray(values))
            made = filled(made) if isinstance(made, JAXSparse) else made
            made = made.toarray() if scipy.sparse.issparse(made) else made
            expected = dense[J.pattern.rows, J.pattern.cols] if J.format == "values" else dense
            np.testing.assert_allclose(np.asarray(made), expected, **CLOSE)
        np.testing.assert_allclose(
            jax.jit(jax.grad(lambda z, J=J: jnp.sum(J.values(z) ** 2)))(x), slope, **CLOSE
        )
    with pytest.raises(ArgumentError, match=r"\(2, \d+\) values for a pattern of"):
        arrows["csr"].matrix(both)


@pytest.mark.parametrize("format", ["bcoo", "bcsr"])
def test_a_batch_of_points_gives_a_batch_of_jax_matrices(
    arrows: dict[str, sparse.SparseDerivative], format: str
) -> None:
    _, x = JACOBIANS["arrow"]
    batch = np.stack([x, 2 * x])
    made = jax.vmap(arrows[format])(batch)
    assert made.shape == (2, 12, 12)
    np.testing.assert_allclose(filled(made), arrow_jacobians(batch), **CLOSE)


@pytest.mark.parametrize("method", ["star", "acyclic", "column"])
def test_one_triangle_of_a_hessian_can_be_had(method: str) -> None:
    f, x = HESSIANS["hub"]
    dense = functions.dense_hessian(f, x)
    for part, cut in (("lower", np.tril), ("upper", np.triu)):
        H = sparse.hessian(f, x, method, "csc", part=part)
        np.testing.assert_allclose(H(x).toarray(), cut(dense), rtol=1e-11, atol=1e-11)
        assert H.pattern.nnz == (H.coloring.pattern.nnz + len(x)) // 2
        H.verify(x)
    with pytest.raises(ArgumentError, match="part must be"):
        sparse.hessian(f, x, part="left")


@pytest.mark.parametrize("method", ["column", "row", "bidirectional"])
def test_a_prepared_derivative_can_be_transformed(method: str) -> None:
    f, x = JACOBIANS["arrow"]
    J = sparse.jacobian(f, x, method, "dense")
    np.testing.assert_allclose(jax.jit(J)(x), J(x))
    batch = np.stack([x, 2 * x])
    np.testing.assert_allclose(jax.vmap(J)(batch), np.stack([J(x), J(2 * x)]))
    weights = np.cos(np.arange(float(x.size)))
    slope = jax.jit(jax.grad(lambda z: jnp.sum(jnp.sin(J(z)) @ weights)))(x)
    wanted = jax.jit(jax.grad(lambda z: jnp.sum(jnp.sin(jax.jacfwd(f)(z)) @ weights)))(x)
    np.testing.assert_allclose(slope, wanted, **CLOSE)


def test_a_bcoo_matrix_comes_out_of_a_compiled_function() -> None:
    f, x = JACOBIANS["brusselator"]
    J = sparse.jacobian(f, x)
    v = jnp.arange(32.0)
    np.testing.assert_allclose(
        jax.jit(lambda z: J(z) @ v)(x), jax.jit(lambda z: jax.jvp(f, (z,), (v,))[1])(x)
    )


def test_value_and_jacobian_come_together() -> None:
    f, x = JACOBIANS["tree"]
    y, matrix = sparse.jacobian(f, x, format="dense").value_and_jacobian(x)
    jax.tree.map(np.testing.assert_allclose, y, jax.jit(f)(x))
    np.testing.assert_allclose(matrix, functions.dense_jacobian(f, x))
    gradient, hessian = sparse.hessian(functions.chain, np.ones(4), format="dense").value_and_jacobian(
        np.ones(4)
    )
    np.testing.assert_allclose(gradient, jax.jit(jax.grad(functions.chain))(np.ones(4)))
    assert hessian.shape == (4, 4)


def test_a_function_is_traced_a_fixed_number_of_times_and_never_again() -> None:
    traces = []

    def f(z: jax.Array) -> jax.Array:
        traces.append(1)
        return jnp.diff(z**2)

    J = sparse.jacobian(f, np.ones(6), format="values")
    before = len(traces)
    assert before <= 5
    for step in range(5):
        J(np.ones(6) * step)
    assert len(traces) == before


def test_a_scipy_matrix_cannot_be_made_inside_a_transformation() -> None:
    J = sparse.jacobian(jnp.sin, np.ones(3), format="csr")
    with pytest.raises(CapabilityError, match="inside jit"):
        jax.jit(lambda z: J(z).data)(jnp.ones(3))


def test_seeds_that_are_arguments_or_made_batch_by_batch_give_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, x = JACOBIANS["arrow"]
    wanted = functions.dense_jacobian(f, x)
    monkeypatch.setattr(compressed_products, "_MOST_CONSTANT", {2**31: 0})
    for most in (2**26, 13):  # all seeds at once; one seed of twelve numbers at a time
        monkeypatch.setattr(compressed_products, "_MOST_AT_ONCE", most)
        J = sparse.jacobian(f, x, "bidirectional", "dense")
        np.testing.assert_allclose(J(x), wanted, **CLOSE)
        np.testing.assert_allclose(jax.jit(J)(jnp.asarray(x)), wanted, **CLOSE)


def test_single_precision_is_kept() -> None:
    x = np.linspace(0.5, 1.5, 32, dtype=np.float32)
    J = sparse.jacobian(functions.brusselator(4), x, format="values")
    assert J(x).dtype == np.float32
    J.verify(x)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_nothing_in_gives_nothing_out(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    J = sparse.jacobian(lambda z: z**2, x, format="csr")
    assert J(x).shape == (0, 0)
    assert J.report.products == {}
    assert sparse.hessian(lambda z: jnp.sum(z), np.ones(3), format="csr")(np.ones(3)).nnz == 0
    constant = sparse.jacobian(lambda z: jnp.ones(2), np.ones(3), format="dense")
    assert not constant(np.ones(3)).any()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_half_precision_becomes_single_in_scipys_matrices(dtype: Any, format: str) -> None:
    x = jnp.arange(1.0, 4.0, dtype=dtype)
    found = sparse.jacobian(lambda z: jnp.diff(z * z), x, format=format)(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), [[-2.0, 4.0, 0.0], [0.0, -4.0, 6.0]])
