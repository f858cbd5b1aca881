"""LIME: exact where the function is linear, honest about fidelity where it is not, and about its own chance."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import explain
from chainrule.core.errors import ArgumentError

RNG = np.random.default_rng(0)
W = np.array([3.0, -1.0, 0.0, 2.0])
ROWS = RNG.normal(size=(50, 4)) * [1.0, 2.0, 1.0, 0.5] + 1
X = RNG.normal(size=(3, 4))
GROUPS = np.array([0, 1, 1, 2])


def linear(x: jax.Array) -> jax.Array:
    return x @ jnp.asarray(W, x.dtype) + 1.0


def test_the_surrogate_of_a_linear_function_is_the_function() -> None:
    found = explain.lime(linear, X, ROWS, ridge=1e-9, samples=200)
    np.testing.assert_allclose(found.explanation.values, W * (X - ROWS.mean(axis=0)), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.fidelity, 1, atol=1e-5)
    np.testing.assert_allclose(found.stability, 1, atol=0.05)
    assert np.abs(found.explanation.residual).max() < 1e-3
    assert found.explanation.evaluations == 3 * 10 * 200
    assert "fidelity R² 1.000" in str(found)


def test_absent_groups_take_away_what_they_add() -> None:
    found = explain.lime(linear, X, ROWS, ridge=1e-9, samples=200, groups=GROUPS)
    each = W * (X - ROWS.mean(axis=0))
    expected = np.stack([each[:, 0], each[:, 1] + each[:, 2], each[:, 3]], axis=1)
    np.testing.assert_allclose(found.explanation.values, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(found.explanation.membership, GROUPS)


def test_the_fit_is_weighted_ridge_regression() -> None:
    curve = lambda x: jnp.sin(x[:, 0]) * x[:, 1]  # noqa: E731
    found = explain.lime(curve, X[:1, :2], ROWS[:, :2], samples=300, fits=2, width=1.1, ridge=0.01, seed=3)
    generator, fitted = np.random.default_rng(3), []
    for _ in range(2):
        z = generator.standard_normal((300, 2))
        points = X[:1, :2] + ROWS[:, :2].std(axis=0) * z
        weights = np.exp(-(z**2).sum(axis=1) / 1.1**2)
        design = np.concatenate([z, np.ones((300, 1))], axis=1)
        held = 0.01 * weights.sum() * np.diag([1.0, 1.0, 0.0])
        y = np.sin(points[:, 0]) * points[:, 1]
        fitted.append(
            np.linalg.solve(design.T @ (weights[:, None] * design) + held, design.T @ (weights * y))
        )
    slopes = np.mean(fitted, axis=0)[:2]
    expected = slopes * (X[0, :2] - ROWS[:, :2].mean(axis=0)) / ROWS[:, :2].std(axis=0)
    np.testing.assert_allclose(found.explanation.values[0], expected, rtol=1e-3)


def test_fidelity_falls_where_the_function_is_not_linear_and_few_neighbours_are_unstable() -> None:
    curve = lambda x: jnp.cos(3 * x).sum(axis=1)  # noqa: E731
    good, poor = (explain.lime(f, X, ROWS, samples=300) for f in (linear, curve))
    assert poor.fidelity.max() < 0.5 < good.fidelity.min()
    few = explain.lime(curve, X, ROWS, samples=20)
    assert few.stability.mean() < good.stability.mean()
    errors = few.explanation.errors
    assert errors is not None
    assert poor.explanation.errors is not None
    assert errors.mean() > 2 * poor.explanation.errors.mean()


def test_only_the_largest_are_kept_where_that_is_asked_for() -> None:
    found = explain.lime(linear, X, ROWS, samples=200, most=2)
    used = (found.explanation.values != 0).any(axis=0)
    assert used.tolist() == [True, True, False, False]  # by slope in the spread of the column: 3, -2, 0, 1


def test_a_plain_function_will_do_and_gives_the_same() -> None:
    plain = explain.host_function(lambda x: x @ W + 1.0)
    ours, theirs = (explain.lime(f, X, ROWS, samples=50).explanation.values for f in (linear, plain))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 1}, "samples=1"),
        ({"fits": 1}, "fits=1"),
        ({"width": 0.0}, "width=0.0"),
        ({"ridge": -1.0}, "ridge=-1.0"),
        ({"most": 5}, "there are 4 features"),
        ({"groups": np.array([0, 2, 2, 3])}, "counted from 0 without gaps"),
        ({"background": ROWS[:, :3]}, "same columns"),
        ({"background": np.full_like(ROWS, 0.1)}, "without any spread"),
        ({"background": np.where(ROWS > 1, np.nan, ROWS)}, "is not finite"),
        ({"x": X[:0]}, "nothing in it"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"f": linear, "x": X, "background": ROWS} | change
    with pytest.raises(ArgumentError, match=message):
        explain.lime(**given)


def test_images_need_groups() -> None:
    f: Callable[[jax.Array], jax.Array] = lambda x: x.sum(axis=(1, 2))  # noqa: E731
    with pytest.raises(ArgumentError, match="give groups="):
        explain.lime(f, np.zeros((2, 3, 3)), np.zeros((4, 3, 3)))
