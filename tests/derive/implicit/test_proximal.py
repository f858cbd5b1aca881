"""Proximal and projected gradient, and their derivatives, against closed forms on the active set."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from chainrule.core.errors import ArgumentError, ImplicitFunctionError
from chainrule.derive import implicit

DRAW = np.random.default_rng(3)
X, Y = DRAW.normal(size=(20, 6)), DRAW.normal(size=20)
LEAST = {"rtol": 1e-8, "atol": 1e-10}


def squares(w: Any, y: Any, _: Any = None) -> Any:
    return jnp.sum((X @ w - y) ** 2) / 2


lasso = implicit.proximal_gradient(
    squares, lambda x, step, _, penalty: implicit.soft_threshold(x, step * penalty)
)
start = np.zeros(6)


@jax.jit
def lasso_and_slopes(y: Any, penalty: Any) -> Any:
    both = lambda y, penalty: lasso(start, y, penalty)  # noqa: E731
    return both(y, penalty), jax.jacfwd(both, 1)(y, penalty), jax.jacrev(both, 0)(y, penalty)


def test_the_lasso_and_its_derivatives_are_those_on_its_support() -> None:
    penalty = 2.0
    w, by_penalty, by_data = map(np.asarray, lasso_and_slopes(Y, penalty))
    support, signs = np.flatnonzero(w), np.sign(w)
    assert 0 < len(support) < 6
    gram = X[:, support].T @ X[:, support]
    rest = X[:, support].T @ Y - penalty * signs[support]
    np.testing.assert_allclose(w[support], np.linalg.solve(gram, rest), **LEAST)
    slack = X.T @ (Y - X @ w)
    assert np.all(np.abs(slack) <= penalty * (1 + 1e-8))
    wanted = np.zeros(6)
    wanted[support] = -np.linalg.solve(gram, signs[support])
    np.testing.assert_allclose(by_penalty, wanted, **LEAST)
    wanted = np.zeros((6, 20))
    wanted[support] = np.linalg.solve(gram, X[:, support].T)
    np.testing.assert_allclose(by_data, wanted, **LEAST)


def test_nonnegative_least_squares_equals_scipys_and_its_derivative_that_of_the_positive_part() -> None:
    solve = implicit.projected_gradient(squares, lambda x, _: jnp.maximum(x, 0.0))

    @jax.jit
    def both(y: Any) -> Any:
        return solve(start, y), jax.jacrev(lambda y: solve(start, y))(y)

    w, slopes = map(np.asarray, both(Y))
    np.testing.assert_allclose(w, scipy.optimize.nnls(X, Y)[0], **LEAST)
    positive = np.flatnonzero(w)
    assert 0 < len(positive) < 6
    wanted = np.zeros((6, 20))
    wanted[positive] = np.linalg.pinv(X[:, positive])
    np.testing.assert_allclose(slopes, wanted, **LEAST)


def test_a_quadratic_program_in_a_box_has_the_derivatives_of_its_free_coordinates() -> None:
    P = X.T @ X / 20 + np.eye(6)
    q, low, high = 2 * DRAW.normal(size=6), np.full(6, -0.5), np.full(6, 0.4)
    objective = lambda x, q, low, high: x @ P @ x / 2 + q @ x  # noqa: E731
    solve = implicit.projected_gradient(objective, lambda x, q, low, high: jnp.clip(x, low, high), step=0.3)

    @jax.jit
    def both(q: Any, low: Any, high: Any) -> Any:
        return solve(start, q, low, high), jax.jacfwd(solve, (1, 3))(start, q, low, high)

    w, (by_q, by_high) = both(q, low, high)
    w = np.asarray(w)
    free, upper = np.flatnonzero((w > low) & (w < high)), np.flatnonzero(w == high)
    assert len(free)
    assert len(upper)
    inverse = np.linalg.inv(P[np.ix_(free, free)])
    held = np.setdiff1d(np.arange(6), free)
    np.testing.assert_allclose(w[free], -inverse @ (q[free] + P[np.ix_(free, held)] @ w[held]), **LEAST)
    wanted = np.zeros((6, 6))
    wanted[np.ix_(free, free)] = -inverse
    np.testing.assert_allclose(by_q, wanted, **LEAST)
    wanted = np.zeros((6, 6))
    wanted[upper, upper] = 1.0
    wanted[np.ix_(free, upper)] = -inverse @ P[np.ix_(free, upper)]
    np.testing.assert_allclose(by_high, wanted, **LEAST)


def test_the_projection_onto_a_simplex_and_its_derivative() -> None:
    y = np.array([0.5, 0.3, -1.0])
    solve = implicit.projected_gradient(
        lambda w, y: jnp.sum((w - y) ** 2), lambda x, y: implicit.project_simplex(x)
    )
    wanted = [[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]]
    for function in (implicit.project_simplex, lambda y: solve(jnp.ones(3), y)):
        np.testing.assert_allclose(jax.jit(function)(y), [0.6, 0.4, 0.0], **LEAST)
        np.testing.assert_allclose(jax.jit(jax.jacfwd(function))(y), wanted, **LEAST)


def test_a_hypergradient_through_the_lasso_and_a_second_derivative() -> None:
    slope = jax.jit(implicit.hypergradient(lambda w, y, penalty: jnp.sum(w**2), lasso, 1))
    w, by_penalty, _ = map(np.asarray, lasso_and_slopes(Y, 2.0))
    np.testing.assert_allclose(slope(start, Y, 2.0), 2 * w @ by_penalty, **LEAST)
    second = jax.jit(jax.jacfwd(lambda p: jax.jacrev(lambda p: lasso(start, Y, p))(p)))(2.0)
    np.testing.assert_allclose(
        second, np.zeros(6), atol=1e-8
    )  # linear in the penalty while the support stays


def test_trees_batches_and_details() -> None:
    solve = implicit.projected_gradient(
        lambda w, y: jnp.sum((w["a"] - y) ** 2) + (w["b"] - 1.0) ** 2,
        lambda x, y: jax.tree.map(lambda a: jnp.maximum(a, 0.0), x),
    )
    first = {"a": jnp.zeros(2), "b": jnp.asarray(0.0)}
    found = jax.jit(jax.vmap(lambda y: solve(first, y)))(jnp.array([[1.0, -1.0], [2.0, 3.0]]))
    np.testing.assert_allclose(found["a"], [[1.0, 0.0], [2.0, 3.0]], **LEAST)
    np.testing.assert_allclose(found["b"], [1.0, 1.0], **LEAST)
    stats = solve.details(first, jnp.array([1.0, -1.0])).stats
    assert stats.condition == "none"
    assert int(stats.steps) > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: implicit.proximal_gradient(squares, 3), "not a function"),
        (lambda: implicit.projected_gradient(squares, None), "not a function"),
        (lambda: implicit.proximal_gradient(squares, lambda x, s: x, step=-1.0), "step size is positive"),
        (lambda: implicit.projected_gradient(lambda w: w, lambda x: x)(start), "not one number"),
        (lambda: implicit.projected_gradient(squares, lambda x, _: x, solver="conjugate"), "solver must be"),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_step_that_is_too_long_is_an_error_and_no_answer() -> None:
    solve = implicit.projected_gradient(squares, lambda x, _: x, step=10.0)
    with pytest.raises(ImplicitFunctionError, match="projected_gradient"):
        solve(start, Y)
