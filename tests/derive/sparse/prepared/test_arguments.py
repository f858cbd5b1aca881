"""Derivatives with further arguments: other values of them, other arguments moved, extra results, complex points."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive import sparse, validation
from chainrule.derive.sparse import LocalPatternError, Pattern

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def reaction(x: Any, p: Any, t: Any) -> Any:
    """A band, switched and scaled by parameters."""
    return p["rate"] * jnp.diff(x**2) * jnp.cos(t) + p["switch"] * x[:-1] * x[-1]


X, T = np.linspace(0.5, 1.5, 6), 0.25
P = {"rate": np.linspace(1.0, 2.0, 5), "switch": np.zeros(5)}
dense = jax.jit(jax.jacfwd(reaction))


@pytest.fixture(scope="module")
def J() -> sparse.SparseDerivative:
    with jax.enable_x64(True):
        return sparse.jacobian(reaction, X, format="dense", args=(P, T))


def test_a_derivative_holds_for_every_value_of_its_arguments(J: sparse.SparseDerivative) -> None:
    np.testing.assert_allclose(J(X, P, T), dense(X, P, T), **CLOSE)
    on = {"rate": -P["rate"], "switch": np.ones(5)}  # entries that are zero at the values it was prepared at
    np.testing.assert_allclose(J(2 * X, on, np.float64(3.0)), dense(2 * X, on, 3.0), **CLOSE)
    J.verify(X, on, 1.0)
    assert J.pattern == sparse.detect(reaction, X, args=(P, T))
    assert J.pattern.nnz == 5 + 4 + 5


def test_other_values_of_arguments_compile_nothing() -> None:
    traces = []

    def f(x: Any, p: Any, t: Any) -> Any:
        traces.append(1)
        return jnp.sin(p * x) + t

    J = sparse.jacobian(f, X, format="csr", args=(X, T))
    before = len(traces)
    for step in range(3):
        p = X + step
        np.testing.assert_allclose(J(X, p, 0.1 * step).diagonal(), p * np.cos(p * X), **CLOSE)
    assert len(traces) == before


def test_random_keys_and_modules_are_arguments_like_others() -> None:
    noisy = lambda x, key: x * jax.random.normal(key, (6,))  # noqa: E731
    J = sparse.jacobian(noisy, X, args=(jax.random.key(0),), format="csr")
    np.testing.assert_allclose(J(X, jax.random.key(1)).diagonal(), jax.random.normal(jax.random.key(1), (6,)))
    layers = [
        eqx.nn.MLP(6, 2, 4, 1, dtype=float, key=jax.random.key(seed)) for seed in (0, 1)
    ]  # holds functions
    M = sparse.jacobian(lambda x, layer: layer(x), X, args=(layers[0],), format="dense")
    np.testing.assert_allclose(M(X, layers[1]), jax.jit(jax.jacfwd(layers[1]))(X), **CLOSE)


def test_an_index_among_the_arguments_counts_as_unknown() -> None:
    pick = lambda x, i: x[i] * x  # noqa: E731
    J = sparse.jacobian(pick, X, format="dense", args=(jnp.asarray(0),))
    assert J.pattern.nnz == 36
    np.testing.assert_allclose(J(X, jnp.asarray(4)), jax.jacfwd(pick)(X, 4), **CLOSE)
    assert sparse.detect(pick, X, args=(0,)).nnz == 11  # Python's whole numbers are part of the program


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, P), r"called with 2 arguments, it was prepared for 3 \(x and 2 more\)"),
        ((X, P, "now"), r"args\[1\] is str, not a number"),
        ((X, {"rate": P["rate"]}, T), "structure"),
        ((X, {**P, "rate": np.ones(4)}, T), r"args\[0\]\['rate'\] has shape \(4,\)"),
        (
            (X, P, np.float32(1.0)),
            r"args\[1\] has shape \(\) and type float32, it was prepared for .* float64",
        ),
        ((X, P, 1j), r"args\[1\] .* complex128"),
    ],
)
def test_arguments_of_another_kind_are_refused(
    J: sparse.SparseDerivative, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        J(*arguments)


def test_what_is_part_of_the_program_may_not_change() -> None:
    f = lambda x, how, n: how(x) ** n  # noqa: E731
    J = sparse.jacobian(f, X, format="csr", args=(jnp.sin, 3))
    np.testing.assert_allclose(J(X, jnp.sin, 3).diagonal(), 3 * np.sin(X) ** 2 * np.cos(X), **CLOSE)
    with pytest.raises(ArgumentError, match=r"args\[1\] is 2, it was prepared for 3"):
        J(X, jnp.sin, 2)
    with pytest.raises(ArgumentError, match=r"args\[0\] is"):
        J(X, jnp.cos, 3)
    with pytest.raises(ArgumentError, match=r"args=\(p,\)"):
        sparse.jacobian(f, X, args=X)


def test_a_number_of_pythons_takes_the_precision_of_the_point() -> None:
    x = X.astype(np.float32)
    J = sparse.jacobian(lambda x, t: x * t, x, format="values", args=(1.0,))
    assert J(x, 2.0).dtype == np.float32
    with pytest.raises(ArgumentError, match=r"args\[0\] has shape \(\) and type float"):
        sparse.jacobian(lambda x, k: x[k], x, args=(jnp.asarray(1),))(x, 1.5)


@pytest.mark.parametrize("argnums", [0, 1, -1, (2, 0)])
def test_any_arguments_can_be_differentiated(argnums: Any) -> None:
    f = lambda x, p, t: p * jnp.diff(x**2) * t  # noqa: E731
    given = (X, np.linspace(1.0, 2.0, 5), np.array([0.5]))
    J = sparse.jacobian(f, given[0], format="dense", args=given[1:], argnums=argnums)
    blocks = jax.jit(jax.jacfwd(f, argnums))(*given)
    np.testing.assert_allclose(J(*given), jnp.hstack(jax.tree.leaves(blocks)), **CLOSE)
    for wrong in (3, "x", 1.0, (0, "x")):
        with pytest.raises(ArgumentError, match=r"argnums="):
            validation.argument("jacobian", given, wrong)


def test_a_hessian_with_arguments_and_an_extra_result() -> None:
    def f(x: Any, p: Any) -> Any:
        y = p * jnp.diff(x**3)
        return jnp.sum(y**2), {"slopes": y}

    H = sparse.hessian(f, X, format="csr", args=(P["rate"],), has_aux=True)
    p = -P["rate"]
    matrix, extra = H(X, p)
    wanted = jax.jit(jax.hessian(lambda x: f(x, p)[0]))(X)
    np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(extra["slopes"], p * np.diff(X**3))
    (gradient, extra), _ = H.value_and_jacobian(X, p)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: f(x, p)[0])(X))
    np.testing.assert_allclose(H.matrix(H.values(X, p)).toarray(), matrix.toarray())
    H.verify(X, p)


@pytest.mark.parametrize("method", ["column", "row", "bidirectional"])
def test_what_a_function_returns_beside_its_value_comes_back(method: str) -> None:
    f = lambda x: (jnp.diff(x**2), jnp.sum(x))  # noqa: E731
    J = sparse.jacobian(f, X, method, "dense", has_aux=True)
    matrix, total = J(X)
    np.testing.assert_allclose(matrix, jax.jacfwd(f, has_aux=True)(X)[0], **CLOSE)
    np.testing.assert_allclose(total, X.sum())
    batch, totals = jax.vmap(J)(np.stack([X, 2 * X]))
    assert (batch.shape, totals.shape) == ((2, 5, 6), (2,))
    with pytest.raises(ArgumentError, match=r"must return \(value, extra\)"):
        sparse.jacobian(jnp.sin, X, has_aux=True)
    with pytest.raises(ArgumentError, match=r"extra\[0\] is str"):
        sparse.jacobian(lambda x: (x, ["label"]), X, has_aux=True)


@pytest.mark.parametrize("method", ["column", "row", "bidirectional"])
def test_holomorphic_functions_of_complex_points(method: str) -> None:
    f = lambda z: jnp.concatenate([jnp.exp(1j * z[1:]) * z[:-1], z[:1] ** 3])  # noqa: E731
    z = X + 1j * X[::-1] ** 2
    J = sparse.jacobian(f, z, method, "dense", holomorphic=True)
    np.testing.assert_allclose(J(z), jax.jit(jax.jacfwd(f, holomorphic=True))(z), **CLOSE)
    assert J.report.certificate
    J.verify(1j * z)


def test_the_hessian_of_a_holomorphic_function() -> None:
    f = lambda z, a: jnp.sum(a * z[1:] ** 2 * z[:-1])  # noqa: E731
    z, a = X + 1j, np.arange(5.0) + 2j
    H = sparse.hessian(f, z, format="dense", holomorphic=True, args=(a,))
    np.testing.assert_allclose(H(z, a), jax.jit(jax.hessian(f, holomorphic=True))(z, a), **CLOSE)


def test_complex_points_need_to_be_declared_and_real_ones_refuse_it() -> None:
    with pytest.raises(ArgumentError, match="holomorphic=True"):
        sparse.jacobian(jnp.sin, X + 1j)
    with pytest.raises(ArgumentError, match="holomorphic=True"):
        sparse.detect(jnp.sin, X + 1j)
    with pytest.raises(ArgumentError, match="not complex"):
        sparse.jacobian(jnp.sin, X, holomorphic=True)
    with pytest.raises(ArgumentError, match="a holomorphic function is complex"):
        sparse.jacobian(jnp.abs, X + 1j, holomorphic=True)
    parts = {"re": X, "im": X}  # what the message recommends otherwise
    J = sparse.jacobian(lambda z: jnp.abs(z["re"] + 1j * z["im"]), parts, format="dense")
    assert J.pattern.shape == (6, 12)


def test_arguments_that_are_traced_have_no_numbers_to_check_with() -> None:
    product = lambda x, p: x * p  # noqa: E731

    @jax.jit
    def inside(p: Any) -> Any:
        with pytest.raises(CapabilityError, match="args are traced"):
            sparse.jacobian(product, X, args=(p,))
        J = sparse.jacobian(product, X, args=(p,), certify=False, format="dense")
        assert J.report.peak_bytes is None
        return J(X, p)

    np.testing.assert_allclose(inside(2.0), 2 * np.eye(6))


def test_a_local_pattern_is_held_against_the_arguments_too() -> None:
    f = lambda x, gate: jnp.where(gate > 0, x**2, x[::-1] * x)  # noqa: E731
    J = sparse.jacobian(f, X, format="csr", local=True, args=(1.0,))
    assert J.pattern == Pattern(range(6), range(6), (6, 6))
    J(X, 2.0)
    with pytest.raises(LocalPatternError):
        J(X, -1.0)


def test_batches_over_some_arguments_and_derivatives_in_them(J: sparse.SparseDerivative) -> None:
    times = np.array([0.1, 0.2])
    batch = jax.vmap(J, (None, None, 0))(X, P, times)
    np.testing.assert_allclose(batch[1], dense(X, P, 0.2), **CLOSE)
    slope = jax.jit(jax.grad(lambda t: jnp.sum(J(X, P, t) ** 2)))(T)
    np.testing.assert_allclose(
        slope, jax.jit(jax.grad(lambda t: jnp.sum(dense(X, P, t) ** 2)))(T), rtol=1e-10
    )


def test_a_saved_derivative_keeps_its_arguments(J: sparse.SparseDerivative, tmp_path: Path) -> None:
    J.save(tmp_path / "j.npz")
    again = sparse.load(tmp_path / "j.npz", reaction)
    assert np.array_equal(again(X, P, 0.5), J(X, P, 0.5))
    given = sparse.load(tmp_path / "j.npz", reaction, X, (P, T))
    assert np.array_equal(given(X, P, 0.5), J(X, P, 0.5))
    with pytest.raises(sparse.StorageError, match="leaves"):
        sparse.load(tmp_path / "j.npz", reaction, X, ({**P, "rate": np.ones(3)}, T))


def _stepped(x: Any, how: Callable[..., Any], n: int) -> Any:
    return how(x[1:]) * x[:-1] ** n, n * jnp.sum(x)


def test_a_saved_derivative_with_functions_among_its_arguments_needs_them_again(tmp_path: Path) -> None:
    J = sparse.jacobian(_stepped, X, args=(jnp.tanh, 2), has_aux=True, format="dense")
    J.save(tmp_path / "j.npz")
    with pytest.raises(ArgumentError, match=r"load\(path, f, x"):
        sparse.load(tmp_path / "j.npz", _stepped)
    again = sparse.load(tmp_path / "j.npz", _stepped, X, (jnp.tanh, 2))
    assert np.array_equal(again(X, jnp.tanh, 2)[0], J(X, jnp.tanh, 2)[0])
    with pytest.raises(sparse.StorageError, match="another function"):
        sparse.load(tmp_path / "j.npz", _stepped, X, (jnp.sinh, 2))


def test_the_report_tells_certificate_memory_and_batch(J: sparse.SparseDerivative) -> None:
    report = J.report
    assert "plain products" in report.certificate
    assert report.chunk == sum(report.products.values())
    assert report.result_bytes == J.pattern.nnz * 8
    assert report.peak_bytes is not None
    assert report.peak_bytes >= 5 * 6 * 8
    for word in ("memory", "certified", "in batches of"):
        assert word in str(report)
    assert sparse.jacobian(jnp.sin, X, certify=False).report.certificate == ""
    assert set(report.to_json()) >= {"certificate", "chunk", "peak_bytes", "result_bytes"}
