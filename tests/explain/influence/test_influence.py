"""Influences agree with training again without a row, with gradients along a path, and with all coalitions of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.influence.gradient_trace import gradient_trace
from chainrule.explain.methods.influence.influence_functions import influence
from chainrule.explain.methods.influence.neighbour_shapley import neighbour_shapley
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.games import CoalitionGame

RIDGE = 0.01


def squares(w: jax.Array, rows: tuple[jax.Array, jax.Array]) -> jax.Array:
    return 0.5 * (rows[0] @ w - rows[1]) ** 2


@pytest.fixture(scope="module")
def regression() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """500 training rows of 10 columns and 20 test rows."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(520, 10))
    y = x @ draw.normal(size=10) + 0.5 * draw.normal(size=520)
    return x[:500], y[:500], x[500:], y[500:]


def fitted(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """The minimum of `sum of squares / (2 count) + RIDGE |w|^2 / 2`."""
    return np.linalg.solve(x.T @ x + RIDGE * count * np.eye(x.shape[1]), x.T @ y)


def rank_agreement(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def test_influences_match_training_again_without_each_row(
    regression: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    x, y, test_x, test_y = regression
    w = fitted(x, y, 500)
    single = tuple(np.asarray(one, np.float32) for one in (x, y, test_x, test_y))
    given = (jnp.asarray(w, jnp.float32), single[:2], single[2:])
    options = {"penalty": lambda w: 0.5 * RIDGE * (w @ w), "chunk": 128}
    refits = np.stack([fitted(x[np.arange(500) != i], y[np.arange(500) != i], 500) for i in range(500)])
    predictions = influence(squares, *given, asked=lambda w, rows: rows[0] @ w, **options)
    assert predictions.converged
    assert predictions.damping == 0.0
    moved = test_x @ refits.T - (test_x @ w)[:, None]
    far = np.linalg.norm(predictions.removal - moved, axis=1) / np.linalg.norm(moved, axis=1)
    assert far.max() < 0.05
    assert min(map(rank_agreement, predictions.removal, moved)) > 0.99
    # Of half of the rows: the Hessian is an estimate, and leaving out a row still weighs one in all of them.
    half = tuple(one[::2] for one in given[1])
    some = influence(
        squares, given[0], half, given[2], asked=lambda w, rows: rows[0] @ w, total=500, **options
    ).removal
    assert np.linalg.norm(some - moved[:, ::2]) / np.linalg.norm(moved[:, ::2]) < 0.3
    with pytest.raises(ArgumentError, match="500 of the rows that training saw are given"):
        influence(squares, *given, total=499)
    # Losses of test rows that fit well change in second order only: no first-order number tells how.
    losses = influence(squares, *given, **options).removal
    changed = 0.5 * (test_x @ refits.T - test_y[:, None]) ** 2 - 0.5 * (test_x @ w - test_y)[:, None] ** 2
    assert np.linalg.norm(losses - changed) / np.linalg.norm(changed) < 0.05
    assert rank_agreement(losses.ravel(), changed.ravel()) > 0.99


def test_negative_curvature_is_damped_away() -> None:
    """Two parameters that multiply each other have a saddle at zero."""

    def saddle(w: jax.Array, rows: tuple[jax.Array, jax.Array]) -> jax.Array:
        return 0.5 * (w[0] * w[1] * rows[0] - rows[1]) ** 2

    rows = (np.ones(4, np.float32), np.arange(4, dtype=np.float32))
    found = influence(saddle, jnp.array([0.1, 0.1]), rows, rows)
    assert found.damping > 1.4  # the Hessian at zero has the eigenvalues +-mean(y) = +-1.5
    assert found.converged


def test_what_has_no_gradient_or_no_rows_is_refused() -> None:
    rows = (np.ones((2, 1), np.float32), np.ones(2, np.float32))
    with pytest.raises(ArgumentError, match="no gradients"):
        influence(squares, jnp.array([1]), rows, rows)
    with pytest.raises(ArgumentError, match="0 test rows"):
        influence(squares, jnp.array([1.0]), rows, (rows[0][:0], rows[1][:0]))
    with pytest.raises(ArgumentError, match="damping=-1"):
        influence(squares, jnp.array([1.0]), rows, rows, damping=-1)


def test_the_trace_of_gradients_is_the_fall_of_the_test_loss_for_small_steps(
    regression: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Full-batch descent: summed over rows and steps, the trace is what the test loss lost."""
    x, y, test_x, test_y = (np.asarray(one, np.float32) for one in regression)
    rate, w, path = 0.01, np.zeros(10, np.float32), []
    for _ in range(20):
        path.append(jnp.asarray(w))
        w = w - rate * x.T @ (x @ w - y) / 500
    found = gradient_trace(squares, path, [rate / 500] * 20, (x, y), (test_x[:2], test_y[:2]), chunk=200)
    fell = 0.5 * (test_x[:2] @ path[0] - test_y[:2]) ** 2 - 0.5 * (test_x[:2] @ w - test_y[:2]) ** 2
    np.testing.assert_allclose(found.sum(axis=1), fell, rtol=0.03)


@pytest.mark.parametrize("k", [1, 3])
def test_data_shapley_values_are_those_of_all_coalitions(k: int) -> None:
    draw = np.random.default_rng(k)
    x, y = draw.normal(size=(8, 2)), draw.integers(0, 2, 8)
    test_x, test_y = draw.normal(size=(2, 2)), np.array([0, 1])
    found = neighbour_shapley(x, y, test_x, test_y, k=k)
    for number in range(2):
        order = np.square(x - test_x[number]).sum(axis=1).argsort()
        same = (y == test_y[number]).astype(float)

        def worth(masks: np.ndarray, order: np.ndarray = order, same: np.ndarray = same) -> np.ndarray:
            return np.array([sum(same[i] for i in [i for i in order if mask[i]][:k]) / k for mask in masks])

        np.testing.assert_allclose(found[number], exact_values(CoalitionGame(worth, 8)).values, atol=1e-12)
        np.testing.assert_allclose(found[number].sum(), same[order[:k]].sum() / k, atol=1e-12)
