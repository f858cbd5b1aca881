"""Networks that denoise: shapes, what a fresh one says, conditions, padding, and the numbers PyTorch gives."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import Schema
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser, NetworkDenoiser
from chainrule.models.diffusion.denoisers.selection import network_denoiser
from chainrule.models.diffusion.process import Level
from chainrule.networks.conditions import condition_encoder
from chainrule.networks.dit import DiT
from chainrule.networks.mlp import ResidualMLP
from chainrule.networks.unet import AttentionBlock, UNet, UNetBlock

KEY = jax.random.key(0)
IMAGE = Schema("image", (8, 8, 1), target="class", classes=("a", "b"), levels=17)


@eqx.filter_jit
def predict(net: LearnedDenoiser, x: jax.Array, level: Level, condition: Any = None) -> jax.Array:
    return net.predict(x, level, condition)


def shaken(tree: Any, size: float = 0.2) -> Any:
    """The same with arrays off their initial values: a fresh network predicts zero whatever it is asked."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)

    def moved(a: jax.Array) -> jax.Array:  # on the host, where no shape needs a program of its own
        return jnp.asarray((np.asarray(a) + size * noise.normal(size=a.shape)).astype(a.dtype))

    return eqx.combine(jax.tree.map(moved, arrays), rest)


@pytest.fixture(scope="module", params=["mlp", "unet", "dit"])
def small(request: pytest.FixtureRequest) -> LearnedDenoiser:
    return network_denoiser(request.param, IMAGE, KEY, read=condition_encoder(IMAGE), width=8, depth=1)


def test_a_fresh_network_predicts_nothing_and_a_trained_one_heeds_level_and_class(
    small: LearnedDenoiser,
) -> None:
    x = jax.random.normal(KEY, (3, 8, 8, 1))
    levels = Level(jnp.array([0.6, 0.8, 0.8]), jnp.array([0.8, 0.6, 0.6]))
    same = jnp.repeat(x[:1], 3, axis=0)
    assert np.array_equal(predict(small, same, levels, jnp.array([0, 0, 1])), np.zeros((3, 8, 8, 1)))
    trained = shaken(small)
    out = predict(trained, same, levels, jnp.array([0, 0, 1]))
    assert not np.allclose(out[0], out[1])
    assert not np.allclose(out[1], out[2])
    none = predict(trained, same, levels, small.null(jnp.array([0, 0, 1])))
    np.testing.assert_allclose(none, predict(trained, same, levels), rtol=1e-6)


def test_the_network_is_chosen_by_the_data() -> None:
    def chosen(name: str, schema: Schema) -> NetworkDenoiser:
        return eqx.filter_eval_shape(network_denoiser, name, schema, KEY, width=8)

    assert isinstance(chosen("auto", IMAGE).body, ResidualMLP)
    assert isinstance(chosen("auto", Schema("image", (20, 20, 1))).body, UNet)
    assert isinstance(chosen("dit", IMAGE).body, DiT)
    with pytest.raises(ArgumentError, match="these are table data"):
        network_denoiser("unet", Schema("table", (3,)), KEY)


def test_a_picture_that_cannot_be_halved_is_padded_on_request() -> None:
    with pytest.raises(ArgumentError, match=r"cannot be halved 2 times\n.*makes it 20 x 24"):
        UNet((18, 22, 1), widths=(4, 4, 4), key=KEY)
    padded = eqx.filter_eval_shape(UNet, (18, 22, 1), widths=(4, 4, 4), pad=True, key=KEY)
    out = eqx.filter_eval_shape(
        predict, NetworkDenoiser(padded, "v"), jnp.ones((2, 18, 22, 1)), Level(0.6, 0.8)
    )
    assert out.shape == (2, 18, 22, 1)


def test_waves_of_the_input_and_coordinates_stand_beside_it() -> None:
    net = eqx.filter_eval_shape(UNet, (4, 4, 2), widths=(4, 4), fourier=(2, 3), coordinates=True, key=KEY)
    x = jnp.full((1, 4, 4, 2), 0.125)
    seen = np.asarray(net.inputs(x))
    assert seen.shape == (1, 4, 4, 2 * 5 + 2)
    np.testing.assert_allclose(seen[0, 0, 0, :10], [0.125] * 2 + [1] * 2 + [0] * 4 + [-1] * 2, atol=1e-6)
    np.testing.assert_allclose(seen[0, :, 0, 10], [-1, -1 / 3, 1 / 3, 1], atol=1e-6)


@pytest.mark.slow
def test_a_unet_before_training_heeds_neither_level_nor_class() -> None:
    net = eqx.filter_jit(UNet)((4, 4, 1), widths=(4, 8), read=condition_encoder(IMAGE), key=KEY)
    # All but the layers that scale and shift by the level and the class, which start at zero.
    moved = shaken(net)
    moved = eqx.tree_at(_films, moved, _films(net))
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    run = eqx.filter_jit(moved)
    one, other = run(x, jnp.array(0.0), jnp.array([0, 1])), run(x, jnp.array(3.0), jnp.array([1, 0]))
    assert np.abs(one).max() > 0
    np.testing.assert_array_equal(one, other)


def _films(net: UNet) -> list[Any]:
    stages = (*net.encoder.stages, net.encoder.middle, *net.decoder.stages)
    return [block.film for stage in stages for block in stage.blocks]


def test_patches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="patch=2: squares of this side do not cover images of 7×8"):
        DiT((7, 8, 1), key=KEY)


@pytest.fixture(scope="module")
def torch(oracle: Callable[[str], ModuleType]) -> ModuleType:
    return oracle("torch")


def _theirs(torch: ModuleType, array: Any) -> Any:
    return torch.tensor(np.asarray(array))


def _conv(torch: ModuleType, layer: Any, x: Any) -> Any:
    weight = _theirs(torch, np.transpose(layer.weight, (3, 2, 0, 1)).copy())
    return torch.nn.functional.conv2d(
        x, weight, _theirs(torch, layer.bias), padding=layer.weight.shape[0] // 2
    )


def _norm(torch: ModuleType, layer: Any, x: Any) -> Any:
    scale, shift = _theirs(torch, layer.scale), _theirs(torch, layer.shift)
    return torch.nn.functional.group_norm(x, layer.groups, scale, shift, layer.eps)


def test_blocks_of_the_unet_give_the_numbers_of_pytorch(torch: ModuleType) -> None:
    functional = torch.nn.functional
    block = shaken(UNetBlock(8, 16, 5, KEY))
    attention = shaken(AttentionBlock(16, KEY))
    draw = np.random.default_rng(1)
    x, c = draw.normal(size=(2, 4, 6, 8)), draw.normal(size=(2, 5))
    ours = eqx.filter_jit(lambda x, c: attention(block(x, c)))(jnp.asarray(x), jnp.asarray(c))
    inside = _theirs(torch, np.moveaxis(x, -1, 1).copy())
    h = _conv(torch, block.convs[0], functional.silu(_norm(torch, block.norms[0], inside)))
    film = _theirs(torch, c) @ _theirs(torch, block.film.weight) + _theirs(torch, block.film.bias)
    scale, shift = film[:, :, None, None].chunk(2, dim=1)
    h = _conv(torch, block.convs[1], functional.silu((1 + scale) * _norm(torch, block.norms[1], h) + shift))
    h = _conv(torch, block.skip, inside) + h
    flat = _norm(torch, attention.norm, h).flatten(2).transpose(1, 2)
    layer = attention.attention
    mixed = flat @ _theirs(torch, layer.inward.weight) + _theirs(torch, layer.inward.bias)
    gathered = functional.scaled_dot_product_attention(*mixed.chunk(3, dim=2))
    gathered = gathered @ _theirs(torch, layer.outward.weight) + _theirs(torch, layer.outward.bias)
    gathered = gathered.transpose(1, 2).reshape(h.shape)
    theirs = h + _theirs(torch, attention.gate)[None, :, None, None] * gathered
    np.testing.assert_allclose(np.moveaxis(np.asarray(ours), -1, 1), theirs.numpy(), rtol=1e-9, atol=1e-9)
