"""Gradient attributions against closed forms, and what all of them promise."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, explain, models
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.explain.methods.gradients import base
from chainrule.explain.methods.gradients.integrated_gradients import gauss_legendre
from chainrule.train import Run, fit

RNG = np.random.default_rng(0)
W1, W2 = (RNG.normal(size=shape).astype(np.float32) for shape in ((5, 16), (16, 3)))
X = RNG.normal(size=(6, 5)).astype(np.float32)
ROWS = RNG.normal(size=(7, 5)).astype(np.float32)
START = ROWS.mean(axis=0)


def network(x: jax.Array) -> jax.Array:
    """Uses all features but the last."""
    return jnp.tanh(x.at[:, 4].set(0.0) @ W1) @ W2


def linear(x: jax.Array) -> jax.Array:
    return x @ W1[:, :3] + jnp.array([[1.0, 2.0, 3.0]])


COMPLETE: dict[str, Callable[..., explain.Explanation]] = {
    "integrated": lambda f, x, output=1: explain.integrated_gradients(f, x, START, output),
    "deep_lift": lambda f, x, output=1: explain.deep_lift(f, x, START, output),
    "expected": lambda f, x, output=1: explain.expected_gradients(f, x, ROWS, output, samples=70),
}
OTHERS: dict[str, Callable[..., explain.Explanation]] = {
    "times input": lambda f, x, output=1: explain.gradient_times_input(f, x, output, baseline=START),
    "saliency": lambda f, x, output=1: explain.saliency(f, x, output),
    "smooth": lambda f, x, output=1: explain.smooth_grad(f, x, output, samples=4),
}
ALL = COMPLETE | OTHERS


def test_integrated_gradients_share_products_by_their_degree() -> None:
    one = np.ones(2)
    found = explain.integrated_gradients(lambda x: x[0] ** 2 * x[1], one, np.zeros(2))
    np.testing.assert_allclose(found.values, [2 / 3, 1 / 3], rtol=1e-6)
    found = explain.integrated_gradients(lambda x: x[0] * x[1], one, np.zeros(2))
    np.testing.assert_allclose(found.values, [1 / 2, 1 / 2], rtol=1e-6)
    assert found.is_additive
    of_batch = explain.integrated_gradients(lambda x: x[:, 0] ** 2 * x[:, 1], one[None], np.zeros(2))
    np.testing.assert_allclose(of_batch.values, [[2 / 3, 1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(of_batch[0]), [2 / 3, 1 / 3], rtol=1e-6)


@pytest.mark.parametrize("name", [*COMPLETE, "times input"])
def test_of_a_linear_function_every_method_gives_weight_times_distance(name: str) -> None:
    found = ALL[name](linear, X)
    np.testing.assert_allclose(found.values, W1[:, 1] * (X - START), rtol=1e-4, atol=1e-5)
    assert found.is_additive
    np.testing.assert_allclose(found.base, np.asarray(linear(jnp.asarray(START[None])))[0, 1], rtol=1e-5)


@pytest.mark.parametrize("name", ["saliency", "smooth"])
def test_slopes_of_a_linear_function_are_its_weights_and_say_that_they_do_not_add_up(name: str) -> None:
    found = ALL[name](linear, X)
    expected = np.broadcast_to(W1[:, 1], X.shape)
    np.testing.assert_allclose(np.abs(found.values), np.abs(expected), rtol=1e-5)
    assert found.slopes
    assert not found.is_additive
    assert "do not add up" in str(found)
    with pytest.raises(ArgumentError, match="slopes, which do not add up"):
        found.check()


@pytest.mark.parametrize("name", ALL)
def test_a_feature_without_use_gets_nothing_and_a_row_alone_what_it_gets_among_others(name: str) -> None:
    many = ALL[name](network, X)
    assert (many.values[:, 4] == 0).all()
    assert (many.values[:, :4] != 0).all()
    alone = ALL[name](network, X[2:3])
    np.testing.assert_allclose(alone.values[0], many.values[2], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(many.values, ALL[name](network, X).values)  # bit for bit


def test_integrated_gradients_are_the_integral_of_slopes_in_double_precision() -> None:
    found = explain.integrated_gradients(network, X, START, 0)
    at = (np.arange(2000) + 0.5) / 2000
    way = np.asarray(X - START, np.float64)
    points = START + at[:, None, None] * way
    points[..., 4] = 0
    w1, w2 = W1.astype(np.float64), W2.astype(np.float64)
    slope = ((1 - np.tanh(points @ w1) ** 2) * w2[:, 0]) @ w1.T
    slope[..., 4] = 0
    np.testing.assert_allclose(found.values, way * slope.mean(axis=0), rtol=1e-4, atol=1e-5)


def test_nodes_are_doubled_for_rows_that_miss_too_much_and_only_for_those() -> None:
    steep = lambda x: jax.nn.sigmoid(400 * (x[:, 0] - 0.37)) + x[:, 1]  # noqa: E731
    x = np.array([[1.0, 0.5], [0.1, 3.0]])
    few = explain.integrated_gradients(steep, x, 0.0, nodes=8, most=8)
    assert abs(few.residual[0]) > 0.05
    assert not few.is_additive
    found = explain.integrated_gradients(steep, x, 0.0, nodes=8)
    assert (np.abs(found.residual) <= 0.01 * np.abs(found.outputs - found.base)).all()
    used = found.method.removeprefix("integrated gradients, 8 to ").removesuffix(" nodes")
    doublings = [8 * 2**i for i in range(1, 10) if 8 * 2**i <= int(used)]
    assert found.evaluations == 2 * 2 + 8 * 2 + sum(doublings)  # the second row stopped at once
    np.testing.assert_array_equal(found.values[1], few.values[1])


def test_blocks_of_a_small_memory_budget_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: method(network, X) for name, method in ALL.items()}
    monkeypatch.setattr(base, "MEMORY", 6 * base.program_bytes(network, X))
    for name, method in ALL.items():
        found = method(network, X)
        np.testing.assert_allclose(found.values, whole[name].values, rtol=1e-4, atol=1e-5)
        errors = whole[name].errors
        if found.errors is not None and errors is not None:
            np.testing.assert_allclose(found.errors, errors, rtol=1e-3, atol=1e-6)


def test_the_rule_of_gauss_and_legendre_is_exact_for_its_degree() -> None:
    at, weights = gauss_legendre(64)
    for degree in (0, 5, 127):
        assert (weights * at**degree).sum() == pytest.approx(1 / (degree + 1), rel=1e-12)


def test_expected_gradients_are_the_mean_of_integrated_ones_within_their_errors() -> None:
    exact = np.mean([explain.integrated_gradients(network, X, row, 1).values for row in ROWS], axis=0)
    found = explain.expected_gradients(network, X, ROWS, 1, samples=700)
    assert found.errors is not None
    off = np.abs(found.values - exact)[:, :4] / found.errors[:, :4]
    assert off.max() < 3
    more = explain.expected_gradients(network, X, ROWS, 1, samples=2800, seed=1)
    assert more.errors is not None
    ratio = (found.errors / np.where(more.errors > 0, more.errors, 1))[:, :4]
    np.testing.assert_allclose(np.median(ratio), 2, rtol=0.15)


def test_smooth_grad_is_the_slope_of_the_smoothed_function() -> None:
    curve = lambda x: x[:, 0] ** 3 + x[:, 1]  # noqa: E731
    found = explain.smooth_grad(curve, np.array([[1.0, 3.0]]), noise=0.25, samples=4000)
    variance = (0.25 * 2) ** 2  # the range of the entries is 2
    assert found.errors is not None
    assert abs(found.values[0, 0] - 3 * (1 + variance)) < 4 * found.errors[0, 0]


def test_an_output_may_be_asked_for_by_number_for_every_row_by_itself() -> None:
    outputs = np.array([0, 2, 1, 0, 1, 2])
    each = explain.integrated_gradients(network, X, START, outputs)
    for row, output in enumerate(outputs):
        one = explain.integrated_gradients(network, X[row : row + 1], START, int(output))
        np.testing.assert_allclose(each.values[row], one.values[0], rtol=1e-4, atol=1e-6)


def test_probabilities_of_a_sure_network_lose_their_slopes_and_logits_do_not() -> None:
    logits = lambda x: 60 * x @ W1[:, :3]  # noqa: E731
    x = np.sign(W1[:, 1:2].T).astype(np.float32)
    sure = explain.saliency(lambda x: jax.nn.softmax(logits(x)), x, 1)
    plain = explain.saliency(logits, x, 1)
    assert sure.values.max() < 1e-6
    np.testing.assert_allclose(plain.values[0], 60 * np.abs(W1[:, 1]), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: explain.saliency(network, X), ArgumentError, "f has 3 outputs"),
        (lambda: explain.saliency(network, X, 3), ArgumentError, "f has 3 outputs"),
        (lambda: explain.saliency(network, X, "cat"), ArgumentError, "no output has this name"),
        (lambda: explain.saliency(network, X, np.array([0, 1])), ArgumentError, "there are 6 inputs"),
        (lambda: explain.saliency(network, X * np.nan, 0), ArgumentError, r"entry \[0, 0\] is not finite"),
        (lambda: explain.saliency(network, np.array([["a"]]), 0), ArgumentError, "are no numbers"),
        (lambda: explain.saliency(lambda x: jnp.log(-jnp.abs(x[:, 0])), X), DataError, "f gives nan"),
        (lambda: explain.saliency(linear, X, 0, features=("a",)), ArgumentError, "1 names for 5 features"),
        (
            lambda: explain.integrated_gradients(lambda x: np.asarray(x).sum(axis=1), X),
            ArgumentError,
            "integrated_gradients: f is a function of NumPy arrays and has no derivative",
        ),
        (lambda: explain.integrated_gradients(network, X, np.zeros(4), 0), ArgumentError, "shape \\(4,\\)"),
        (
            lambda: explain.integrated_gradients(network, X, None, 0, tolerance=0),
            ArgumentError,
            "tolerance=0",
        ),
        (
            lambda: explain.integrated_gradients(network, X, None, 0, nodes=64, most=8),
            ArgumentError,
            "most=8",
        ),
        (lambda: explain.expected_gradients(network, X, ROWS[:, :4], 0), ArgumentError, "same columns"),
        (lambda: explain.expected_gradients(network, X, ROWS, 0, samples=1), ArgumentError, "samples=1"),
        (lambda: explain.smooth_grad(network, X, 0, noise=0.0), ArgumentError, "noise=0.0"),
        (
            lambda: explain.deep_lift(lambda x: jnp.sort(x, axis=1)[:, 0], X),
            CapabilityError,
            "no rule for 'sort'",
        ),
        (
            lambda: explain.deep_lift(lambda x: jnp.where(x > 0, x, x**2).sum(axis=1), X),
            CapabilityError,
            "no rule",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    wave = data.load("wave")
    return fit(
        models.build("mlp", wave, width=8, depth=2),
        wave,
        run=tmp_path_factory.mktemp("runs") / "wave",
        steps=2,
        batch=16,
    )


def test_a_run_is_explained_in_raw_units(run: Run) -> None:
    raw = np.asarray(run.scaling.inverse(np.asarray(run.data.test.batch(np.arange(3)).x)))
    found = explain.integrated_gradients(run, raw, 0.0)
    assert run.target_scaling is not None
    model: Any = run.model
    predicted = run.target_scaling.inverse(
        np.asarray(model.predict(jnp.asarray(run.data.test.batch(np.arange(3)).x)))
    )
    np.testing.assert_allclose(found.outputs, np.ravel(predicted), rtol=1e-4)
    assert found.values.shape == raw.shape
    assert (np.abs(found.residual) <= 0.011 * np.abs(found.outputs - found.base)).all()
