"""Atrous convolution and the four versions: what kernels see, sizes, parameters, and rates beyond the map."""

import math
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.vision.deeplab import DeepLab, DeepLabConfig
from chainrule.nn import Conv

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
TOY: dict[str, Any] = {"depth": 8, "width": 2, "channels": 4}


def schema(side: int, classes: int = 3) -> Schema:
    names = tuple(f"class {n}" for n in range(classes))
    return Schema("image", (side, side, 3), "mask", (side, side), classes=names)


def shaped(side: int, classes: int = 3, **settings: Any) -> DeepLab:
    """A model of shapes alone."""
    return eqx.filter_eval_shape(DeepLab, DeepLabConfig(**settings), schema(side, classes), KEY)


def test_kernels_at_rates_1_2_4_8_see_31_pixels() -> None:
    layers = [
        Conv(2, 1, 1, 3, padding=rate, dilation=rate, bias=False, initializer="zero", key=KEY)
        for rate in (1, 2, 4, 8)
    ]
    ones = [eqx.tree_at(lambda layer: layer.weight, one, jnp.ones((3, 3, 1, 1))) for one in layers]

    def middle(x: jax.Array) -> jax.Array:
        for layer in ones:
            x = layer(x)
        return x[0, 30, 30, 0]

    seen = np.asarray(jax.jit(jax.grad(middle))(jnp.zeros((1, 61, 61, 1))))[0, :, :, 0] > 0
    assert seen[30].sum() == seen[:, 30].sum() == 31


@pytest.mark.parametrize("rate", [2, 3])
def test_an_atrous_kernel_is_the_one_with_zeros_between_its_entries(rate: int) -> None:
    layer = Conv(2, 3, 4, 3, padding=rate, dilation=rate, key=KEY)
    spread = np.zeros((2 * rate + 1, 2 * rate + 1, 3, 4), np.float32)
    assert spread.shape[0] == 3 + (3 - 1) * (rate - 1)
    spread[::rate, ::rate] = layer.weight
    filled = eqx.tree_at(
        lambda one: one.weight, Conv(2, 3, 4, 2 * rate + 1, padding=rate, key=KEY), jnp.asarray(spread)
    )
    filled = eqx.tree_at(lambda one: one.bias, filled, layer.bias)
    x = jnp.asarray(RNG.normal(size=(2, 12, 13, 3)), jnp.float32)
    np.testing.assert_allclose(layer(x), filled(x), atol=1e-5)


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v3+"])
def test_every_version_gives_each_pixel_of_an_image_a_class(version: str) -> None:
    model = DeepLab(DeepLabConfig(version=version, **TOY), schema(16), KEY)
    assert model.refine == (version in ("v1", "v2"))
    assert (model.decoder is not None) == (version == "v3+")
    x = RNG.random((2, 16, 16, 3)).astype(np.float32)
    p = np.asarray(eqx.filter_jit(lambda m, x: m.predict(x))(model, x))
    assert p.shape == (2, 16, 16, 3)
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-5)
    y = jnp.asarray(RNG.integers(0, 3, (2, 16, 16)), jnp.uint8)
    loss, _, moved = eqx.filter_jit(lambda m: m.loss_and_state(Batch(jnp.asarray(x), y), KEY))(model)
    assert np.isfinite(float(loss))
    before, after = (
        np.concatenate([np.ravel(a) for a in jax.tree.leaves(m.state())]) for m in (model, moved)
    )
    assert not np.array_equal(before, after)


def test_the_network_of_version_3_has_the_parameters_that_its_layers_have() -> None:
    model = shaped(513, 21, version="v3", depth=50, channels=256)
    weights = 23_508_032  # the residual network without its last layer
    weights += 2048 * 256 + 3 * 9 * 2048 * 256 + 2048 * 256 + 5 * 256 * 256 + 6 * 2 * 256 + 256 * 21 + 21
    leaves = jax.tree.leaves(eqx.filter(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
    state = jax.tree.leaves(eqx.filter(model.state(), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
    assert sum(math.prod(one.shape) for one in leaves) - sum(math.prod(one.shape) for one in state) == weights


@pytest.mark.parametrize(
    ("settings", "side", "cells", "rates"),
    [
        ({"depth": 50, "version": "v3"}, 513, 33, (6, 12, 18)),
        ({"depth": 50, "version": "v3", "output_stride": 8}, 513, 65, (12, 24, 36)),
        ({"depth": 50, "version": "v2"}, 321, 41, (6, 12, 18, 24)),
        ({"depth": 8, "version": "v3"}, 64, 16, (3, 6, 9)),
        ({"depth": 8, "version": "v3", "output_stride": 2}, 64, 32, (6, 12, 17)),
    ],
)
def test_rates_follow_the_output_stride(
    settings: dict[str, Any], side: int, cells: int, rates: tuple[int, ...]
) -> None:
    model = shaped(side, **settings)
    image = jax.ShapeDtypeStruct((1, side, side, 3), jnp.float32)
    first, last, _ = eqx.filter_eval_shape(model.backbone.advance, image, KEY)
    assert last.shape[1:3] == (cells, cells)
    assert first.shape[1] >= cells
    branches = (
        [one[0] for one in model.head.branches]
        if settings["version"] == "v2"
        else [one.conv for one in model.head.branches[1:]]
    )
    assert tuple(one.dilation[0] for one in branches) == rates


def test_a_rate_beyond_the_map_is_warned_of_and_acts_as_a_single_pixel() -> None:
    with pytest.warns(UserWarning, match=r"16 cells a side; a 3x3 kernel at rate 16, 20 reaches beyond it"):
        shaped(64, rates=(15, 16, 20), **TOY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shaped(64, rates=(15,), **TOY)
        shaped(64, **TOY)
    layer = Conv(2, 2, 3, 3, padding=16, dilation=16, key=KEY)
    x = jnp.asarray(RNG.normal(size=(1, 16, 16, 2)), jnp.float32)
    middle = np.einsum("bhwi,io->bhwo", np.asarray(x), np.asarray(layer.weight)[1, 1]) + np.asarray(
        layer.bias
    )
    np.testing.assert_allclose(layer(x), middle, atol=1e-5)


def test_an_output_stride_that_a_network_does_not_have_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"output_stride=8.*4 at most"):
        shaped(64, output_stride=8, **TOY)
    with pytest.raises(ArgumentError, match=r"output_stride=2.*take 4 already"):
        shaped(256, depth=50, output_stride=2)
