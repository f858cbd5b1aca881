"""Faster R-CNN's own mathematics: anchors, which boxes are positive, what is sampled, where gradients go."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.data import Batch, Schema
from chainrule.models.vision.faster_rcnn import FasterRCNN, FasterRCNNConfig
from chainrule.models.vision.sampling import match, sample
from chainrule.nn.detection import box_area, iou, pairwise

SCHEMA = Schema("image", (64, 64, 3), "boxes", (2, 5), classes=("circle", "square"))
SMALL: dict[str, Any] = dict(models.entry("faster-rcnn").toy)
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


@pytest.mark.parametrize("settings", [{"pool": "max"}, {"proposals": "windows"}])
def test_its_variants_learn_and_predict(settings: dict[str, Any]) -> None:
    model = FasterRCNN(FasterRCNNConfig(**{**SMALL, **settings, "sides": (0.3,)}), SCHEMA, KEY)
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
    assert ("proposal_loss" in metrics) == (settings.get("proposals") != "windows")
    assert found.shape == (2, SMALL["most"], 6)
