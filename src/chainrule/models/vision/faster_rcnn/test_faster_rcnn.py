"""Faster R-CNN's own mathematics: anchors, which boxes are positive, what is sampled, where gradients go."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.vision.faster_rcnn import FasterRCNN, FasterRCNNConfig, searching
from chainrule.models.vision.faster_rcnn.model import levels_of
from chainrule.models.vision.sampling import match, sample
from chainrule.nn.detection import box_area, iou, pairwise, propose_regions, roi_align, selective_search

SCHEMA = Schema("image", (64, 64, 3), "boxes", (2, 5), classes=("circle", "square"))
SMALL: dict[str, Any] = dict(models.entry("faster-rcnn").toy)
PYRAMID: dict[str, Any] = {**SMALL, "feature_pyramid": True, "levels": 2, "sides": (0.2, 0.5)}
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def model() -> FasterRCNN:
    return FasterRCNN(FasterRCNNConfig(**SMALL), SCHEMA, KEY)


def test_nine_anchors_of_three_areas_and_shapes_stand_at_every_cell(model: FasterRCNN) -> None:
    laid = model.anchors()
    assert len(laid) == 16 * 16 * 9
    first = laid[:9]
    assert np.allclose(box_area(first), np.repeat([(64 * side / 600) ** 2 for side in (128, 256, 512)], 3))
    assert np.allclose((first[:, :2] + first[:, 2:]) / 2, 2)


def test_a_box_belongs_to_what_it_overlaps_most_and_the_best_of_an_object_is_known() -> None:
    y = jnp.array([[0.0, 0, 10, 10, 0], [20, 20, 40, 40, 1], [0, 0, 0, 0, -1]])
    boxes = jnp.array([[0.0, 0, 10, 8], [22, 22, 42, 42], [0, 0, 5, 5], [50, 50, 60, 60]])
    found = match(boxes, y)
    overlap = np.asarray(pairwise(iou, boxes, y[:2, :4]))
    assert np.allclose(found.overlap, overlap.max(axis=1))
    assert found.indices[:3].tolist() == [0, 1, 0]
    assert found.best.tolist() == [True, True, False, False]


def test_samples_are_of_both_kinds_and_never_too_many() -> None:
    rng = np.random.default_rng(0)
    for positives in (0, 3, 50):
        positive = jnp.asarray(rng.permutation(np.arange(100) < positives))
        yes, no = sample(positive, ~positive, 20, 0.5, KEY)
        assert int(yes.sum()) == min(positives, 10)
        assert int(no.sum()) == 20 - min(positives, 10)
        assert not (yes & ~positive).any()
        assert not (no & positive).any()


def test_proposals_lie_in_the_image_and_the_best_come_first(model: FasterRCNN) -> None:
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(2, 64, 64, 3)), jnp.float32)
    found = np.asarray(eqx.filter_jit(lambda m, x: m.proposals(x))(model, x))
    assert found.shape == (2, SMALL["kept"], 5)
    there = found[..., 4] > 0
    assert there.any()
    assert (np.diff(found[..., 4], axis=1) <= 0).all()
    assert (found[..., :4] >= 0).all()
    assert (found[..., :4] <= 64).all()
    for own in found:
        kept = own[own[:, 4] > 0]
        overlap = pairwise(iou, kept[:, :4], kept[:, :4]) - np.eye(len(kept))
        assert overlap.max(initial=0) <= 0.7 + 1e-5


def test_each_level_of_a_feature_pyramid_has_anchors_of_its_side_in_the_order_of_what_is_said_of_them() -> (
    None
):
    model = FasterRCNN(FasterRCNNConfig(**PYRAMID), SCHEMA, KEY)
    laid = model.anchors()
    assert len(laid) == 3 * (16 * 16 + 8 * 8)
    assert model.anchors_of_a_cell() == 3
    sides = np.sqrt(box_area(laid))
    np.testing.assert_allclose(sides[: 3 * 16 * 16], 0.2 * 64)
    np.testing.assert_allclose(sides[3 * 16 * 16 :], 0.5 * 64)
    # One cell of one map is not zero: what is said changes for anchors about it and the cells beside it alone.
    centres = (laid[:, :2] + laid[:, 2:]) / 2
    quiet = [jnp.zeros((1, 16, 16, 4)), jnp.zeros((1, 8, 8, 4))]
    first = eqx.filter_jit(lambda model, maps: model._first(maps))
    before = first(model, tuple(quiet))
    assert before.logits.shape == (1, len(laid))
    for level, (row, column) in enumerate([(5, 11), (6, 2)]):
        loud = list(quiet)
        loud[level] = loud[level].at[0, row, column].set(1.0)
        changed = np.flatnonzero(np.asarray(first(model, tuple(loud)).logits != before.logits)[0])
        stride = 4 << level
        away = np.abs(centres[changed] - np.array([(column + 0.5) * stride, (row + 0.5) * stride]))
        assert 0 < len(changed) <= 27
        assert away.max() <= stride
        assert set(sides[changed].round(3)) == {[12.8, 32.0][level]}


def test_regions_are_looked_at_on_the_level_of_their_size() -> None:
    model = FasterRCNN(FasterRCNNConfig(**PYRAMID), SCHEMA, KEY)
    rng = np.random.default_rng(0)
    fine, coarse = (jnp.asarray(rng.normal(size=(n, n, 4)), jnp.float32) for n in (16, 8))
    boxes = jnp.array([[4.0, 4, 14, 14], [10, 10, 50, 40], [0, 0, 32, 32], [0, 0, 31.9, 32], [0, 0, 0, 0]])
    assert levels_of(boxes, 2, 2).tolist() == [0, 1, 1, 0, 0]
    found = model._pooled((fine, coarse), boxes)
    on = [roi_align(fine, boxes / 4, (2, 2)), roi_align(coarse, boxes / 8, (2, 2))]
    for number, level in enumerate([0, 1, 1, 0, 0]):
        np.testing.assert_allclose(found[number], on[level][number], rtol=1e-6)


def test_regions_of_selective_search_are_found_once_for_each_image(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counting(images: np.ndarray, kept: int) -> Any:
        seen.append(images.shape)
        return propose_regions(images, kept)

    monkeypatch.setattr(searching, "propose_regions", counting)
    model = FasterRCNN(FasterRCNNConfig(**{**SMALL, "proposals": "search"}), SCHEMA, KEY)
    x = np.full((3, 64, 64, 3), 0.5, np.float32)
    x[1, 10:30, 20:44] = [0.9, 0.1, 0.2]
    x[2, 10:30, 20:45] = [0.9, 0.1, 0.2]
    propose = eqx.filter_jit(lambda model, x: model.proposals(x))
    found = np.asarray(propose(model, jnp.asarray(x)))
    assert found.shape == (3, SMALL["kept"], 5)
    for own, image in zip(found, x, strict=True):
        expected = selective_search(image, scale=0.2, sigma=0.4)[: SMALL["kept"]]
        np.testing.assert_allclose(own[own[:, 4] > 0, :4], expected)
    assert [20, 10, 44, 30] in found[1, :, :4].tolist()
    assert (np.diff(found[..., 4], axis=1) <= 0).all()
    assert len(seen) == 3
    np.testing.assert_array_equal(np.asarray(propose(model, jnp.asarray(x[::-1]))), found[::-1])
    assert len(seen) == 3
    assert not len(model.anchors())


def test_a_feature_pyramid_wants_a_side_for_each_level() -> None:
    with pytest.raises(ArgumentError, match="levels=1 and 2 sides"):
        FasterRCNN(FasterRCNNConfig(**{**PYRAMID, "levels": 1}), SCHEMA, KEY)


@pytest.mark.parametrize(
    "settings", [{"pool": "max"}, {"proposals": "windows"}, {"proposals": "search"}, PYRAMID]
)
def test_its_variants_learn_and_predict(settings: dict[str, Any]) -> None:
    model = FasterRCNN(FasterRCNNConfig(**{**SMALL, "sides": (0.3,), **settings}), SCHEMA, KEY)
    y = np.array(
        [[[10.0, 10, 30, 30, 1], [0, 0, 0, 0, -1]], [[0, 0, 0, 0, -1], [0, 0, 0, 0, -1]]], np.float32
    )
    batch = Batch(
        jnp.asarray(np.random.default_rng(0).uniform(size=(2, 64, 64, 3)), jnp.float32), jnp.asarray(y)
    )

    @eqx.filter_jit
    def both(model: FasterRCNN) -> Any:
        return eqx.filter_value_and_grad(lambda m: m.loss(batch, KEY), has_aux=True)(model), model.predict(
            batch.x
        )

    ((loss, metrics), slope), found = both(model)
    assert np.isfinite(float(loss))
    assert np.isclose(float(loss), sum(float(value) for value in metrics.values()), rtol=1e-5)
    for leaf in jax.tree.leaves(eqx.filter(slope, eqx.is_inexact_array)):
        assert bool(jnp.isfinite(leaf).all())
    assert ("proposal_loss" in metrics) == ("proposals" not in settings)
    assert found.shape == (2, SMALL["most"], 6)
