"""Prepared derivatives are ordinary JAX functions: under jit, vmap and further derivatives, in any precision."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from tests.derive.dense.functions import point
from tests.derive.dense.test_strategies import close


def field(x: Any) -> Any:
    return jnp.sin(x) * x[::-1] ** 2


def number(x: Any) -> Any:
    return jnp.sum(field(x)) ** 2


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_jacobian_is_the_same_under_jit_and_vmap(chunk: int | None) -> None:
    J = cr.derive.jacobian(field, chunk=chunk)
    xs = point(4, 3)
    expected = np.stack([J(x) for x in xs])
    close(jax.jit(J)(xs[0]), expected[0])
    close(jax.vmap(J)(xs), expected)
    close(jax.jit(jax.vmap(J))(xs), expected)


@pytest.mark.parametrize("strategy", ["auto", *cr.derive.STRATEGIES])
def test_a_hessian_is_the_same_under_jit_and_vmap(strategy: str) -> None:
    H = cr.derive.hessian(number, strategy, chunk=2)
    xs = point(3, 3)
    expected = np.stack([H(x) for x in xs])
    close(jax.jit(jax.vmap(H))(xs), expected)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("chunk", [None, 2])
def test_derivatives_of_a_jacobian_are_higher_derivatives(mode: str, chunk: int | None) -> None:
    J = cr.derive.jacobian(field, mode, chunk)
    x = point(3)
    expected = jax.jit(jax.hessian(field))(x)
    close(jax.jit(jax.jacfwd(J))(x), expected)
    close(jax.jit(jax.jacrev(J))(x), expected)


def test_jacobians_nest() -> None:
    x = point(3)
    close(cr.derive.jacobian(cr.derive.jacobian(field))(x), jax.jit(jax.hessian(field))(x))
    third = jax.jit(jax.jacfwd(jax.hessian(number)))(x)
    close(cr.derive.jacobian(cr.derive.hessian(number))(x), third)


def test_a_loss_may_contain_a_jacobian() -> None:
    f = lambda x: (cr.derive.jacobian(field, chunk=1)(x) ** 2).sum()  # noqa: E731
    g = lambda x: (jax.jacfwd(field)(x) ** 2).sum()  # noqa: E731
    x = point(3)
    close(jax.jit(cr.derive.gradient(f))(x), jax.jit(jax.grad(g))(x))
    close(cr.derive.hessian(f)(x), jax.jit(jax.hessian(g))(x))


def test_products_work_under_jit_and_vmap() -> None:
    x, vs = point(3), point(5, 3, seed=2)
    J, H = jax.tree.map(np.asarray, jax.jit(lambda x: (jax.jacfwd(field)(x), jax.hessian(number)(x)))(x))
    close(jax.jit(jax.vmap(lambda v: cr.derive.jvp(field, x, v)[1]))(vs), vs @ J.T)
    close(jax.jit(jax.vmap(lambda u: cr.derive.vjp(field, x)[1](u)))(vs), vs @ J)
    _, push = cr.derive.linearize(field, x)
    close(jax.vmap(push)(vs), vs @ J.T)
    for found in jax.jit(jax.vmap(lambda v: [cr.derive.hvp(number, s)(x, v) for s in cr.derive.STRATEGIES]))(
        vs
    ):
        close(found, vs @ H)
    forms = jax.jit(jax.vmap(lambda v: cr.derive.quadratic(number)(x, v, v)))(vs)
    close(forms, np.einsum("ki,ij,kj->k", vs, H, vs))


def test_second_order_of_products_is_their_derivative() -> None:
    x, v = point(3), point(3, seed=2)
    expected = np.asarray(jax.jit(jax.hessian(number))(x))
    close(jax.jit(jax.jacfwd(cr.derive.gradient(number)))(x), expected)
    push = lambda x: cr.derive.jvp(number, x, v)[1]  # noqa: E731
    close(jax.jit(cr.derive.gradient(push))(x), expected @ v)


def test_single_precision_stays_single() -> None:
    with jax.enable_x64(False):
        x = jnp.asarray(point(3), jnp.float32)
        for found in (
            cr.derive.jacobian(field)(x),
            cr.derive.hessian(number)(x),
            cr.derive.gradient(number)(x),
            cr.derive.jvp(field, x, x)[1],
        ):
            assert found.dtype == jnp.float32
        np.testing.assert_allclose(cr.derive.jacobian(field)(x), jax.jit(jax.jacfwd(field))(x), rtol=1e-5)


def test_half_precision_is_differentiated_too() -> None:
    x = jnp.ones(3, jnp.bfloat16)
    assert cr.derive.jacobian(lambda x: x**2)(x).dtype == jnp.bfloat16
    close(cr.derive.hessian(lambda x: (x**3).sum())(x).astype(float), 6 * np.eye(3))


def test_numbers_and_numpy_arrays_are_points_too() -> None:
    J = cr.derive.jacobian(lambda x: x**2)
    assert float(J(3.0)) == 6.0
    assert float(J(np.float64(3.0))) == 6.0
    close(J(np.array([1.0, 2.0])), np.diag([2.0, 4.0]))
    close(J(jnp.array([1.0, 2.0])), np.diag([2.0, 4.0]))


def test_a_holomorphic_function_has_a_complex_jacobian() -> None:
    f = lambda z: jnp.stack([z[0] * z[1], jnp.exp(z[0])])  # noqa: E731
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    expected = np.array([[z[1], z[0]], [np.exp(z[0]), 0.0]])
    for mode in ("auto", "forward", "reverse"):
        close(cr.derive.jacobian(f, mode, holomorphic=True)(z), expected)
    close(
        cr.derive.gradient(lambda z: z[0] ** 2 * z[1], holomorphic=True)(z),
        np.stack([2 * z[0] * z[1], z[0] ** 2]),
    )
    v = np.array([1.0j, 2.0])
    close(cr.derive.jvp(f, z, v, holomorphic=True)[1], expected @ v)
    close(cr.derive.vjp(f, z, holomorphic=True)[1](v), v @ expected)
    close(cr.derive.linearize(f, z, holomorphic=True)[1](v), expected @ v)


def test_complex_outputs_of_real_inputs_have_both_parts_in_every_mode() -> None:
    f = lambda x: {"wave": jnp.exp(1j * x), "plain": x.sum()}  # noqa: E731
    x = point(3)
    for mode in ("auto", "forward", "reverse"):
        J = cr.derive.jacobian(f, mode)(x)
        close(J["wave"], np.diag(1j * np.exp(1j * x)))
        assert J["plain"].dtype == jnp.float64
        close(J["plain"], np.ones(3))
    rows = [block for _, block in cr.derive.jacobian_blocks(lambda x: jnp.exp(1j * x), x, rows=2)]
    close(np.concatenate(rows), np.diag(1j * np.exp(1j * x)))


def test_other_arguments_may_be_anything() -> None:
    def f(x: Any, power: int, name: str, scale: float, how: Any) -> Any:
        return {"square": how(x) ** power}[name] * scale

    J = cr.derive.jacobian(f)
    close(J(np.ones(2), 3, "square", 2.0, jnp.sin), np.diag([6 * np.sin(1.0) ** 2 * np.cos(1.0)] * 2))
    close(J(np.ones(2), 2, "square", 1.0, jnp.cos), np.diag([-2 * np.sin(1.0) * np.cos(1.0)] * 2))
    assert J.report.compiled


def test_a_number_that_only_scales_does_not_compile_again() -> None:
    traces = []

    def f(x: Any, scale: float) -> Any:
        traces.append(1)
        return x * scale

    J = cr.derive.jacobian(f, "forward")
    J(np.ones(2), 2.0)
    count = len(traces)
    for scale in (3.0, 4.0):
        close(J(np.ones(2), scale), scale * np.eye(2))
    assert len(traces) == count


def test_blocks_of_rows_make_up_the_jacobian() -> None:
    tree = {"a": point(2), "b": point(3)}
    f = lambda t: (t["a"].sum() * t["b"], t["a"] ** 2)  # noqa: E731
    parts = list(cr.derive.jacobian_blocks(f, tree, rows=2))
    assert [part.stop - part.start for part, _ in parts] == [2, 2, 1]
    J = jax.jit(jax.jacrev(f))(tree)
    expected = np.concatenate(
        [
            np.concatenate([np.asarray(row[k]).reshape(-1, row[k].shape[-1]) for k in "ab"], axis=1)
            for row in J
        ]
    )
    close(np.concatenate([block for _, block in parts]), expected)
