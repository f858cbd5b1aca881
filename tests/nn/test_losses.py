"""Losses: closed forms, extreme logits, precision, one number per example."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

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
