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
QUERIES, KEYS, VALUES = (jnp.asarray(RNG.normal(size=shape)) for shape in ((4, 3), (9, 3), (9, 2)))


def test_keys_of_equal_length_make_the_gaussian_the_kernel_of_attention() -> None:
    keys = 2 * KEYS / jnp.linalg.norm(KEYS, axis=1, keepdims=True)
    same = smoothing_weights(QUERIES, keys, exponential(0.7**2))
    np.testing.assert_allclose(smoothing_weights(QUERIES, keys, gaussian(0.7)), same, atol=1e-12)
    different = smoothing_weights(QUERIES, KEYS, exponential(0.7**2))
    assert float(jnp.abs(smoothing_weights(QUERIES, KEYS, gaussian(0.7)) - different).max()) > 0.01


def test_softmax_attention_is_regression_with_the_exponential_kernel() -> None:
    expected = attend(QUERIES, KEYS, VALUES)
    np.testing.assert_allclose(smooth(QUERIES, KEYS, VALUES, exponential(3**0.5)), expected, atol=1e-14)


@pytest.mark.parametrize("kernel", [gaussian, laplace])
def test_narrow_kernels_take_the_nearest_and_wide_ones_the_mean(kernel) -> None:
    order = 2 if kernel is gaussian else 1
    nearest = np.linalg.norm(
        np.asarray(QUERIES)[:, None] - np.asarray(KEYS)[None], ord=order, axis=-1
    ).argmin(axis=1)
    np.testing.assert_allclose(smooth(QUERIES, KEYS, VALUES, kernel(1e-3)), VALUES[nearest], atol=1e-12)
    mean = jnp.broadcast_to(VALUES.mean(axis=0), (4, 2))
    np.testing.assert_allclose(smooth(QUERIES, KEYS, VALUES, kernel(1e6)), mean, atol=1e-5)


def test_with_keys_for_values_points_shift_to_where_keys_are_dense() -> None:
    keys = jnp.asarray(np.concatenate([RNG.normal(-3, 0.3, (50, 1)), RNG.normal(3, 0.3, (50, 1))]))
    points = jnp.array([[-2.0], [2.2]])
    for _ in range(30):
        points = smooth(points, keys, keys, gaussian(0.5))
    np.testing.assert_allclose(points[:, 0], [-3, 3], atol=0.2)


def test_leaving_one_out_predicts_each_value_from_the_others() -> None:
    errors = []
    for i in range(len(KEYS)):
        rest = np.delete(np.arange(len(KEYS)), i)
        predicted = smooth(KEYS[i : i + 1], KEYS[rest], VALUES[rest], gaussian(0.8))
        errors.append(float(jnp.square(predicted - VALUES[i : i + 1]).sum()))
    assert float(leave_one_out(KEYS, VALUES, gaussian(0.8))) == pytest.approx(np.mean(errors), abs=1e-12)


def test_the_fitted_width_is_the_best_of_all_and_suits_the_data() -> None:
    x = jnp.linspace(0, 1, 60)[:, None]
    y = jnp.sin(12 * x) + 0.2 * jnp.asarray(RNG.normal(size=(60, 1)))
    sigma = fit_bandwidth(x, y)
    error = jax.jit(lambda s: leave_one_out(x, y, gaussian(s)))
    best = float(error(sigma))
    assert all(best <= float(error(s)) + 1e-9 for s in np.geomspace(1e-3, 10, 60))
    assert 0.01 < sigma < 0.2


def test_data_that_cannot_be_smoothed_are_refused() -> None:
    with pytest.raises(ArgumentError, match="9 keys but 8 values"):
        smooth(QUERIES, KEYS, VALUES[:8], gaussian(1.0))
    with pytest.raises(ArgumentError, match="too few"):
        fit_bandwidth(KEYS[:2], VALUES[:2])
    with pytest.raises(ArgumentError, match="equal"):
        fit_bandwidth(jnp.zeros((5, 1)), VALUES[:5])
