"""Maps of what matters in an image: closed forms on networks written by hand, and the check with shuffled weights."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema
from chainrule.explain import probes
from chainrule.explain.methods.gradients.grad_cam import grad_cam
from chainrule.explain.methods.gradients.occlusion import occlusion, patches
from chainrule.explain.methods.gradients.saliency import pixel_saliency
from chainrule.explain.methods.quality.randomisation import rank_correlation, shuffled
from chainrule.train import Run, fit

RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.normal(size=(3, 6, 5, 2)), jnp.float32)
W = jnp.asarray(RNG.normal(size=(6, 5, 2, 4)), jnp.float32)
CLASSES = jnp.array([2, 0, 3])


def linear(x: jax.Array) -> jax.Array:
    return jnp.einsum("bhwc,hwck->bk", x, W)


def test_a_linear_model_loses_under_a_patch_what_its_weights_made_of_the_difference_to_the_fill() -> None:
    fill = jnp.array([0.3, -0.2])
    covers = patches(6, 5, 2, 1)
    found, each = occlusion(linear, X, CLASSES, fill, jnp.asarray(covers))
    own = np.moveaxis(np.asarray(W), -1, 0)[np.asarray(CLASSES)]
    pixels = (own * (np.asarray(X) - np.asarray(fill))).sum(axis=-1)
    lost = np.einsum("phw,bhw->pb", covers, pixels)
    np.testing.assert_allclose(each, lost, rtol=1e-4, atol=1e-4)
    expected = np.einsum("pb,phw->bhw", lost, covers) / covers.sum(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("side", "stride"), [(1, 1), (2, 2), (3, 2), (5, 5)])
def test_patches_leave_no_pixel_out(side: int, stride: int) -> None:
    found = patches(6, 5, side, stride)
    assert (found.sum(axis=(1, 2)) == side**2).all()
    assert found.any(axis=0).all()
    assert len(np.unique(found, axis=0)) == len(found)


@pytest.mark.parametrize(("side", "stride", "message"), [(6, 1, "6 x 5 pixels"), (2, 3, "would leave gaps")])
def test_patches_that_do_not_fit_are_refused(side: int, stride: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        patches(6, 5, side, stride)


def test_the_gradient_of_a_linear_model_is_the_size_of_its_weights() -> None:
    own = np.moveaxis(np.asarray(W), -1, 0)[np.asarray(CLASSES)]
    np.testing.assert_allclose(pixel_saliency(linear, X, CLASSES), np.abs(own).max(axis=-1), rtol=1e-6)


def test_grad_cam_weighs_maps_by_the_mean_slope_and_drops_what_speaks_against_the_class() -> None:
    maps = np.maximum(np.asarray(X), 0)
    network = lambda x: linear(jax.nn.relu(jnp.tanh(jax.nn.relu(x))))  # noqa: E731
    last = np.tanh(maps)
    weights = np.asarray(W).mean(axis=(0, 1))[:, np.asarray(CLASSES)].T  # the slope is linear's own weight
    expected = np.maximum(np.einsum("bhwc,bc->bhw", last, weights), 0)
    assert (expected == 0).any()
    np.testing.assert_allclose(grad_cam(network, X, -1, CLASSES), expected, rtol=1e-4, atol=1e-6)
    first = (
        np.asarray(W)[..., np.asarray(CLASSES)]
        * np.moveaxis(1 - last**2, 0, -1)
        * np.moveaxis(maps > 0, 0, -1)
    )
    expected = np.maximum(np.einsum("bhwc,cb->bhw", maps, first.mean(axis=(0, 1))), 0)
    np.testing.assert_allclose(grad_cam(network, X, 0, CLASSES), expected, rtol=1e-4, atol=1e-6)


def test_a_coarse_grad_cam_is_resized_to_the_image() -> None:
    scores = lambda x: jax.nn.relu(x[:, ::3, ::5]).sum(axis=(1, 2)) @ jnp.eye(2, 4)  # noqa: E731
    found = grad_cam(scores, X, 0, jnp.zeros(3, jnp.int32))
    assert found.shape == (3, 6, 5)
    corner = np.maximum(np.asarray(X)[:, 0, 0, 0], 0)
    np.testing.assert_allclose(found[:, 0, 0], corner, rtol=1e-6)


def test_the_map_of_a_network_with_an_order_in_its_weights_is_lost_when_they_are_shuffled() -> None:
    schema = Schema("image", (6, 6, 1), target="class", classes=("a", "b"))
    model: Any = models.build("mlp", schema, depth=1)
    ramp = jnp.tile(jnp.arange(1.0, 37.0)[:, None], (1, 2))
    model = eqx.tree_at(lambda m: m.head.weight, model, ramp)
    x, a = jnp.zeros((1, 6, 6, 1)), jnp.zeros(1, jnp.int32)
    own, mixed = (pixel_saliency(m.logits, x, a) for m in (model, shuffled(model, jax.random.key(0))))
    np.testing.assert_allclose(own.ravel(), ramp[:, 0], rtol=1e-6)
    assert abs(rank_correlation(own, mixed)) < 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("cnn", digits, stages=1, blocks=1, width=4)
    return fit(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", steps=2, batch=16)


def test_shuffling_keeps_the_entries_of_every_array_and_the_running_statistics(run: Run) -> None:
    model: Any = run.model
    mixed = shuffled(model, jax.random.key(0))
    changed = 0
    for one, other in zip(
        *(jax.tree.leaves(eqx.filter(m, eqx.is_inexact_array)) for m in (model, mixed)), strict=True
    ):
        np.testing.assert_array_equal(np.sort(np.ravel(one)), np.sort(np.ravel(other)))
        changed += not np.array_equal(one, other)
    assert changed >= 2
    for one, other in zip(model.state(), mixed.state(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_probe_shows_three_maps_and_says_how_alike_they_are_without_learning(run: Run) -> None:
    found = probes.examine("saliency", run, examples=2, draws=1)
    assert set(found.numbers["alike"]) == {"Grad-CAM", "gradient", "occlusion"}
    assert "Rank correlation" in found.findings[1]
    sheet: Any = found.pictures[0]
    assert sheet.images.shape == (14, 8, 8, 1)
    over: Any = next(picture for picture in found.pictures if picture.name == "saliency-overlay")
    assert over.images.shape == (4, 8, 8, 3)
    bare, covered = over.images[0], over.images[1]
    assert np.ptp(bare, axis=-1).max() == 0  # the image is grey, and under a map it is not
    assert np.ptp(covered, axis=-1).max() > 0.3
    assert all(report.draw(picture).startswith("<svg") for picture in found.pictures)
    with pytest.raises(ArgumentError, match="cam=1: the network has 1 rectified layers"):
        probes.examine("saliency", run, cam=1)


@pytest.mark.parametrize("weight", [0.1, 0.0])
def test_maps_that_do_not_change_with_the_weights_are_called_out(run: Run, weight: float) -> None:
    even = jax.tree.map(lambda a: jnp.full_like(a, weight) if eqx.is_inexact_array(a) else a, run.model)
    changed = Run(run.path, data=run.data)
    changed.__dict__["model"] = even  # shuffling equal weights changes nothing
    found = probes.examine("saliency", changed, examples=1, draws=1)
    assert all(values == [pytest.approx(1)] for values in found.numbers["alike"].values())
    assert "hardly changed" in found.findings[1]
    if weight == 0:
        assert set(found.numbers["blank"].values()) == {1}
        assert "(1 of 1 blank)" in found.findings[1]
