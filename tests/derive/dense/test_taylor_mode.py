"""Derivatives of any order along a line, and the operators made of them."""

import math
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import chainrule as cr
from chainrule.core.errors import ArgumentError
from tests.derive.dense.functions import W, forward_only, point
from tests.derive.dense.test_strategies import close

taylor = cr.derive.taylor


def test_the_exponential_of_the_book() -> None:
    found = taylor(lambda t: jnp.exp(2 * t), 0.5, 1.0, 3)
    np.testing.assert_allclose(found.derivatives, [2**k * math.e for k in range(4)], rtol=1e-12)
    assert found.method == "taylor"


def test_numbers_are_derivatives_and_not_divided_by_a_factorial() -> None:
    found = taylor(lambda x: x**4, 1.0, 1.0, 4).derivatives
    np.testing.assert_allclose(found, [1, 4, 12, 24, 24], rtol=1e-12)


def nested(f: Any, x: Any, v: Any, order: int) -> list[Any]:
    """The oracle: forward mode, again and again."""

    def slope(g: Any) -> Any:
        return lambda t: jax.jvp(g, (t,), (1.0,))[1]

    found, g = [f(x)], lambda t: f(jax.tree.map(lambda a, b: a + t * b, x, v))
    for _ in range(order):
        g = slope(g)
        found.append(g(0.0))
    return found


FUNCTIONS = {
    "polynomial": lambda x: (x[0] * x[1] - x[2] ** 3) ** 2,
    "elementary": lambda x: jnp.sin(x) * jnp.exp(-x) + jnp.cos(x) ** 2,
    "inverse": lambda x: jnp.arctan(x) + jnp.log(2 + x**2) / jnp.sqrt(1 + x**2),
    "squashed": lambda x: jnp.tanh(W[:3, :3] @ x) + jax.nn.sigmoid(x),
    "network": lambda x: W[:2, :3] @ jax.nn.softplus(W[:3, :3] @ x),
    "division": lambda x: x[::-1] / (1.5 + jnp.sin(x)),
    "power": lambda x: (1.5 + x**2) ** 1.5,
    "softmax": jax.nn.softmax,
    "gather": lambda x: x[jnp.array([0, 0, 2])] * jnp.concatenate([x[1:], x[:1]]),
    "scan": lambda x: jax.lax.scan(lambda h, _: (jnp.sin(h) * x, h), x, None, length=3)[0],
    "branch": lambda x: jnp.where(x > 0, x**3, jnp.sin(x)),
    "sorted": lambda x: jnp.sort(x) ** 3,
    "largest": lambda x: jnp.max(x**3),
    "solve": lambda x: jnp.linalg.solve(3 * jnp.eye(3) + jnp.outer(x, x), x),
    "absolute": lambda x: jnp.abs(x) ** 3,
    "error function": lambda x: jax.scipy.special.erf(x),
    "clipped": lambda x: jnp.clip(x, -0.1, 0.5) ** 2,
    "spectrum": lambda x: jnp.abs(jnp.fft.fft(x)) ** 3,
    "tree": lambda x: {"a": x[0] * x[1], "b": [jnp.cos(x)]},
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_every_order_is_that_of_nested_forward_mode(name: str) -> None:
    f, x, v = FUNCTIONS[name], point(3, seed=4), point(3, seed=5)
    found, expected = jax.jit(lambda x, v: (taylor(f, x, v, 4).derivatives, nested(f, x, v, 4)))(x, v)
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert jax.tree.structure(found[0]) == jax.tree.structure(jax.eval_shape(f, x))


def test_without_a_taylor_rule_the_answer_comes_by_nesting() -> None:
    x, v = np.full(2, 0.3), np.ones(2)
    found = taylor(forward_only, x, v, 2)
    assert found.method == "nested"
    close(list(found.derivatives), jax.jit(lambda x, v: nested(forward_only, x, v, 2))(x, v))


def test_a_rule_written_by_a_person_is_obeyed() -> None:
    straight = lambda x: x + jax.lax.stop_gradient(jnp.round(x) - x)  # noqa: E731

    @jax.custom_jvp
    def through(x: Any) -> Any:
        return jnp.round(x)

    through.defjvps(lambda t, y, x: t)
    found = taylor(lambda x: through(x) ** 3, 1.2, 1.0, 2)
    assert found.method == "nested"
    np.testing.assert_allclose(found.derivatives, [1.0, 3.0, 6.0], rtol=1e-12)
    np.testing.assert_allclose(taylor(lambda x: straight(x) ** 3, 1.2, 1.0, 2).derivatives, [1.0, 3.0, 6.0])


def test_a_function_that_branches_in_python_has_its_derivatives() -> None:
    branching = lambda x: x**3 if x > 0 else -x  # noqa: E731
    found = taylor(branching, 2.0, 1.0, 3)
    assert found.method == "taylor"
    np.testing.assert_allclose(found.derivatives, [8, 12, 12, 6], rtol=1e-12)
    slope = jax.grad(lambda x: taylor(branching, x, 1.0, 2).derivatives[2])(2.0)
    np.testing.assert_allclose(slope, 6, rtol=1e-12)
    vector = lambda x: jnp.sum(x**4) if x[0] > 0 else x.sum()  # noqa: E731
    np.testing.assert_allclose(cr.derive.laplacian(vector)(np.ones(2)), 24, rtol=1e-12)
    np.testing.assert_allclose(cr.derive.biharmonic(vector)(np.ones(2)), 48, rtol=1e-12)


def test_a_custom_reverse_rule_has_derivatives_of_every_order() -> None:
    @jax.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    cube.defvjp(
        lambda x: (cube(x), x), lambda x, u: (6 * x**2 * u,)
    )  # twice the slope, to tell whose rule it is
    for run in (taylor, jax.jit(taylor, static_argnums=(0, 3))):
        found = run(lambda x: cube(x) ** 2, 2.0, 1.0, 2)
        assert found.method == "nested"
        # f = c², f' = 2 c c', f'' = 2 c'² + 2 c c'' with c' = 6 x² and c'' = 12 x
        np.testing.assert_allclose(found.derivatives, [64, 2 * 8 * 24, 2 * 24**2 + 2 * 8 * 24], rtol=1e-12)
    total = cr.derive.laplacian(lambda x: jnp.sum(cube(x)))(np.array([1.0, 2.0]))
    np.testing.assert_allclose(total, 36, rtol=1e-12)


def test_an_order_without_a_rule_is_named() -> None:
    f = lambda x: jax.lax.igamma(x, x + 1)  # noqa: E731
    with pytest.raises(ArgumentError, match=r"taylor\(order=2\).*order 2.*igamma(.|\n)*order=1"):
        taylor(f, 1.5, 1.0, 2)
    assert len(taylor(f, 1.5, 1.0, 1).derivatives) == 2


@pytest.mark.parametrize("order", [0, 1, 6])
def test_any_order_of_the_sine(order: int) -> None:
    found = taylor(jnp.sin, 0.3, 2.0, order).derivatives
    cycle = [math.sin, math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x)]
    np.testing.assert_allclose(found, [2**k * cycle[k % 4](0.3) for k in range(order + 1)], rtol=1e-12)
    assert len(found) == order + 1


def test_trees_of_inputs_move_together() -> None:
    f = lambda p: jnp.sin(p["a"]) @ p["b"]  # noqa: E731
    p = {"a": point(2), "b": point(2, seed=2)}
    v = {"a": point(2, seed=3), "b": point(2, seed=4)}
    found, expected = jax.jit(lambda p, v: (taylor(f, p, v, 3).derivatives, nested(f, p, v, 3)))(p, v)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_mixed_partials_come_from_directions() -> None:
    f = lambda x: jnp.sin(x[0] * x[1]) * x[2] ** 2 + x[0] ** 3  # noqa: E731
    x = point(3)
    third = jax.jit(jax.jacfwd(jax.jacfwd(jax.jacfwd(f))))(x)
    e = np.eye(3)
    partial = jax.jit(lambda x, *directions: cr.derive.mixed_partial(f, x, directions))
    for i, j, k in ((0, 0, 0), (0, 1, 2), (2, 2, 1), (0, 0, 2)):
        found = partial(x, e[i], e[j], e[k])
        assert float(found) == pytest.approx(float(third[i, j, k]), rel=1e-9, abs=1e-9)
    assert float(cr.derive.mixed_partial(f, x, [])) == pytest.approx(float(f(x)))
    assert float(cr.derive.mixed_partial(f, x, [e[1]])) == pytest.approx(float(jax.grad(f)(x)[1]))


@given(n=st.integers(1, 5), seed=st.integers(0, 50))
@settings(max_examples=5)
def test_the_laplacian_of_a_gaussian_has_its_closed_form(n: int, seed: int) -> None:
    x = point(n, seed=seed)
    f = lambda x: jnp.exp(-(x @ x) / 2)  # noqa: E731
    r = float(x @ x)
    expected = (r - n) * math.exp(-r / 2)
    run = jax.jit(lambda x: [cr.derive.laplacian(f, chunk=chunk)(x) for chunk in (None, 1, 2)])
    np.testing.assert_allclose(run(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_biharmonic_of_a_gaussian_and_of_a_power_have_closed_forms(n: int) -> None:
    x = point(n, seed=n)
    r = float(x @ x)
    gaussian = jax.jit(cr.derive.biharmonic(lambda x: jnp.exp(-(x @ x) / 2)))(x)
    expected = (r**2 - 2 * (n + 2) * r + n * (n + 2)) * math.exp(-r / 2)
    assert float(gaussian) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    quartic = jax.jit(cr.derive.biharmonic(lambda x: (x @ x) ** 2))(x)
    assert float(quartic) == pytest.approx(8 * n * (n + 2), rel=1e-10)


def test_operators_keep_the_shapes_of_outputs() -> None:
    f = lambda p: {"field": jnp.outer(p["a"] ** 2, p["b"] ** 2), "sum": (p["a"] ** 2).sum()}  # noqa: E731
    p = {"a": point(2), "b": point(3)}
    found = jax.jit(cr.derive.laplacian(f))(p)
    close(found["field"], 2 * np.add.outer(p["a"] ** 2, p["b"] ** 2))
    close(found["sum"], np.asarray(4.0))
    close(jax.jit(cr.derive.biharmonic(f))(p)["field"], np.full((2, 3), 8.0))
    assert float(cr.derive.laplacian(lambda x: x.sum())(np.zeros(0))) == 0.0
    assert float(cr.derive.biharmonic(lambda x: x.sum())(np.zeros(0))) == 0.0


def test_operators_work_under_jit_and_grad() -> None:
    f = lambda x: jnp.sin(x).sum() ** 2  # noqa: E731
    x = point(3)
    value, slope = jax.jit(jax.value_and_grad(cr.derive.laplacian(f)))(x)
    trace, expected = jax.jit(jax.value_and_grad(lambda x: jnp.trace(jax.hessian(f)(x))))(x)
    close((value, slope), (trace, expected))
