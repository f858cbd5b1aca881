"""Networks of finite width come near the limit, at the rates that theory gives."""

import jax
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels.infinite import Dense, gradient_descent
from chainrule.kernels.widths import predicted, trained_networks, width_study

NOISE = np.random.default_rng(0)


def circle(count: int) -> np.ndarray:
    angles = NOISE.uniform(0, 2 * np.pi, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


X, NEW = circle(5), circle(3)
Y = np.array([1.0, -1.0, 0.5, -0.5, 1.0])
NETWORK = Dense(1, "relu")


@pytest.fixture(scope="module", autouse=True)
def _single_precision() -> object:
    with jax.enable_x64(False):
        yield


def test_everything_that_separates_a_network_from_the_limit_falls_with_its_width() -> None:
    narrow, wide = width_study(NETWORK, X, Y, NEW, widths=(8, 512), draws=24, steps=30, key=jax.random.key(0))
    for measure in ("covariance_error", "kurtosis", "kernel_spread", "drift", "distance"):
        assert getattr(wide, measure) < getattr(narrow, measure) / 3, measure
    assert wide.kernel_error < 0.05
    # Spread falls as width^(-1/2), kurtosis as width^(-1).
    assert narrow.kernel_spread / wide.kernel_spread == pytest.approx(8, rel=0.5)
    assert narrow.kurtosis / wide.kurtosis == pytest.approx(64, rel=0.7)


def test_the_prediction_from_given_outputs_averages_to_that_of_the_ensemble() -> None:
    """Mean and covariance over starts from the kernel of outputs are those of the closed form."""
    everything = np.concatenate([X, NEW])
    with jax.enable_x64(True):
        covariance = np.asarray(NETWORK.nngp(everything.astype(np.float64)))
    starts = np.random.default_rng(1).multivariate_normal(np.zeros(8), covariance, size=20_000)
    found = predicted(NETWORK, X, Y, NEW, starts, 12, 0.1)
    mean, expected = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, 12, learning_rate=0.1, discrete=True)(
        everything
    )
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(found.T), expected, atol=0.04)


def test_records_are_those_of_one_training() -> None:
    arguments = {"draws": 2, "learning_rate": 0.05}
    key = jax.random.key(3)
    many = trained_networks(NETWORK, 8, key, X, Y, NEW, steps=(0, 3, 7), **arguments)
    last = trained_networks(NETWORK, 8, key, X, Y, NEW, steps=(7,), **arguments)
    assert many.outputs.shape == (2, 3, 8)
    np.testing.assert_allclose(many.outputs[:, -1], last.outputs[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(many.before, last.before, rtol=1e-4)


@pytest.mark.slow
def test_kernels_of_networks_two_thousand_wide_are_those_of_the_limit_on_average() -> None:
    study = width_study(Dense(3, "relu"), X, Y, NEW, widths=(2048,), draws=8, steps=1, key=jax.random.key(0))
    assert study[0].kernel_spread < 0.1
    assert study[0].kernel_error < 3 * study[0].kernel_spread / np.sqrt(8)


def test_targets_and_steps_that_do_not_fit_are_refused() -> None:
    arguments = {"draws": 2, "learning_rate": 0.05}
    with pytest.raises(ArgumentError, match=r"targets of shape \(5, 2\) for 5 points"):
        trained_networks(NETWORK, 8, jax.random.key(0), X, np.ones((5, 2)), NEW, steps=(1,), **arguments)
    with pytest.raises(ArgumentError, match=r"counted upwards"):
        trained_networks(NETWORK, 8, jax.random.key(0), X, Y, NEW, steps=(3, 1), **arguments)
