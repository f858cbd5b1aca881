"""Dropout: moments, independence, inference, range of p."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import Dropout

N = 100_000

apply = eqx.filter_jit(lambda layer, x, key: layer(x, key))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_mean_is_x_and_variance_is_x_squared_p_over_one_minus_p(p: float) -> None:
    x = 3.0
    out = np.asarray(apply(Dropout(p), np.full(N, x, np.float32), jax.random.key(0)), dtype=np.float64)
    variance = x**2 * p / (1 - p)
    assert abs(out.mean() - x) < 3 * math.sqrt(variance / N)
    # Entries take two values, so the estimate of their variance has a closed-form spread (none at all for p = 1/2).
    fourth = (1 - p) * (x / (1 - p) - x) ** 4 + p * x**4
    assert abs(np.square(out - x).mean() - variance) <= 3 * math.sqrt((fourth - variance**2) / N)


def test_entries_are_either_dropped_or_scaled_up_and_gradients_follow() -> None:
    x = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    out, vjp = jax.vjp(lambda x: apply(Dropout(0.25), x, jax.random.key(0)), x)
    kept = np.asarray(out) != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(np.asarray(out)[kept], x[kept] / 0.75, rtol=1e-6)
    np.testing.assert_allclose(vjp(np.ones_like(x))[0], kept / 0.75, rtol=1e-6)


def test_examples_are_dropped_independently() -> None:
    kept = np.asarray(apply(Dropout(0.5), np.ones((200, 200), np.float32), jax.random.key(0))) != 0
    signs = 2.0 * kept - 1
    between = (signs @ signs.T / 200)[~np.eye(200, dtype=bool)]
    # 19,900 pairs of 200 coin flips each stay below five standard deviations; a shared mask would give 1.
    assert np.abs(between).max() < 5 / math.sqrt(200)


def test_inference_mode_and_p_zero_change_nothing() -> None:
    x, key = jnp.ones((3, 4)), jax.random.key(0)
    assert Dropout(0.5, inference=True)(x, key) is x
    assert eqx.nn.inference_mode(Dropout(0.5))(x, key) is x
    assert Dropout(0.0)(x, key) is x


def test_the_key_decides() -> None:
    x, layer = np.ones(100, np.float32), Dropout(0.5)
    one, same, other = (np.asarray(apply(layer, x, jax.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_the_type_of_the_input_is_kept(dtype: jnp.dtype) -> None:
    assert jax.eval_shape(Dropout(0.3), jnp.ones(4, dtype), jax.random.key(0)).dtype == dtype


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, math.nan])
def test_a_share_outside_zero_to_one_is_refused(p: float) -> None:
    with pytest.raises(ArgumentError, match=r"must lie in \[0, 1\)"):
        Dropout(p)
