"""Products and gradients: several arguments, extra outputs, values beside derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import chainrule as cr
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
