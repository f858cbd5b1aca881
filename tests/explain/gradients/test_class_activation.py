"""Class activation maps: equal where theory says so, layers by name, images of runs in raw units."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, explain, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.explain.methods import taps
from chainrule.train import Run, keep

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 8, 8, 2)).astype(np.float32)
KERNEL = RNG.normal(size=(3, 3, 2, 5)).astype(np.float32)
HEAD = RNG.normal(size=(5, 4)).astype(np.float32)
TARGET = np.array([3, 0, 2])


def maps(x: jax.Array) -> jax.Array:
    return jax.nn.relu(
        jax.lax.conv_general_dilated(x, KERNEL, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    )


def pooled(x: jax.Array) -> jax.Array:
    return maps(x).mean(axis=(1, 2)) @ HEAD


def test_on_a_pooled_linear_head_grad_cam_is_the_class_activation_map_up_to_the_number_of_positions() -> None:
    own = np.einsum("bhwk,bk->bhw", np.asarray(maps(X)), HEAD[:, TARGET].T)
    written = np.asarray(jax.image.resize(own, (3, 8, 8), "bilinear"))
    found = np.asarray(explain.class_activation_map(pooled, X, TARGET))
    np.testing.assert_allclose(found, written, rtol=1e-4, atol=1e-5)
    assert (found < 0).any()
    coarse = np.asarray(jax.image.resize(np.maximum(own, 0), (3, 8, 8), "bilinear"))
    np.testing.assert_allclose(
        16 * np.asarray(explain.grad_cam(pooled, X, -1, TARGET)), coarse, rtol=1e-4, atol=1e-5
    )


def test_a_head_that_is_not_pooled_has_no_class_activation_map() -> None:
    flat = lambda x: maps(x).reshape(3, 80)[:, :4] ** 2  # noqa: E731
    with pytest.raises(CapabilityError, match="differs between positions"):
        explain.class_activation_map(flat, X, TARGET)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("cnn", digits, stages=2, blocks=1, width=4)
    return keep(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", origin={})


def test_a_layer_by_name_is_the_same_as_by_number_and_a_run_takes_raw_images(run: Run) -> None:
    model: Any = run.model
    x = jnp.asarray(run.data.test.batch(np.arange(3)).x)
    names = taps.names(model, lambda model: model.logits(x))
    rectified = [name for name in names if name.endswith(".relu")]
    by_number = explain.grad_cam(model, x, 1, 3)
    np.testing.assert_allclose(explain.grad_cam(model, x, rectified[1], 3), by_number, rtol=1e-5, atol=1e-7)
    raw = np.asarray(run.data.test.arrays["x"][:3], np.float32)
    np.testing.assert_allclose(explain.grad_cam(run, raw, 1, "3"), by_number, rtol=1e-3, atol=1e-5)
    before = np.asarray(explain.grad_cam(model, x, "stages.1.0.conv", 3))
    assert before.shape == (3, 8, 8)
    assert not np.allclose(before, by_number)  # not rectified yet


def test_patches_of_a_vision_transformer_are_a_map() -> None:
    digits = data.load("digits")
    model: Any = models.build("vit", digits, layers=1, heads=2, width=8, patch=2)
    x = jnp.asarray(digits.test.batch(np.arange(2)).x)
    found = np.asarray(explain.grad_cam(model, x, "blocks.0", np.array([1, 2])))
    assert found.shape == (2, 8, 8)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": "conv7"}, "there is no tap 'conv7'"),
        ({"layer": "head"}, "which is no feature map"),
        ({"layer": 2}, "the network has 2 rectified layers"),
        ({"target": 10}, "classes"),
        ({"target": "ten"}, "there is no such class"),
        ({"x": np.zeros((8, 8, 1), np.float32)}, "images are"),
    ],
)
def test_what_is_not_there_is_refused(run: Run, change: dict[str, Any], message: str) -> None:
    given = {"model": run, "x": run.data.test.arrays["x"][:1], "layer": 0, "target": 3} | change
    with pytest.raises(ArgumentError, match=message):
        explain.grad_cam(**given)
    with pytest.raises(ArgumentError, match="have no names"):
        explain.grad_cam(pooled, X, "conv", 1)
