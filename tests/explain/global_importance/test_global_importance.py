"""Importances and dependences of functions whose answers are known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.inspection import partial_dependence as their_dependence
from sklearn.inspection import permutation_importance as their_importance
from sklearn.linear_model import LinearRegression

from chainrule.core.errors import ArgumentError, DataError
from chainrule.explain.methods.functions import host_function
from chainrule.explain.methods.global_importance.dependence import accumulated_effects, partial_dependence
from chainrule.explain.methods.global_importance.permutation_importance import permutation_importance
from chainrule.explain.methods.global_importance.sage import sage

DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(2000, 3)).astype(np.float32)
SLOPES = np.array([2.0, -1.0, 0.0], np.float32)


def linear(x: jax.Array) -> jax.Array:
    return x @ jnp.asarray(SLOPES)


def test_permutation_importance_of_a_linear_function_is_twice_its_variance() -> None:
    found = permutation_importance(linear, ROWS, ROWS @ SLOPES, repeats=5)
    assert found.loss == 0.0
    np.testing.assert_allclose(found.mean, 2 * SLOPES**2 * ROWS.var(axis=0), rtol=0.05)
    assert (np.abs(found.mean - 2 * SLOPES**2) <= 5 * found.errors + 0.3).all()


def test_permutation_importance_agrees_with_scikit_learn() -> None:
    x = np.asarray(ROWS, np.float64)
    y = x @ SLOPES + 0.1 * DRAW.normal(size=len(x))
    model = LinearRegression().fit(x, y)
    theirs = their_importance(model, x, y, scoring="neg_mean_squared_error", n_repeats=10, random_state=0)
    ours = permutation_importance(host_function(model.predict), x, y, repeats=10)
    np.testing.assert_allclose(ours.mean, theirs.importances_mean, rtol=0.05, atol=1e-3)


def test_groups_are_exchanged_together() -> None:
    """The sum of two copies of a column: exchanged together they count four times as much as one alone."""
    twice = np.stack([ROWS[:, 0], ROWS[:, 0]], axis=1)
    both = permutation_importance(lambda x: x.sum(axis=1), twice, twice.sum(axis=1), groups=np.zeros(2, int))
    one = permutation_importance(lambda x: x.sum(axis=1), twice, twice.sum(axis=1))
    np.testing.assert_allclose(both.mean[0], 4 * one.mean[0], rtol=1e-5)


def test_partial_dependence_agrees_with_scikit_learn() -> None:
    x = np.asarray(ROWS[:100], np.float64)
    model = LinearRegression().fit(x, x @ SLOPES)
    theirs = their_dependence(model, x, [1], grid_resolution=7, kind="both")
    ours = partial_dependence(host_function(model.predict), x, 1, grid=theirs["grid_values"][0])
    np.testing.assert_allclose(ours.mean, theirs["average"][0], atol=1e-5)
    np.testing.assert_allclose(ours.curves, theirs["individual"][0], atol=1e-5)
    assert ours.interaction < 1e-6


def test_curves_that_are_not_parallel_tell_of_interactions() -> None:
    found = partial_dependence(lambda x: x[:, 0] * x[:, 1], ROWS, 0, points=9)
    assert found.interaction > 0.95


def test_accumulated_effects_leave_the_other_feature_out_where_both_go_together() -> None:
    """x2 follows x1: the effect of x1 in x1 + x2 has slope 1, and that of x1 x2 is x1²/2 up to its mean."""
    first = DRAW.normal(size=4000)
    together = np.stack([first, first + 0.05 * DRAW.normal(size=4000)], axis=1).astype(np.float32)
    added = accumulated_effects(lambda x: x[:, 0] + x[:, 1], together, 0, bins=20)
    np.testing.assert_allclose(np.diff(added.effects), np.diff(added.edges), rtol=1e-3, atol=1e-5)
    product = accumulated_effects(lambda x: x[:, 0] * x[:, 1], together, 0, bins=40)
    inside = np.abs(product.edges) < 2
    expected = product.edges**2 / 2
    apart = (product.effects - expected)[inside]
    assert np.ptp(apart) < 0.1
    middle = (product.effects[1:] + product.effects[:-1]) / 2
    assert abs((middle * product.counts).sum()) < 1e-6 * product.counts.sum()


def test_shares_of_the_loss_add_up_to_what_the_model_explains() -> None:
    """Linear in independent columns: each column takes away its share of the variance."""
    x, y = ROWS[:400], (ROWS @ SLOPES)[:400]
    found = sage(
        linear,
        x,
        y,
        loss=lambda out, y: jnp.square(out[:, 0] - y),
        background=ROWS[400:432],
        most=32,
    )
    np.testing.assert_allclose(found.values.sum(), found.without - found.with_all, rtol=1e-5)
    np.testing.assert_allclose(found.with_all, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.values, SLOPES**2, atol=0.45)
    assert abs(found.values[2]) < 1e-5
    assert found.errors is None


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="2000 inputs and 3 targets"):
        permutation_importance(linear, ROWS, SLOPES)
    with pytest.raises(ArgumentError, match="column=7"):
        partial_dependence(linear, ROWS, 7)
    with pytest.raises(ArgumentError, match="all rows have the value 1"):
        accumulated_effects(linear, np.ones((5, 3), np.float32), 0)
    with pytest.raises(ArgumentError, match=r"sage: f gives an array of shape \(\)"):
        sage(host_function(np.sum), ROWS, ROWS, loss=lambda out, y: out, background=ROWS)


def test_functions_that_jax_cannot_trace_are_called_on_the_host() -> None:
    """As any `predict` of scikit-learn, which has not been marked beforehand."""
    x = np.asarray(ROWS[:100], np.float64)
    model = LinearRegression().fit(x, x @ SLOPES)
    marked = host_function(model.predict)
    for asked in (
        lambda f: permutation_importance(f, x, x @ SLOPES, repeats=2).increases,
        lambda f: partial_dependence(f, x, 1, points=4).curves,
        lambda f: accumulated_effects(f, x, 1, bins=4).effects,
        lambda f: sage(f, x, x @ SLOPES, loss=lambda out, y: (out[:, 0] - y) ** 2, background=x[:8]).values,
    ):
        np.testing.assert_array_equal(asked(model.predict), asked(marked))
    shares = [
        sage(f, x, x @ SLOPES, loss=lambda out, y: (out[:, 0] - y) ** 2, background=x[:8]).values
        for f in (model.predict, linear)
    ]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-3, atol=1e-3)


def test_outputs_that_are_missing_or_not_finite_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"partial_dependence\(output=1\): f has 1 outputs"):
        partial_dependence(linear, ROWS, 0, output=1)
    with pytest.raises(ArgumentError, match="2 outputs for a row, y has shape"):
        permutation_importance(lambda x: x[:, :2], ROWS, ROWS[:, 0])
    with pytest.raises(DataError, match="accumulated_effects: f gives nan at row"):
        accumulated_effects(lambda x: jnp.sqrt(x[:, 0]), ROWS, 0)
