"""Weights as functions of what is trained."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import Conv, ConvTranspose, Linear, SpectralNorm, WeightNorm

KEY = jax.random.key(0)
LAYERS = [Linear(6, 4, key=KEY), Conv(2, 3, 5, 3, key=KEY)]
PAIRS = list(zip(LAYERS, [jax.random.normal(KEY, (7, 6)), jax.random.normal(KEY, (2, 5, 5, 3))], strict=True))


@pytest.mark.parametrize(("layer", "x"), PAIRS, ids=["linear", "conv"])
def test_length_and_direction_are_trained_apart(layer: Any, x: jax.Array) -> None:
    split, expected = WeightNorm(layer), eqx.filter_jit(layer)(x)
    np.testing.assert_allclose(eqx.filter_jit(split)(x), expected, rtol=1e-4, atol=1e-5)
    longer = eqx.tree_at(lambda s: s.layer.weight, split, 3 * layer.weight)
    np.testing.assert_allclose(eqx.filter_jit(longer)(x), expected, rtol=1e-4, atol=1e-5)
    doubled = eqx.tree_at(lambda s: s.scale, split, 2 * split.scale)
    np.testing.assert_allclose(doubled.weight, 2 * layer.weight, rtol=1e-5)
    slope = eqx.filter_jit(jax.grad(lambda s: jnp.square(s(x)).sum()))(split)
    along = np.sum(slope.layer.weight * layer.weight, axis=tuple(range(layer.weight.ndim - 1)))
    np.testing.assert_allclose(along, np.zeros_like(along), atol=1e-3)  # directions turn, they do not grow


@pytest.mark.parametrize(("layer", "x"), PAIRS, ids=["linear", "conv"])
def test_the_largest_singular_value_becomes_one(layer: Any, x: jax.Array) -> None:
    norm = SpectralNorm(layer, key=KEY, iterations=1)
    advance = eqx.filter_jit(lambda norm, x: norm.advance(x))
    for _ in range(40):
        out, norm = advance(norm, x)
    matrix = np.asarray(norm.weight).reshape(-1, norm.weight.shape[-1])
    assert np.linalg.svd(matrix, compute_uv=False)[0] == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(out, eqx.filter_jit(norm)(x), rtol=1e-4, atol=1e-5)
    assert [a.shape for a in norm.state()] == [(matrix.shape[0],), (matrix.shape[1],)]
    slope = eqx.filter_jit(jax.grad(lambda n: n(x).sum()))(norm)
    assert all(not np.asarray(a).any() for a in (slope.left, slope.right))


def test_the_gradient_of_the_largest_singular_value_is_the_product_of_its_vectors() -> None:
    norm = SpectralNorm(LAYERS[0], key=KEY, iterations=200)
    slope = eqx.filter_jit(jax.grad(lambda n: n.largest))(norm).layer.weight
    u, s, v = np.linalg.svd(np.asarray(LAYERS[0].weight))
    np.testing.assert_allclose(slope, np.outer(u[:, 0], v[0]), atol=1e-3)
    assert float(norm.largest) == pytest.approx(s[0], rel=1e-5)


def test_with_the_size_of_images_it_is_the_norm_of_the_convolution_itself() -> None:
    layer = Conv(2, 2, 3, 3, padding=1, stride=2, key=KEY)
    images = np.eye(5 * 5 * 2, dtype=np.float32).reshape(-1, 5, 5, 2)
    bias = np.asarray(layer.bias)
    matrix = (np.asarray(eqx.filter_jit(layer)(images)) - bias).reshape(len(images), -1)
    exact = np.linalg.svd(matrix, compute_uv=False)[0]
    whole = SpectralNorm(layer, key=KEY, iterations=100, sizes=(5, 5))
    assert float(whole.largest) == pytest.approx(exact, rel=1e-4)
    assert float(SpectralNorm(layer, key=KEY, iterations=100).largest) < exact
    _, moved = eqx.filter_jit(lambda norm, x: norm.advance(x))(whole, images[:2])
    assert float(moved.largest) == pytest.approx(exact, rel=1e-4)
    with pytest.raises(ArgumentError, match="a dense layer has no images"):
        SpectralNorm(LAYERS[0], key=KEY, sizes=(5, 5))


def test_a_scaled_spectral_norm_stretches_by_its_factor_and_learns_it() -> None:
    norm = SpectralNorm(LAYERS[0], key=KEY, iterations=200, scaled=True)
    plain = SpectralNorm(LAYERS[0], key=KEY, iterations=200)
    np.testing.assert_array_equal(norm.weight, plain.weight)
    stretched = eqx.tree_at(lambda n: n.scale, norm, jnp.asarray(3.0))
    np.testing.assert_allclose(np.linalg.norm(np.asarray(stretched.weight), 2), 3, rtol=1e-4)
    slope = eqx.filter_grad(lambda n: (n.weight * plain.weight).sum())(norm)
    np.testing.assert_allclose(slope.scale, np.square(plain.weight).sum(), rtol=1e-5)


def test_one_power_iteration_is_that_of_torch(oracle: Callable[[str], ModuleType]) -> None:
    torch = oracle("torch")
    layer = Linear(6, 4, key=KEY)
    theirs = torch.nn.Linear(6, 4)
    with torch.no_grad():
        theirs.weight.copy_(torch.from_numpy(np.array(layer.weight).T))
    theirs = torch.nn.utils.spectral_norm(theirs, n_power_iterations=1)
    ours = SpectralNorm(layer, key=KEY, iterations=1)
    ours = eqx.tree_at(lambda n: n.right, ours, jnp.asarray(theirs.weight_u.numpy()))
    x = np.ones((2, 6), np.float32)
    out, moved = eqx.filter_jit(lambda norm, x: norm.advance(x))(ours, x)
    theirs.train()
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(moved.right, theirs.weight_u.numpy(), atol=1e-6)
    np.testing.assert_allclose(moved.left, theirs.weight_v.numpy(), atol=1e-6)
    weight = theirs.weight.detach().numpy().T
    np.testing.assert_allclose(moved.weight, weight, atol=1e-6)
    assert expected.shape == out.shape


def test_layers_that_cannot_be_normalised_are_refused() -> None:
    with pytest.raises(ArgumentError, match="takes a Linear or Conv layer, not ConvTranspose"):
        SpectralNorm(ConvTranspose(2, 3, 4, 2, stride=2, key=KEY), key=KEY)
    dead = eqx.tree_at(lambda layer: layer.weight, LAYERS[0], jnp.zeros((6, 4)))
    with pytest.raises(ArgumentError, match="has no direction"):
        WeightNorm(dead)
