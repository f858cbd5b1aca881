"""Kernel regression: its limits, its likeness to attention, and a width found by leaving one out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import (
    exponential,
    fit_bandwidth,
    gaussian,
    laplace,
    leave_one_out,
    smooth,
    smoothing_weights,
)
from chainrule.nn.attention import attend

RNG = np.random.default_rng(0)


@pytest.fixture(name="drawn")
def _drawn() -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries, keys and values."""
    generator = np.random.default_rng(1)
    first, second, third = (generator.normal(size=shape) for shape in ((4, 3), (9, 3), (9, 2)))
    return jnp.asarray(first), jnp.asarray(second), jnp.asarray(third)


def test_keys_of_equal_length_make_the_gaussian_the_kernel_of_attention(drawn) -> None:
    queries, keys, _ = drawn
    equal = 2 * keys / jnp.linalg.norm(keys, axis=1, keepdims=True)
    same = smoothing_weights(queries, equal, exponential(0.7**2))
    np.testing.assert_allclose(smoothing_weights(queries, equal, gaussian(0.7)), same, atol=1e-12)
    different = smoothing_weights(queries, keys, exponential(0.7**2))
    assert float(jnp.abs(smoothing_weights(queries, keys, gaussian(0.7)) - different).max()) > 0.01


def test_softmax_attention_is_regression_with_the_exponential_kernel(drawn) -> None:
    queries, keys, values = drawn
    expected = attend(queries, keys, values)
    np.testing.assert_allclose(smooth(queries, keys, values, exponential(3**0.5)), expected, atol=1e-14)


@pytest.mark.parametrize("kernel", [gaussian, laplace])
def test_narrow_kernels_take_the_nearest_and_wide_ones_the_mean(kernel, drawn) -> None:
    queries, keys, values = drawn
    order = 2 if kernel is gaussian else 1
    nearest = np.linalg.norm(
        np.asarray(queries)[:, None] - np.asarray(keys)[None], ord=order, axis=-1
    ).argmin(axis=1)
    np.testing.assert_allclose(smooth(queries, keys, values, kernel(1e-3)), values[nearest], atol=1e-12)
    mean = jnp.broadcast_to(values.mean(axis=0), (4, 2))
    np.testing.assert_allclose(smooth(queries, keys, values, kernel(1e6)), mean, atol=1e-5)


def test_with_keys_for_values_points_shift_to_where_keys_are_dense() -> None:
    keys = jnp.asarray(np.concatenate([RNG.normal(-3, 0.3, (50, 1)), RNG.normal(3, 0.3, (50, 1))]))
    points = jnp.array([[-2.0], [2.2]])
    for _ in range(30):
        points = smooth(points, keys, keys, gaussian(0.5))
    np.testing.assert_allclose(points[:, 0], [-3, 3], atol=0.2)


def test_leaving_one_out_predicts_each_value_from_the_others(drawn) -> None:
    _, keys, values = drawn
    errors = []
    for i in range(len(keys)):
        rest = np.delete(np.arange(len(keys)), i)
        predicted = smooth(keys[i : i + 1], keys[rest], values[rest], gaussian(0.8))
        errors.append(float(jnp.square(predicted - values[i : i + 1]).sum()))
    assert float(leave_one_out(keys, values, gaussian(0.8))) == pytest.approx(np.mean(errors), abs=1e-12)


def test_the_fitted_width_is_the_best_of_all_and_suits_the_data() -> None:
    x = jnp.linspace(0, 1, 60)[:, None]
    y = jnp.sin(12 * x) + 0.2 * jnp.asarray(RNG.normal(size=(60, 1)))
    sigma = fit_bandwidth(x, y)
    error = jax.jit(lambda s: leave_one_out(x, y, gaussian(s)))
    best = float(error(sigma))
    assert all(best <= float(error(s)) + 1e-9 for s in np.geomspace(1e-3, 10, 60))
    assert 0.01 < sigma < 0.2


def test_data_that_cannot_be_smoothed_are_refused(drawn) -> None:
    queries, keys, values = drawn
    with pytest.raises(ArgumentError, match="9 keys but 8 values"):
        smooth(queries, keys, values[:8], gaussian(1.0))
    with pytest.raises(ArgumentError, match="too few"):
        fit_bandwidth(keys[:2], values[:2])
    with pytest.raises(ArgumentError, match="equal"):
        fit_bandwidth(jnp.zeros((5, 1)), values[:5])
