"""Layers one after the other: which of them get a key, a whole batch, or their statistics moved."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from chainrule.core.errors import ArgumentError
from chainrule.nn.sequential import running_statistics

KEYS = jax.random.split(jax.random.key(0), 4)
X = jnp.asarray(np.random.default_rng(0).normal(size=(16, 3)), jnp.float32)


@pytest.fixture(scope="module")
def net() -> nn.Sequential:
    inner = nn.Sequential([nn.BatchNorm(5), nn.Dropout(0.5)])
    return nn.Sequential([nn.Linear(3, 5, key=KEYS[0]), inner, "relu", eqx.nn.Linear(5, 2, key=KEYS[1])])


def test_training_normalises_by_the_batch_drops_and_moves_statistics(net: nn.Sequential) -> None:
    advance = eqx.filter_jit(nn.Sequential.advance)
    out, moved = advance(net, X, KEYS[2])
    h = np.asarray(X) @ np.asarray(net.layers[0].weight)
    np.testing.assert_allclose(moved.layers[1].layers[0].mean, 0.1 * h.mean(axis=0), rtol=1e-4, atol=1e-6)
    other, _ = advance(net, X, KEYS[3])
    assert not np.allclose(out, other)
    np.testing.assert_array_equal(out, advance(net, X, KEYS[2])[0])


def test_predicting_drops_nothing_and_leaves_statistics_alone(net: nn.Sequential) -> None:
    first, last = net.layers[0], net.layers[3]
    h = np.maximum(np.asarray(X) @ np.asarray(first.weight) / np.sqrt(1 + 1e-5), 0)
    expected = h @ np.asarray(last.weight).T + np.asarray(last.bias)
    np.testing.assert_allclose(eqx.filter_jit(net)(X), expected, rtol=1e-4, atol=1e-5)
    out, moved = eqx.filter_jit(nn.Sequential.advance)(eqx.nn.inference_mode(net), X, KEYS[2])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(moved.layers[1].layers[0].mean, np.zeros(5))


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ArgumentError, match="layer 1 is a int"):
        nn.Sequential([nn.Linear(3, 5, key=KEYS[0]), 3])
    with pytest.raises(ArgumentError, match="did you mean 'relu'"):
        nn.Sequential(["rellu"])


def test_a_skip_holds_its_layers_and_moves_their_statistics() -> None:
    branch = nn.Sequential([nn.Linear(3, 3, key=KEYS[0]), nn.BatchNorm(3)])
    net = nn.Sequential([nn.residual(branch, nn.Linear(3, 3, key=KEYS[1]))])
    weights = [leaf for leaf in jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array)) if leaf.ndim == 2]
    assert len(weights) == 2
    out, moved = eqx.filter_jit(nn.Sequential.advance)(net, X, KEYS[2])
    parts = branch.advance(X, KEYS[2])[0] + net.layers[0].shortcut(X)
    np.testing.assert_allclose(out, parts, rtol=1e-4, atol=1e-5)
    assert np.abs(moved.layers[0].f.layers[1].mean).sum() > 0
    assert len(running_statistics(net)) == len(branch.layers[1].state())


def test_a_spectral_norm_follows_its_weight() -> None:
    layer = nn.SpectralNorm(nn.Linear(3, 3, key=KEYS[0]), key=KEYS[1], iterations=1)
    net = nn.Sequential([layer])
    _, moved = eqx.filter_jit(nn.Sequential.advance)(net, X, KEYS[2])
    np.testing.assert_array_equal(
        moved.layers[0].left, eqx.filter_jit(nn.SpectralNorm.advance)(layer, X)[1].left
    )
    assert not np.array_equal(moved.layers[0].left, layer.left)
    _, still = eqx.filter_jit(nn.Sequential.advance)(eqx.nn.inference_mode(net), X, KEYS[2])
    np.testing.assert_array_equal(still.layers[0].left, layer.left)
    assert len(running_statistics(net)) == 2


def test_a_residual_block_drops_its_branch_while_training() -> None:
    block = nn.ResidualBlock(2, 2, stochastic_depth=0.5, normalization="none", key=KEYS[0])
    net, x = nn.Sequential([block]), jnp.ones((8, 4, 4, 2))
    advance = eqx.filter_jit(nn.Sequential.advance)
    assert not np.array_equal(advance(net, x, KEYS[1])[0], advance(net, x, KEYS[2])[0])
    np.testing.assert_array_equal(net(x)[0], net(x)[1])
