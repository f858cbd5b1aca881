"""Initial weights: the variance each scheme promises, by fans and gain."""

import functools
import math

import jax
import numpy as np
import pytest

from chainrule.nn import LSTM, Conv, ConvTranspose, Linear
from chainrule.nn.initializers import fans, initializers

DENSE, CONVOLUTION = (300, 200), (3, 3, 40, 30)
GAIN = 1.7
KEY = jax.random.key(3)


@functools.cache
def draw(name: str, shape: tuple[int, ...], gain: float, seed: int = 0) -> np.ndarray:
    """Weights by a scheme."""
    return np.asarray(jax.jit(lambda key: initializers[name](key, shape, gain))(jax.random.key(seed)))


def variance(name: str, shape: tuple[int, ...], gain: float) -> float:
    """What the scheme promises."""
    fan_in, fan_out = fans(shape)
    return {
        "he": gain**2 / fan_in,
        "fan-in": gain**2 / fan_in,
        "xavier": gain**2 * 2 / (fan_in + fan_out),
        "lecun": 1 / fan_in,
        "torch": 1 / (3 * fan_in),
    }[name]


@pytest.mark.parametrize("name", ["fan-in", "he", "xavier", "lecun", "torch"])
@pytest.mark.parametrize("shape", [DENSE, CONVOLUTION])
def test_mean_and_variance_are_the_promised_ones(name: str, shape: tuple[int, ...]) -> None:
    weights = draw(name, shape, GAIN).astype(np.float64)
    expected, n = variance(name, shape, GAIN), weights.size
    assert weights.shape == shape
    assert abs(weights.mean()) < 4 * math.sqrt(expected / n)
    # The variance of a squared entry is at most 2 sigma^4 (normal; less for uniform).
    assert abs(np.square(weights).mean() - expected) < 4 * expected * math.sqrt(2 / n)


@pytest.mark.parametrize(
    ("name", "factor"),
    [("he", 2), ("fan-in", 1), ("lecun", 1), ("torch", 1 / 3), ("xavier", None), ("orthogonal", None)],
)
def test_layers_start_with_the_variance_of_their_scheme(name: str, factor: float | None) -> None:
    # With groups, an output sees the inputs of its own only.
    made = [
        (Linear(240, 200, key=KEY, initializer=name, bias=False), 240, 200),
        (Conv(2, 24, 30, 3, key=KEY, initializer=name, bias=False), 216, 270),
        (Conv(1, 120, 80, 5, groups=2, key=KEY, initializer=name, bias=False), 300, 400),
    ]
    for layer, fan_in, fan_out in made:
        weights = np.asarray(layer.weight, np.float64)
        expected = 2 / (fan_in + fan_out) if factor is None else factor / fan_in
        if name == "orthogonal":
            rows = weights.reshape(-1, weights.shape[-1]).shape
            expected = 1 / max(rows)
        assert np.square(weights).mean() == pytest.approx(expected, rel=6 * math.sqrt(2 / weights.size))


@pytest.mark.parametrize(("name", "factor"), [("he", 2), ("fan-in", 1)])
def test_transposed_convolutions_count_only_the_entries_that_reach_an_output(
    name: str, factor: float
) -> None:
    layer = ConvTranspose(2, 32, 16, 4, stride=2, key=KEY, initializer=name, bias=False)
    assert np.square(layer.weight).mean() == pytest.approx(factor / (32 * 16 / 4), rel=0.1)


def test_recurrent_layers_take_the_variance_of_the_scheme_too() -> None:
    layer = LSTM(50, 60, initializer="he", key=KEY)
    assert np.square(layer.inward.weight).mean() == pytest.approx(2 / 50, rel=0.1)
    assert np.square(layer.recurrent.weight).mean() == pytest.approx(2 / 60, rel=0.1)


def test_the_kernel_of_a_convolution_counts_towards_both_fans() -> None:
    assert fans((5, 3, 16, 32)) == (5 * 3 * 16, 5 * 3 * 32)
    assert fans((16, 32)) == (16, 32)


@pytest.mark.parametrize("shape", [DENSE, CONVOLUTION])
def test_uniform_schemes_stay_inside_their_limits_and_reach_them(shape: tuple[int, ...]) -> None:
    for name in ("xavier", "torch"):
        weights = draw(name, shape, GAIN)
        limit = math.sqrt(3 * variance(name, shape, GAIN))
        assert 0.99 * limit < np.abs(weights).max() <= limit * (1 + 1e-6)


@pytest.mark.parametrize("shape", [(64, 64), (64, 20), (20, 64)])
def test_orthogonal_weights_are_orthonormal_up_to_the_gain(shape: tuple[int, int]) -> None:
    weights = draw("orthogonal", shape, GAIN)
    small = weights.T @ weights if shape[0] >= shape[1] else weights @ weights.T
    np.testing.assert_allclose(small, GAIN**2 * np.eye(min(shape)), atol=1e-5)


def test_zero_is_zero() -> None:
    assert not draw("zero", DENSE, GAIN).any()


@pytest.mark.parametrize("name", initializers)
def test_the_same_key_gives_the_same_weights_and_another_key_others(name: str) -> None:
    scheme = jax.jit(lambda key: initializers[name](key, (6, 5), 1.0))
    one, same, other = (scheme(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert name == "zero" or not np.array_equal(one, other)
