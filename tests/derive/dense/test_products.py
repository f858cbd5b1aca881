"""Products and gradients: several arguments, extra outputs, values beside derivatives."""

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


def model(w: Any, x: Any, *, power: int = 2) -> Any:
    return (w @ x) ** power


W, X = point(3), point(3, seed=2)


def test_gradients_take_any_argument_and_keywords() -> None:
    close(d.gradient(model)(W, X), 2 * (W @ X) * X)
    close(d.gradient(model, 1)(W, X), 2 * (W @ X) * W)
    close(d.gradient(model, -1)(W, X, power=3), 3 * (W @ X) ** 2 * W)
    both = d.gradient(model, (0, 1))(W, X)
    close(both, (2 * (W @ X) * X, 2 * (W @ X) * W))


def test_values_and_extras_come_beside_the_gradient() -> None:
    value, grad = d.gradient(model, value=True)(W, X)
    close(value, np.asarray((W @ X) ** 2))
    close(grad, 2 * (W @ X) * X)
    extra = lambda w, x: (model(w, x), {"n": 3, "wx": w @ x})  # noqa: E731
    grad, found = d.gradient(extra, has_aux=True)(W, X)
    close(grad, 2 * (W @ X) * X)
    assert found["n"] == 3
    (value, found), grad = d.gradient(extra, has_aux=True, value=True)(W, X)
    close(value, np.asarray((W @ X) ** 2))
    close(found["wx"], np.asarray(W @ X))
    close(grad, 2 * (W @ X) * X)


def test_products_return_extras_last() -> None:
    f = lambda x: (jnp.sin(x), x.sum())  # noqa: E731
    y, moved, extra = d.jvp(f, X, W, has_aux=True)
    close((y, moved, extra), (np.sin(X), np.cos(X) * W, np.asarray(X.sum())))
    y, pull, extra = d.vjp(f, X, has_aux=True)
    close((y, pull(W), extra), (np.sin(X), np.cos(X) * W, np.asarray(X.sum())))


def test_a_linear_map_is_made_once_and_applied_often() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return jnp.sin(x)

    _, push = d.linearize(f, X)
    for scale in (1.0, 2.0, 3.0):
        close(push(scale * W), scale * np.cos(X) * W)
    _, pull = d.vjp(f, X)
    pull(W)
    pull(X)
    assert len(calls) == 2


def test_directions_take_the_type_of_what_they_move() -> None:
    _, moved = d.jvp(lambda x: x**2, jnp.ones(2, jnp.float32), np.array([1, 2]))
    assert moved.dtype == jnp.float32
    close(d.vjp(lambda x: x**2, 3.0)[1](1), np.asarray(6.0))


def test_gradients_are_plain_jax_functions() -> None:
    slope = d.gradient(lambda x: jnp.sin(x))
    close(jax.vmap(slope)(X), np.cos(X))
    close(jax.jit(jax.vmap(d.gradient(slope)))(X), -np.sin(X))


def test_a_constant_has_slope_zero_in_every_way() -> None:
    assert float(d.gradient(lambda x: 3.0)(1.0)) == 0.0
    assert float(d.jvp(lambda x: jnp.asarray(3.0), 1.0, 1.0)[1]) == 0.0
    assert float(d.vjp(lambda x: jnp.asarray(3.0), 1.0)[1](1.0)) == 0.0
    assert float(d.jacobian(lambda x: 3.0)(1.0)) == 0.0
    assert float(d.hessian(lambda x: 3.0)(1.0)) == 0.0


def bend(x: Any, p: Any) -> Any:
    return p["a"] * jnp.sin(x) @ x


P = {"a": np.float64(1.5), "n": np.arange(3)}


def test_products_take_further_arguments_and_any_of_them_moves() -> None:
    wave = lambda x, a, t: a * jnp.sin(x * t)  # noqa: E731
    given = (X, W, 0.5)
    slopes = jax.jacfwd(wave, (0, 1, 2))(*given)
    for argnums, v in ((0, W), (1, X), (-1, 2.0)):
        rest = {"args": given[1:], "argnums": argnums}
        wanted = slopes[argnums] @ v if np.ndim(v) else slopes[argnums] * v
        close(d.jvp(wave, X, v, **rest)[1], wanted)
        close(d.linearize(wave, X, **rest)[1](v), wanted)
        close(d.vjp(wave, X, **rest)[1](W), W @ slopes[argnums])
    both = d.jvp(wave, X, (W, X), args=given[1:], argnums=(0, 1))[1]
    close(both, slopes[0] @ W + slopes[1] @ X)
    blocks = [block for _, block in d.jacobian_blocks(wave, X, 2, args=given[1:], argnums=1)]
    close(np.concatenate(blocks), slopes[1])
    for call in (d.vjp, d.linearize, d.jacobian_blocks):
        with pytest.raises(ArgumentError, match=r"args=\(p,\)"):
            call(wave, X, args=W)


def test_directions_come_in_batches() -> None:
    f = lambda x: {"y": jnp.sin(x["a"]) * x["b"]}  # noqa: E731
    x = {"a": X, "b": np.float64(2.0)}
    many = {"a": np.stack([W, X]), "b": np.array([1.0, -1.0])}
    y, changes = d.jvp(f, x, many, batch=True)
    for number in range(2):
        one = jax.tree.map(lambda a, number=number: a[number], many)
        close(changes["y"][number], jax.jvp(f, (x,), (one,))[1]["y"])
    close(d.linearize(f, x, batch=True)[1](many)["y"], changes["y"])
    pulled = d.vjp(f, x, batch=True)[1]({"y": np.stack([W, X])})
    close(pulled["a"][1], jax.vjp(f, x)[1]({"y": X})[0]["a"])
    close(y["y"], np.sin(X) * 2.0)
    with pytest.raises(ArgumentError, match="batch=True takes many"):
        d.jvp(jnp.sin, X, np.stack([W, X]))
    with pytest.raises(ArgumentError, match="one more axis"):
        d.jvp(jnp.sin, X, W, batch=True)
    with pytest.raises(ArgumentError, match=r"hold \[1, 2\] directions"):
        d.jvp(f, x, {**many, "b": np.ones(1)}, batch=True)
    assert d.jvp(lambda x: (x, 5), X, W, has_aux=True)[2] == 5
    assert d.jvp(lambda x: (x, 5), X, np.stack([W]), has_aux=True, batch=True)[2] == 5


@pytest.mark.parametrize("strategy", d.STRATEGIES)
def test_second_order_products_take_arguments_and_batches(strategy: str) -> None:
    full = np.asarray(jax.hessian(bend)(X, P))
    many = np.stack([W, X, W + X])
    close(d.hvp(bend, strategy)(X, W, P), full @ W)
    close(d.hvp(bend, strategy, batch=True)(X, many, P), many @ full)
    flipped = lambda p, x: bend(x, p)  # noqa: E731
    close(d.hvp(flipped, strategy, argnums=1)(P, W, X), full @ W)


def test_vectors_times_the_hessian() -> None:
    full = np.asarray(jax.hessian(bend)(X, P))
    many = np.stack([W, X])
    close(d.vhp(bend)(X, W, P), W @ full)
    close(d.vhp(bend, batch=True)(X, many, P), many @ full)
    close(d.quadratic(bend)(X, W, X, P), X @ full @ W)
    with pytest.raises(ArgumentError, match="not one number"):
        d.vhp(jnp.sin)(X, W)


TAKE_ARGNUMS = [
    lambda f, n: d.jvp(f, n, 1.0),
    lambda f, n: d.vjp(f, n),
    lambda f, n: d.linearize(f, n),
    lambda f, n: d.hvp(f)(n, 1.0),
    lambda f, n: d.vhp(f)(n, 1.0),
    lambda f, n: d.quadratic(f)(n, 1.0, 1.0),
    lambda f, n: d.jacobian_blocks(f, n),
    lambda f, n: d.gradient(f)(n),
    lambda f, n: d.jacobian(f)(n),
    lambda f, n: d.sparse.jacobian(f, n),
    lambda f, n: d.sparse.detect(f, n),
]
TAKE_NONE = [
    lambda f, n: d.taylor(f, n, 1.0, 2),
    lambda f, n: d.laplacian(f)(n),
    lambda f, n: d.check(f, n),
    lambda f, n: d.divergence(f)(n),
    lambda f, n: d.implicit.root(f)(n),
]


@pytest.mark.parametrize("call", [*TAKE_ARGNUMS, *TAKE_NONE])
def test_argnums_is_recommended_by_those_who_take_it(call: Any) -> None:
    with pytest.raises(ArgumentError, match="derivatives need floats") as error:
        call(lambda n: n * 2.0, 3)
    assert ("argnums" in str(error.value)) is (call in TAKE_ARGNUMS)


def test_extras_come_beside_dense_jacobians_and_hessians() -> None:
    f = lambda x, a: (jnp.sin(a * x), {"sum": x.sum(), "count": 3})  # noqa: E731
    J = d.jacobian(f, has_aux=True)
    for found, extra in (J(X, 2.0), jax.jit(J)(X, 2.0)):
        close(found, np.diag(2.0 * np.cos(2.0 * X)))
        close(extra, {"sum": np.asarray(X.sum()), "count": np.asarray(3)})
    assert J.report.mode == "forward"
    batched, extras = jax.vmap(lambda x: J(x, 2.0))(np.stack([X, W]))
    close(batched[1], np.diag(2.0 * np.cos(2.0 * W)))
    close(extras["sum"], np.array([X.sum(), W.sum()]))

    def branching(x: Any) -> Any:
        return (jnp.sum(x**3), x[0]) if x[0] > -10 else (jnp.sum(x), x[1])

    found, extra = d.hessian(branching, has_aux=True)(X)
    close(found, np.diag(6.0 * X))
    close(extra, np.asarray(X[0]))


@pytest.mark.parametrize("strategy", d.STRATEGIES)
def test_holomorphic_hessians_are_complex_second_derivatives(strategy: str) -> None:
    z = X + 1j * W
    found = d.hessian(lambda z: jnp.sum(z**3) * z[0], strategy, holomorphic=True)(z)
    expected = np.diag(6.0 * z * z[0])
    expected[0] += 3.0 * z**2
    expected[:, 0] += 3.0 * z**2
    close(found, expected)


def test_the_lagrangian_takes_arguments_after_its_weights() -> None:
    f = lambda x, a: a**2 * x * x[0]  # noqa: E731
    found = d.lagrangian_hessian(f)(X, W, 2.0)
    expected = np.zeros((3, 3))
    expected[0] += 4.0 * W
    expected[:, 0] += 4.0 * W
    close(found, expected)
    close(d.lagrangian_hessian(f, argnums=1)(X, W, 2.0), np.asarray(2.0 * W @ X * X[0]))


def test_dense_derivatives_take_options_by_name() -> None:
    f = lambda x, y=1.0, *, power=2, scale=1.0: scale * y * x**power  # noqa: E731
    J = d.jacobian(f)
    close(J(X, power=3), np.diag(3.0 * X**2))
    assert J.report.inputs == 3
    close(J(X, scale=2.0, power=3), np.diag(6.0 * X**2))
    close(jax.jit(lambda s: J(X, scale=s))(5.0), np.diag(10.0 * X))
    close(d.jacobian(f, argnums=-1)(X, 3.0, power=3), X**3)
    close(J(X), np.diag(2.0 * X))
