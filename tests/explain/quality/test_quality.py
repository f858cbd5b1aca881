"""Quality of explanations: curves in closed form, lost weights, noise, agreement."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule import data, explain, models
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.quality.randomisation import rank_correlation, shuffled, shuffled_from_the_top
from chainrule.train import Run, fit

RNG = np.random.default_rng(0)
W = np.array([4.0, -1.0, 2.0, 0.5], np.float32)
X = RNG.normal(size=(3, 4)).astype(np.float32)


def linear(x: jax.Array) -> jax.Array:
    return x @ W


def test_curves_of_a_linear_function_are_running_sums_in_the_order_of_the_values() -> None:
    parts = W * X
    found = explain.deletion_curves(linear, X, parts)
    falling = -np.sort(-parts, axis=1)
    rising = np.concatenate([np.zeros((3, 1)), np.cumsum(falling, axis=1)], axis=1)
    np.testing.assert_allclose(found.insertion, rising, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        found.deletion, parts.sum(axis=1, keepdims=True) - rising, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(found.shares, [0, 0.25, 0.5, 0.75, 1])
    area = (rising[:, 1:] + rising[:, :-1]).sum(axis=1) / 8
    np.testing.assert_allclose(found.insertion_area, area, rtol=1e-4, atol=1e-5)
    worst = explain.deletion_curves(linear, X, -parts)
    assert (found.deletion_area < worst.deletion_area).all()  # no order does better than the true one
    for order in RNG.normal(size=(5, 3, 4)):
        other = explain.deletion_curves(linear, X, order)
        assert (found.deletion_area <= other.deletion_area + 1e-5).all()
        assert (found.insertion_area >= other.insertion_area - 1e-5).all()


def test_curves_need_no_derivative_and_take_pixels_with_all_their_colours() -> None:
    x = RNG.normal(size=(2, 3, 3, 2))
    plain = explain.host_function(lambda x: x.sum(axis=(1, 2, 3)))
    found = explain.deletion_curves(plain, x, x.sum(axis=-1), steps=3)
    traced = explain.deletion_curves(lambda x: x.sum(axis=(1, 2, 3)), x, x.sum(axis=-1), steps=3)
    np.testing.assert_allclose(found.deletion, traced.deletion, rtol=1e-4, atol=1e-5)
    assert found.deletion.shape == (2, 4)
    with pytest.raises(ArgumentError, match="shape"):
        explain.deletion_curves(linear, X, X[:, :2])


def test_agreement_is_the_mean_of_rank_correlations() -> None:
    one, other = RNG.normal(size=(2, 5, 7))
    found = explain.agreement({"one": one, "other": other, "flat": np.ones((5, 7))}, signed=True)
    expected = np.mean([scipy.stats.spearmanr(a, b).statistic for a, b in zip(one, other, strict=True)])
    assert found.correlation[0, 1] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(np.diag(found.correlation), 1)
    assert found.correlation[0, 2] == 0
    np.testing.assert_allclose(explain.agreement({"one": one, "turned": -one}).correlation, 1)
    with pytest.raises(ArgumentError, match="same inputs and features"):
        explain.agreement({"one": one, "other": other[:, :3]})


def test_stability_of_what_is_linear_in_the_input_is_known() -> None:
    slope = np.array([1.0, 3.0])
    found = explain.stability(lambda x: slope * x, np.array([[1.0, -1.0]]), 1e-3, draws=50)
    assert 2.5 < found.steepest <= 3.0001
    assert found.correlation == pytest.approx(1)
    still = explain.stability(lambda x: np.ones_like(x) * slope, X[:, :2], 0.1)
    assert still.change == 0
    with pytest.raises(ArgumentError, match="noise=0"):
        explain.stability(lambda x: x, X, 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("mlp", digits, width=32, depth=3)
    return fit(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", steps=300, batch=64)


def test_attributions_of_shuffled_weights_are_unlike_those_of_the_trained_model(run: Run) -> None:
    model: Any = run.model
    x = np.asarray(run.data.test.batch(np.arange(32)).x)
    classes = np.asarray(model.logits(jnp.asarray(x))).argmax(axis=1)
    trained, mixed = (
        {
            "saliency": explain.saliency(one.logits, x, classes).values,
            "integrated gradients": explain.integrated_gradients(
                one.logits, x, x.mean(axis=0), classes, most=64
            ).values,
        }
        for one in (model, shuffled(model, jax.random.key(0)))
    )
    for name, values in trained.items():
        pair = {"trained": values, "shuffled": mixed[name]}
        assert abs(explain.agreement(pair, signed=True).correlation[0, 1]) < 0.3
        same = {"one": values, "other": values}
        assert explain.agreement(same, signed=True).correlation[0, 1] == pytest.approx(1)


def test_layers_lose_their_weights_from_the_last_one_down(run: Run) -> None:
    model: Any = run.model
    x = jnp.asarray(run.data.test.batch(np.arange(4)).x)
    stages = list(shuffled_from_the_top(model, lambda model: model.logits(x), jax.random.key(1)))
    assert [name for name, _ in stages] == ["head", "blocks.1.linear", "blocks.0.linear"]
    first = np.asarray(model.blocks[0].linear.weight)
    for _, mixed in stages[:2]:
        np.testing.assert_array_equal(mixed.blocks[0].linear.weight, first)
    last: Any = stages[-1][1]
    assert not np.array_equal(last.blocks[0].linear.weight, first)
    np.testing.assert_array_equal(np.sort(np.ravel(last.blocks[0].linear.weight)), np.sort(first.ravel()))
    np.testing.assert_array_equal(last.head.weight, stages[0][1].head.weight)  # shuffled once
    few = list(shuffled_from_the_top(model, lambda model: model.logits(x), jax.random.key(1), most=1))
    assert len(few) == 1
    assert rank_correlation(first, few[0][1].blocks[0].linear.weight) in (1.0, pytest.approx(0, abs=0.2))
