"""The U-Net against its published sizes and a twin in PyTorch; images of any size; what is refused."""

import itertools
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.protocol import refining
from chainrule.models.vision.segmenter import Segmenter, SegmenterConfig, entry
from chainrule.networks.segmentation_unet import SegmentationUNet, valid_output, valid_size
from chainrule.nn import Conv, ConvTranspose

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
TOY: dict[str, Any] = {"width": 4, "depth": 2}


def schema(height: int, width: int, channels: int = 3, classes: int = 3) -> Schema:
    names = tuple(f"class {n}" for n in range(classes))
    return Schema("image", (height, width, channels), "mask", (height, width), classes=names)


def test_the_published_network_has_its_published_size() -> None:
    settings = entry.recipes["original"].model
    model = eqx.filter_eval_shape(Segmenter, SegmenterConfig(**settings), schema(572, 572, 1, 2), KEY)
    network = model.network
    leaves = jax.tree.leaves(network, is_leaf=lambda one: isinstance(one, Conv | ConvTranspose))
    layers = [one for one in leaves if isinstance(one, Conv | ConvTranspose)]
    assert len(layers) == 23
    arrays = jax.tree.leaves(eqx.filter(network, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
    assert sum(math.prod(one.shape) for one in arrays) == 31_030_658
    image = jax.ShapeDtypeStruct((1, 572, 572, 1), jnp.float32)
    assert eqx.filter_eval_shape(network.advance, image)[0].shape == (1, 388, 388, 2)
    whole = jax.ShapeDtypeStruct((1, 388, 388, 1), jnp.float32)
    assert eqx.filter_eval_shape(network.whole, whole)[0].shape == (1, 388, 388, 2)


def test_without_padding_the_middle_is_what_it_is_with_the_image_around_it() -> None:
    made = {"width": 2, "depth": 1, "normalization": "none", "act": "relu", "key": KEY}
    valid, same = (SegmentationUNet(1, 2, edges=edges, **made) for edges in ("valid", "same"))
    x = RNG.normal(size=(1, 32, 32, 1)).astype(np.float32)
    inner, full = (np.asarray(eqx.filter_jit(net.advance)(x)[0]) for net in (valid, same))
    lost = (32 - inner.shape[1]) // 2
    assert inner.shape == (1, 16, 16, 2)
    np.testing.assert_allclose(inner, full[:, lost:-lost, lost:-lost], atol=1e-5)


def test_sizes_without_padding_add_up() -> None:
    for depth, size in itertools.product((1, 2, 3), range(1, 120)):
        found = valid_output(size, depth)
        if found is not None:
            assert (
                found == size - 12 * 2**depth + 8
            )  # each level loses 4 on either way, seen from full resolution
    for depth, least in ((1, 7), (2, 64), (4, 388)):
        entering, leaving = valid_size(least, depth)
        assert leaving >= least
        assert valid_output(entering, depth) == leaving
        assert all((valid_output(n, depth) or 0) < least for n in range(1, entering))


@pytest.mark.parametrize("settings", [{}, {"edges": "valid"}])
@pytest.mark.parametrize("size", [(8, 8), (13, 9)])
def test_images_of_any_size_come_back_whole(size: tuple[int, int], settings: dict[str, Any]) -> None:
    model = Segmenter(SegmenterConfig(**TOY, **settings), schema(*size), KEY)
    x = RNG.random((2, *size, 3)).astype(np.float32)
    p = np.asarray(eqx.filter_jit(lambda m, x: m.predict(x))(model, x))
    assert p.shape == (2, *size, 3)
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-5)


def test_an_image_that_cannot_be_halved_so_often_is_refused_with_a_depth_that_works() -> None:
    with pytest.raises(ArgumentError, match=r"12×9 pixels cannot be halved 4 times") as caught:
        Segmenter(SegmenterConfig(width=2), schema(9, 12), KEY)
    assert "depth=3" in str(caught.value)
    assert Segmenter(SegmenterConfig(width=2, depth=3), schema(9, 12), KEY).network.depth == 3


@pytest.mark.parametrize("objective", ["dice", "cross-entropy", "border"])
def test_every_loss_has_a_gradient_and_does_not_see_what_is_left_out(objective: str) -> None:
    model = Segmenter(SegmenterConfig(**TOY, objective=objective), schema(16, 16), KEY)
    x = jnp.asarray(RNG.random((2, 16, 16, 3)), jnp.float32)
    y = RNG.integers(0, 3, (2, 16, 16)).astype(np.uint8)
    y[:, :4] = 255
    value, slope = eqx.filter_jit(
        eqx.filter_value_and_grad(lambda m: m.loss(Batch(x, jnp.asarray(y)), KEY)[0])
    )(model)
    assert np.isfinite(float(value))
    assert any(np.abs(np.asarray(leaf)).max() > 0 for leaf in jax.tree.leaves(slope))
    nothing = np.full_like(y, 255)
    assert float(model.loss(Batch(x, jnp.asarray(nothing)), KEY)[0]) == pytest.approx(0, abs=1.01)


def test_refined_predictions_are_those_of_the_random_field() -> None:
    model = Segmenter(SegmenterConfig(**TOY), schema(8, 8), KEY)
    x = jnp.asarray(RNG.random((2, 8, 8, 3)), jnp.float32)
    plain, fine = model.predict(x), refining(model).predict(x)
    assert fine.shape == plain.shape
    assert np.abs(np.asarray(fine) - np.asarray(plain)).max() > 1e-4
    off = Segmenter(SegmenterConfig(**TOY, potentials=(0, 1, 1, 0, 1), crf=True), schema(8, 8), KEY)
    np.testing.assert_allclose(off.predict(x), plain, atol=1e-5)


def test_a_twin_in_pytorch_gives_the_same_logits(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    functional = torch.nn.functional
    model = Segmenter(SegmenterConfig(**TOY, activation="relu", normalization="group"), schema(16, 16), KEY)
    noise = np.random.default_rng(1)
    model = jax.tree.map(
        lambda a: a + 0.1 * noise.random(a.shape, np.float32) if eqx.is_inexact_array(a) else a, model
    )
    file = tmp_path / "unet.safetensors"
    models.export_weights(model, file, layout="torch")
    w = safetensors.load_file(file)

    def block(name: str, x: Any) -> Any:
        for number in (0, 1):
            at = f"network.{name}.{number}"
            x = functional.conv2d(x, w[f"{at}.conv.weight"], w[f"{at}.conv.bias"], padding=1)
            groups = model.network.down[int(name[-1])][0].norm.groups if name.startswith("down") else None
            groups = groups or model.network.up[int(name[-1])][0].norm.groups
            x = torch.relu(functional.group_norm(x, groups, w[f"{at}.norm.weight"], w[f"{at}.norm.bias"]))
        return x

    x = RNG.random((2, 16, 16, 3)).astype(np.float32)
    h = torch.from_numpy(2 * x - 1).permute(0, 3, 1, 2)
    skips = []
    for level in range(3):
        h = block(f"down.{level}", functional.max_pool2d(h, 2) if level else h)
        skips.append(h)
    for step in range(2):
        at = f"network.rise.{step}"
        h = functional.conv_transpose2d(h, w[f"{at}.weight"], w[f"{at}.bias"], stride=2)
        h = block(f"up.{step}", torch.cat([skips[1 - step], h], dim=1))
    h = functional.conv2d(h, w["network.exit.weight"], w["network.exit.bias"])
    ours = np.asarray(model.outputs(jnp.asarray(x))[0])
    np.testing.assert_allclose(ours, h.permute(0, 2, 3, 1).numpy(), atol=1e-4)
    back = models.import_weights(Segmenter(model.config, model.schema, jax.random.key(9)), file).model
    np.testing.assert_allclose(back.outputs(jnp.asarray(x))[0], ours, atol=1e-6)
