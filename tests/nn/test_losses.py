"""Losses: closed forms, extreme logits, precision, one number per example."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from chainrule.core.errors import ArgumentError
from chainrule.nn import losses
from chainrule.nn.losses import cross_entropy, squared_error


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@jax.jit
def loss_and_gradient(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, vjp = jax.vjp(lambda z: cross_entropy(z, labels), logits)
    return loss, vjp(jnp.ones_like(loss))[0]


def test_confidently_wrong_logits_cost_their_difference_and_nothing_overflows() -> None:
    loss, grad = loss_and_gradient(jnp.array([[1000.0, 0.0]]), jnp.array([1]))
    assert loss.tolist() == [1000.0]
    assert grad.tolist() == [[1.0, -1.0]]


def test_minus_infinity_rules_out_a_class() -> None:
    loss, grad = loss_and_gradient(jnp.array([[0.0, 0.0, -jnp.inf]]), jnp.array([0]))
    np.testing.assert_allclose(loss, [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(grad, [[-0.5, 0.5, 0.0]])


@pytest.mark.parametrize("leading", [(), (5,), (2, 3)])
def test_cross_entropy_and_its_gradient_probabilities_minus_label(leading: tuple[int, ...]) -> None:
    logits, labels = normal(*leading, 4), np.random.default_rng(1).integers(0, 4, leading, dtype=np.int32)
    loss, grad = loss_and_gradient(logits, labels)
    chosen = np.eye(4)[labels]
    assert loss.shape == leading
    np.testing.assert_allclose(
        loss, -(scipy.special.log_softmax(logits, axis=-1) * chosen).sum(-1), rtol=1e-5
    )
    np.testing.assert_allclose(grad, scipy.special.softmax(logits, axis=-1) - chosen, rtol=1e-5, atol=1e-6)


def test_a_constant_added_to_all_logits_changes_nothing() -> None:
    labels = jnp.array([0, 1, 2])
    for constant in (-1024.0, 0.0, 1024.0):
        loss, _ = loss_and_gradient(np.full((3, 10), constant, np.float32), labels)
        np.testing.assert_allclose(loss, np.full(3, np.log(10)), rtol=1e-4)


def test_squared_error_averages_over_the_entries_of_each_example() -> None:
    predicted, target = normal(5, 2, 3, seed=0), normal(5, 2, 3, seed=1)
    squares = np.square(predicted - target)
    np.testing.assert_allclose(
        jax.jit(squared_error)(predicted, target), squares.mean(axis=(1, 2)), rtol=1e-5
    )
    scalar = jax.jit(squared_error)(predicted[:, 0, 0], target[:, 0, 0])
    np.testing.assert_allclose(scalar, squares[:, 0, 0], rtol=1e-5)


def test_losses_of_low_precision_inputs_are_computed_in_single_precision() -> None:
    logits = (10 * normal(64, 10)).astype(jnp.bfloat16)
    labels = np.arange(64, dtype=np.int32) % 10
    loss, _ = loss_and_gradient(logits, labels)
    exact = -scipy.special.log_softmax(logits.astype(np.float64), axis=-1)[np.arange(64), labels]
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(loss, exact, rtol=1e-5, atol=1e-6)
    error = jax.jit(squared_error)(logits, np.zeros((64, 10), np.float32))
    assert error.dtype == jnp.float32
    np.testing.assert_allclose(error, np.square(logits.astype(np.float64)).mean(axis=1), rtol=1e-5)


def test_losses_of_double_precision_inputs_stay_double() -> None:
    with jax.enable_x64(True):
        x, labels = np.zeros((2, 3)), np.array([0, 1])
        assert jax.eval_shape(cross_entropy, x, labels).dtype == jnp.float64
        assert jax.eval_shape(squared_error, x, x).dtype == jnp.float64


def test_losses_agree_with_torch(oracle: Callable) -> None:
    torch = oracle("torch")
    logits, labels = 5 * normal(20, 7), np.arange(20) % 7
    theirs = torch.nn.functional.cross_entropy(
        torch.tensor(logits), torch.tensor(labels), reduction="none"
    ).numpy()
    np.testing.assert_allclose(loss_and_gradient(logits, labels)[0], theirs, rtol=1e-5, atol=1e-6)


def test_the_derivative_of_the_softmax_is_what_differentiation_finds() -> None:
    logits = jnp.array([[1.0, -2.0, 0.5], [0.0, 3.0, 3.0]])
    found = losses.softmax_jacobian(logits, temperature=2.0)
    expected = jax.vmap(jax.jacobian(lambda row: losses.softmax(row, temperature=2.0)))(logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-1), np.zeros((2, 3)), atol=1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        losses.squared_error,
        losses.absolute_error,
        losses.huber,
        losses.binary_cross_entropy,
        losses.binary_focal,
        losses.quantile_error,
    ],
)
@pytest.mark.parametrize("other", [(4,), (1, 1), (5, 1), (4, 2)])
def test_predictions_and_targets_of_different_shapes_are_refused_never_broadcast(loss, other) -> None:
    message = rf"(?s){loss.__name__}: .* shape \(4, 1\), .* give both the same shape"
    with pytest.raises(ArgumentError, match=message) as caught:
        loss(jnp.zeros((4, 1)), jnp.zeros(other))
    assert ("reshape" in str(caught.value)) == (other == (4,))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.zeros((4, 1), np.int32), r"shape \(4, 1\) and type int32.*"),
        (np.zeros((4, 3), np.int32), "floating numbers in the shape of the logits"),
        (np.zeros(4, np.float32), r"shape \(4,\) and type float32.*whole numbers, one for each row"),
        (np.zeros(5, np.int32), r"logits of shape \(4, 3\) and targets of shape \(5,\)"),
        (np.array([0, 1, -1, 2]), "targets holds -1 at position 2; the 3 classes are numbered 0 to 2"),
        (np.array([0, 1, 2, 5]), "targets holds 5 at position 3"),
    ],
    ids=["column", "one-hot of whole numbers", "numbers as floats", "too many", "below", "beyond"],
)
@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}], ids=["plain", "smoothed"])
def test_targets_that_do_not_go_with_the_logits_are_refused(targets, message, options) -> None:
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        cross_entropy(jnp.zeros((4, 3)), jnp.asarray(targets), **options)


def test_the_focal_loss_refuses_what_the_cross_entropy_refuses() -> None:
    with pytest.raises(ArgumentError, match="focal: targets holds -1 at position 0"):
        losses.focal(jnp.zeros((2, 3)), jnp.array([-1, 0]))
    with pytest.raises(ArgumentError, match=r"focal: logits of shape \(2, 3\) and targets of shape \(3,\)"):
        losses.focal(jnp.zeros((2, 3)), jnp.array([1, 0, 2]))


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}], ids=["plain", "smoothed"])
def test_what_is_no_class_has_no_loss_where_numbers_are_not_known(options) -> None:
    targets = np.array([-1, 0, 2, 3, 127], np.int8)
    few, many = jax.jit(
        lambda t: [cross_entropy(jnp.zeros((5, classes)), t, **options) for classes in (3, 300)]
    )(targets)
    assert np.isnan(few).tolist() == [True, False, False, True, True]
    assert np.isnan(many).tolist() == [True, False, False, False, False]  # -1 is not 255
    np.testing.assert_allclose(few[1:3], np.log(3), rtol=1e-6)


def test_weighted_and_robust_losses_agree_with_torch(oracle: Callable) -> None:
    torch = oracle("torch")
    functional = torch.nn.functional
    logits, labels, weights = normal(20, 3), np.arange(20) % 3, np.array([0.5, 1.0, 4.0], np.float32)
    ones = (normal(20, 3, seed=1) > 0).astype(np.float32)
    predicted, target = normal(20, 2, seed=2), 3 * normal(20, 2, seed=3)
    tensor = torch.tensor
    for ours, theirs in (
        (
            cross_entropy(
                *map(jnp.asarray, (logits, labels)),
                smoothing=0.2,
                class_weights=jnp.asarray(weights),
                reduction="mean",
            ),
            functional.cross_entropy(
                tensor(logits), tensor(labels), weight=tensor(weights), label_smoothing=0.2
            ),
        ),
        (
            losses.binary_cross_entropy(
                *map(jnp.asarray, (logits, ones)),
                positive_weights=jnp.asarray(weights),
                reduction="mean",
            ),
            functional.binary_cross_entropy_with_logits(
                tensor(logits), tensor(ones), pos_weight=tensor(weights)
            ),
        ),
        (
            losses.huber(*map(jnp.asarray, (predicted, target)), delta=0.7, reduction="mean"),
            functional.huber_loss(tensor(predicted), tensor(target), delta=0.7),
        ),
        (
            losses.absolute_error(*map(jnp.asarray, (predicted, target)), reduction="mean"),
            functional.l1_loss(tensor(predicted), tensor(target)),
        ),
    ):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_focal_loss_is_the_surprisal_times_a_power_of_what_is_missing(gamma: float) -> None:
    logits, labels = 3 * normal(20, 3), np.arange(20) % 3
    p = scipy.special.softmax(logits.astype(np.float64), axis=-1)[np.arange(20), labels]
    weights = np.array([1.0, 2.0, 3.0], np.float32)
    found = losses.focal(*map(jnp.asarray, (logits, labels)), gamma=gamma, class_weights=jnp.asarray(weights))
    np.testing.assert_allclose(found, -weights[labels] * (1 - p) ** gamma * np.log(p), rtol=1e-4)
    ones = (normal(20, 3, seed=1) > 0).astype(np.float32)
    q = np.where(ones > 0, scipy.special.expit(logits), scipy.special.expit(-logits)).astype(np.float64)
    per_example = (-((1 - q) ** gamma) * np.log(q)).mean(axis=1)
    np.testing.assert_allclose(
        losses.binary_focal(*map(jnp.asarray, (logits, ones)), gamma=gamma), per_example, rtol=1e-4
    )


def test_the_slope_of_the_focal_loss_is_finite_where_nothing_is_left_to_learn() -> None:
    slope = jax.jit(jax.grad(lambda z: losses.focal(z, jnp.array([0]), gamma=0.5).sum()))
    np.testing.assert_array_equal(slope(jnp.array([[200.0, 0.0]])), np.zeros((1, 2)))
    assert np.isfinite(slope(jnp.array([[-200.0, 0.0]]))).all()


def test_the_quantile_loss_is_least_at_the_quantile() -> None:
    target = jnp.asarray(normal(999))
    loss = jax.jit(
        jax.vmap(lambda q: losses.quantile_error(jnp.full(999, q), target, quantile=0.8, reduction="mean"))
    )
    guesses = np.linspace(-2, 2, 401, dtype=np.float32)
    assert abs(guesses[int(np.argmin(loss(guesses)))] - np.quantile(target, 0.8)) < 0.03


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: losses.focal(jnp.zeros((1, 2)), jnp.array([0]), gamma=-1.0),
        lambda: losses.binary_focal(jnp.zeros((1, 2)), jnp.zeros((1, 2)), gamma=-1.0),
        lambda: losses.quantile_error(jnp.zeros(2), jnp.zeros(2), quantile=1.0),
    ],
    ids=["focal", "binary focal", "quantile"],
)
def test_options_out_of_range_are_refused(wrong: Callable) -> None:
    with pytest.raises(ArgumentError, match=r"gamma=-1|quantile=1"):
        wrong()


@pytest.mark.parametrize("name", ["squared_error", "absolute_error"])
def test_reductions_are_means_over_entries_sums_and_means_of_sums(name: str) -> None:
    predicted, target = normal(6, 4), normal(6, 4, seed=1)
    power = {"squared_error": 2, "absolute_error": 1}[name]
    each = np.abs(predicted - target) ** power
    expected = {"mean": each.mean(), "sum": each.sum(), "mean_of_sums": each.sum(axis=1).mean()}
    assert set(expected) == set(losses.REDUCTIONS)
    for reduction, value in expected.items():
        found = getattr(losses, name)(jnp.asarray(predicted), jnp.asarray(target), reduction=reduction)
        assert float(found) == pytest.approx(value, rel=1e-5), reduction
