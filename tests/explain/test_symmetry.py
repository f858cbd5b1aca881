"""Shifts: convolutions move with their input, strides only with multiples, pooling to one number not at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.symmetry import equivariance, invariance
from chainrule.nn import Conv

X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 8, 8, 3)), jnp.float32)


def layer(stride: int, mode: str) -> Conv:
    return Conv(2, 3, 4, 3, stride=stride, padding=1, padding_mode=mode, key=jax.random.key(0))


def test_a_circular_convolution_moves_with_any_shift() -> None:
    assert equivariance(layer(1, "circular"), X, [(1, 0), (0, 3), (5, 2)]).max() < 1e-6


def test_zeros_at_the_edge_break_the_symmetry_there_and_only_there() -> None:
    shifts = [(1, 0), (0, 1)]
    assert equivariance(layer(1, "zeros"), X, shifts).min() > 0.05
    assert equivariance(layer(1, "zeros"), X, shifts, margin=2).max() < 1e-6


def test_a_stride_moves_with_its_multiples_only() -> None:
    assert equivariance(layer(2, "circular"), X, [(2, 0), (4, 6)]).max() < 1e-6
    with pytest.raises(ArgumentError, match="multiples of 2"):
        equivariance(layer(2, "circular"), X, [(1, 0)])


def test_means_over_the_image_do_not_notice() -> None:
    pooled = lambda x: layer(1, "circular")(x).mean(axis=(1, 2))  # noqa: E731
    assert invariance(pooled, X, [(1, 0), (3, 4)]).max() < 1e-5
    with pytest.raises(ArgumentError, match="use invariance"):
        equivariance(pooled, X, [(1, 0)])
