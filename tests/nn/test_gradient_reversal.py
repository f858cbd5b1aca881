"""Gradient reversal: bit-equal values, turned gradients in both modes and any place, and PyTorch beside it."""

from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import gradient_reversal


def test_values_pass_bit_for_bit_and_derivatives_of_both_modes_are_turned() -> None:
    x = np.array([3.0, -0.0, 2e-38, -1e30, 0.1], np.float32)
    assert np.asarray(gradient_reversal(x, 0.7)).tobytes() == x.tobytes()
    assert np.asarray(jax.jit(gradient_reversal)(x, 0.7)).tobytes() == x.tobytes()
    assert float(jax.grad(gradient_reversal)(3.0, 0.7)) == np.float32(-0.7)
    value, tangent = jax.jvp(lambda x: gradient_reversal(x, 0.7), (3.0,), (1.0,))
    assert float(value) == 3.0
    assert float(tangent) == np.float32(-0.7)


def test_the_strength_may_be_traced_and_belongs_to_the_gradient_only() -> None:
    gradient = jax.jit(jax.grad(lambda x, s: gradient_reversal(x, s) ** 2, argnums=(0, 1)))
    at, of_strength = gradient(3.0, 0.5)
    assert float(at) == -0.5 * 2 * 3.0
    assert float(of_strength) == 0.0
    assert float(gradient(3.0, 2.0)[0]) == -2.0 * 2 * 3.0


def test_two_in_a_row_turn_twice_and_what_lies_behind_is_not_turned() -> None:
    twice = jax.grad(lambda x: gradient_reversal(gradient_reversal(x, 0.5), 3.0))(1.0)
    assert float(twice) == 1.5
    before, behind = jax.grad(lambda a, b: gradient_reversal(a * 2.0, 1.0) * b, argnums=(0, 1))(3.0, 5.0)
    assert (float(before), float(behind)) == (-10.0, 6.0)


@pytest.mark.parametrize("strength", [-0.1, float("nan"), np.ones(2)])
def test_a_strength_that_is_no_number_from_zero_up_is_refused(strength: object) -> None:
    with pytest.raises(ArgumentError, match="strength must be a number of at least 0"):
        gradient_reversal(jnp.ones(2), strength)


def test_a_game_with_shared_weights_has_the_gradients_of_torch(
    oracle: Callable[[str], ModuleType],
) -> None:
    torch = oracle("torch")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.integers(0, 2, size=8).astype(np.float64)
    extractor, head = rng.normal(size=(3, 4)), rng.normal(size=(4,))

    def loss(extractor: jax.Array, head: jax.Array) -> jax.Array:
        logits = gradient_reversal(jnp.tanh(x.astype(np.float32) @ extractor), 0.3) @ head
        return jnp.mean(jnp.logaddexp(0.0, logits) - y.astype(np.float32) * logits)

    ours = jax.jit(jax.grad(loss, argnums=(0, 1)))(*(w.astype(np.float32) for w in (extractor, head)))
    weights = [torch.tensor(w, requires_grad=True) for w in (extractor, head)]
    features = torch.tanh(torch.tensor(x) @ weights[0])
    features.register_hook(lambda gradient: -0.3 * gradient)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    loss_of(features @ weights[1], torch.tensor(y)).backward()
    for mine, theirs in zip(ours, weights, strict=True):
        np.testing.assert_allclose(mine, theirs.grad.numpy(), atol=1e-5)
