"""Minimisers: sensitivities against closed forms, and gradients of hyper-parameters against differences."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive import implicit

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 3)), RNG.normal(size=20)


def ridge_loss(w: jax.Array, decay: Any) -> jax.Array:
    """Half the squared error and half the penalty."""
    return 0.5 * jnp.sum((jnp.asarray(X) @ w - jnp.asarray(Y)) ** 2) + 0.5 * decay * jnp.sum(w**2)


ridge = implicit.minimum(ridge_loss)


def test_ridge_regression_moves_with_its_penalty_as_the_closed_form_says() -> None:
    w = ridge(jnp.zeros(3), 0.7)
    found = jax.jacobian(ridge, argnums=1)(jnp.zeros(3), 0.7)
    np.testing.assert_allclose(w, np.linalg.solve(X.T @ X + 0.7 * np.eye(3), X.T @ Y), rtol=1e-12)
    np.testing.assert_allclose(found, -np.linalg.solve(X.T @ X + 0.7 * np.eye(3), w), rtol=1e-12)


def test_second_derivatives_of_ridge_regression_are_those_of_the_closed_form() -> None:
    found = jax.jit(jax.jacfwd(jax.jacrev(ridge, argnums=1), argnums=1))(jnp.zeros(3), 0.7)
    inverse = np.linalg.inv(X.T @ X + 0.7 * np.eye(3))
    np.testing.assert_allclose(found, 2 * inverse @ inverse @ inverse @ X.T @ Y, rtol=1e-11)


def test_a_hypergradient_is_the_slope_of_the_validation_loss() -> None:
    x, y = RNG.normal(size=(10, 3)), RNG.normal(size=10)

    def validation(w: jax.Array, _decay: Any) -> jax.Array:
        return jnp.mean((jnp.asarray(x) @ w - jnp.asarray(y)) ** 2)

    def exact(decay: float) -> float:
        w = np.linalg.solve(X.T @ X + decay * np.eye(3), X.T @ Y)
        return float(np.mean((x @ w - y) ** 2))

    found = jax.jit(implicit.hypergradient(validation, ridge))(jnp.zeros(3), 0.7)
    assert float(found) == pytest.approx((exact(0.7 + 1e-5) - exact(0.7 - 1e-5)) / 2e-5, rel=1e-6)


def test_a_curved_valley_is_minimised_to_the_last_digit() -> None:
    def valley(w: jax.Array, a: Any) -> jax.Array:
        return (a - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2

    solve, start = implicit.minimum(valley), np.array([-1.2, 1.0])
    w, slope = solve(start, 1.5), jax.jacobian(solve, argnums=1)(start, 1.5)
    np.testing.assert_allclose(w, [1.5, 2.25], rtol=1e-12)
    np.testing.assert_allclose(slope, [1, 3], rtol=1e-10)


def test_values_that_the_objective_closes_over_count_as_parameters() -> None:
    def f(decay: jax.Array) -> jax.Array:
        return implicit.minimum(lambda w: ridge_loss(w, decay))(jnp.zeros(3))

    expected = jax.jacobian(ridge, argnums=1)(jnp.zeros(3), 0.7)
    np.testing.assert_allclose(jax.jit(jax.jacobian(f))(0.7), expected, rtol=1e-11)


def test_an_objective_with_several_values_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not one number"):
        implicit.minimum(lambda w: w**2)(jnp.ones(2))
    with pytest.raises(ArgumentError, match="not one number"):
        implicit.hypergradient(lambda w, _: w, ridge)(jnp.zeros(3), 0.7)
