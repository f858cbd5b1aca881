"""The published networks: counts, shapes, and the outputs of PyTorch with the same weights."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.adversarial.dcgan.model import DCGAN, DCGANConfig, make_discriminator, make_generator
from chainrule.models.protocol import parameter_count
from chainrule.nn import Conv, ConvTranspose

KEY = jax.random.key(0)
COLOUR = Schema("image", (64, 64, 3), levels=256)
SMALL = {"latent": 6, "generator_width": 4, "discriminator_width": 4}


def test_the_published_sizes_have_the_published_counts() -> None:
    model = eqx.filter_eval_shape(DCGAN, DCGANConfig(), COLOUR, KEY)

    def trained(network: Any) -> int:
        norms = [s.norm.state() for s in network.stages]
        leaves = jax.tree.leaves(eqx.filter(network, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
        return sum(leaf.size for leaf in leaves) - sum(a.size for state in norms for a in state)

    assert trained(model.generator) == 3_576_704
    assert trained(model.discriminator) == 2_765_568


@pytest.mark.parametrize(
    ("inject", "judging", "added"),
    [
        pytest.param("norm", "projection", (11 * 32 + 33 * 2 * 4, 11 * 4), marks=pytest.mark.slow),
        ("concatenate", "concatenate", (11 * 32 + 32 * 4 * 16, 11 * 32 + 32 * 16)),
    ],
)
def test_a_class_reaches_both_players_and_adds_what_it_is_told_by(
    inject: str, judging: str, added: tuple[int, int]
) -> None:
    data = cr.data.load("digits")
    plain = cr.models.build("dcgan", data, **SMALL)
    model = cr.models.build("dcgan", data, conditional=True, inject=inject, judging=judging, **SMALL)
    sizes = [
        [tree.size(eqx.filter(part, eqx.is_inexact_array)) for part in (one.generator, one.discriminator)]
        for one in (plain, model)
    ]
    assert tuple(np.subtract(sizes[1], sizes[0])) == added
    z = model.noise(KEY, 3)
    assert not np.allclose(model.generate(z, "0"), model.generate(z, "7"))
    x = jnp.asarray(data.train.x[:3])
    assert not np.allclose(model.judge(x, "0"), model.judge(x, "7"))
    assert model.sample(KEY, 4).shape == (4, 8, 8, 1)
    assert sum(model.config.class_shares) == pytest.approx(1, abs=1e-4)
    with pytest.raises(ArgumentError, match="given a class or value"):
        model.generate(z)


def test_without_conditions_nothing_is_added_and_nothing_can_be_asked_for() -> None:
    schema = Schema("image", (8, 8, 1), "class", levels=17, classes=("a", "b"))
    one, other = (
        cr.models.build("dcgan", s, **SMALL) for s in (schema, Schema("image", (8, 8, 1), levels=17))
    )
    for mine, same in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(same))
    with pytest.raises(ArgumentError, match="trained without classes"):
        one.sample(KEY, 2, condition="a")
    with pytest.raises(CapabilityError, match="no classes or values"):
        cr.models.build("dcgan", Schema("image", (8, 8, 1), levels=17), conditional=True, **SMALL)
    with pytest.raises(ArgumentError, match="judging=concatenate: without conditions nothing reads it"):
        cr.models.build("dcgan", schema, judging="concatenate", **SMALL)


def test_parameters_are_counted_without_running_averages() -> None:
    schema = Schema("image", (8, 8, 1), levels=17)
    model = DCGAN(DCGANConfig(**SMALL), schema, KEY)
    everything = tree.size(eqx.filter(model, eqx.is_inexact_array))
    assert parameter_count(model) == everything - 2 * 4  # of one normalised layer of each size


@pytest.mark.parametrize("side", [8, 32])
def test_outputs_are_those_of_torch_with_the_same_weights(
    side: int, oracle: Callable[[str], ModuleType]
) -> None:
    torch = oracle("torch")
    nn = torch.nn
    schema = Schema("image", (side, side, 3), levels=256)
    config = DCGANConfig(**SMALL)
    ours = make_generator(config, schema, KEY), make_discriminator(config, schema, jax.random.key(1))
    theirs = []
    for network in ours:
        layers: list[Any] = []
        for stage in network.stages:
            layers.append(_convolution(nn, torch, stage.layer))
            if stage.norm.state():
                layers.append(nn.BatchNorm2d(len(stage.norm.scale)))
                with torch.no_grad():
                    layers[-1].weight.copy_(torch.tensor(np.array(stage.norm.scale)))
            names = {"relu": nn.ReLU(), "leaky-relu-0.2": nn.LeakyReLU(0.2), "identity": nn.Tanh()}
            layers.append(names[stage.activation])
        if network is ours[1]:
            layers.append(_convolution(nn, torch, network.head))
        theirs.append(nn.Sequential(*layers))
    z = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    images, moved = eqx.filter_jit(lambda g, z: g.advance(z, None))(ours[0], z)
    expected = theirs[0](torch.tensor(z)[:, :, None, None])
    np.testing.assert_allclose(images, expected.detach().numpy().transpose(0, 2, 3, 1), atol=1e-5)
    scores, _ = eqx.filter_jit(lambda d, x: d.advance(x, None))(ours[1], images)
    np.testing.assert_allclose(scores, theirs[1](expected).detach().numpy().ravel(), atol=1e-5)
    own = [s.norm for s in moved.stages if s.norm.state()]
    running = [layer for layer in theirs[0] if isinstance(layer, nn.BatchNorm2d)]
    for mine, other in zip(own, running, strict=True):
        np.testing.assert_allclose(mine.mean, other.running_mean.numpy(), atol=1e-5)
        np.testing.assert_allclose(mine.var, other.running_var.numpy(), atol=1e-5)


def _convolution(nn: Any, torch: Any, layer: Conv | ConvTranspose) -> Any:
    """A layer of PyTorch with the same weights: axes in another order, and nothing flipped.

    Both of ours are a convolution and its adjoint, so that kernels mean the same in both directions. Layers that
    compute a transposed convolution as a fractionally strided one have to flip them.
    """
    made = nn.ConvTranspose2d if isinstance(layer, ConvTranspose) else nn.Conv2d
    sides = (layer.inputs, layer.outputs)
    padding = layer.padding[0][0]
    found = made(*sides, 4, stride=layer.stride[0], padding=padding, bias=False)
    with torch.no_grad():
        found.weight.copy_(torch.tensor(np.array(layer.weight).transpose(3, 2, 0, 1)))
    return found


def test_the_transposed_convolution_is_the_adjoint_of_the_convolution_with_the_same_weight() -> None:
    noise = np.random.default_rng(0)
    back = ConvTranspose(2, 5, 3, 4, stride=2, padding=1, bias=False, key=KEY)
    there = Conv(2, 3, 5, 4, stride=2, padding=1, bias=False, key=KEY)
    there = eqx.tree_at(lambda layer: layer.weight, there, back.weight)
    x = noise.normal(size=(2, 8, 8, 3)).astype(np.float32)
    y = noise.normal(size=(2, 4, 4, 5)).astype(np.float32)
    left = np.vdot(np.asarray(eqx.filter_jit(there)(x)), y)
    right = np.vdot(x, np.asarray(eqx.filter_jit(back)(y)))
    assert left == pytest.approx(right, rel=1e-4)


def test_weights_begin_as_published() -> None:
    model = make_generator(DCGANConfig(), Schema("image", (16, 16, 1), levels=256), KEY)
    assert np.std(model.stages[0].layer.weight) == pytest.approx(0.02, rel=0.05)
    scale = np.asarray(model.stages[0].norm.scale)
    assert scale.mean() == pytest.approx(1, abs=0.01)
    assert scale.std() == pytest.approx(0.02, rel=0.2)


@pytest.mark.parametrize("resizing", ["pad", "resize"])
def test_other_sizes_are_refused_with_what_makes_them_fit(resizing: str) -> None:
    schema = Schema("image", (28, 28, 1), levels=256)
    with pytest.raises(CapabilityError, match="28×28") as error:
        cr.models.build("dcgan", schema, **SMALL)
    assert f"resizing={resizing}" in str(error.value)
    model = cr.models.build("dcgan", schema, resizing=resizing, **SMALL)
    assert model.sample(KEY, 2).shape == (2, 28, 28, 1)
    x = jax.random.uniform(KEY, (2, 28, 28, 1))
    assert model.to_networks(x).shape == (2, 32, 32, 1)
    back = model.from_networks(model.to_networks(x))
    if resizing == "pad":
        np.testing.assert_allclose(back, x, atol=1e-6)
        assert float(model.to_networks(x)[0, 0, 0, 0]) == -1


def test_images_without_checkerboards_have_the_same_size() -> None:
    schema = Schema("image", (16, 16, 1), levels=256)
    model = cr.models.build("dcgan", schema, upsampling="nearest", **SMALL)
    images = model.sample(KEY, 2)
    assert images.shape == (2, 16, 16, 1)
    assert ((images >= 0) & (images <= 1)).all()
    assert jnp.isfinite(model.judge(images)).all()
