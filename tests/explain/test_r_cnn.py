"""R-CNN's stages: which regions are proposed and sampled, and what linear machines make of features that are known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.explain import experiments
from chainrule.explain.methods import region_classifier as stages
from chainrule.nn.detection import iou

BOX = np.array([6.0, 8, 18, 22])


@pytest.fixture(scope="module")
def scene() -> tuple[np.ndarray, np.ndarray, stages.RegionProposals]:
    """One image with one object, and its proposals."""
    image = np.full((1, 32, 32, 3), 0.2, np.float32)
    image[0, 8:22, 6:18] = (0.9, 0.1, 0.4)
    objects = np.array([[[*BOX, 1.0], [0, 0, 0, 0, -1]]])
    return image, objects, stages.propose(image, 8)


def test_an_object_of_one_colour_is_proposed_and_what_is_over_is_filled(scene: Any) -> None:
    _, _, found = scene
    overlap = iou(found.boxes[0], np.broadcast_to(BOX, (8, 4)))
    assert overlap[found.there[0]].max() > 0.8
    assert not found.there[0].all()
    assert found.seconds > 0


def test_samples_hold_the_object_itself_and_know_what_every_region_overlaps(scene: Any) -> None:
    image, objects, found = scene
    regions = stages.sampled(image, objects, found, 8)
    assert len(regions.crops) == 1 + int(found.there.sum())
    assert regions.exact.tolist() == [True] + [False] * int(found.there.sum())
    assert regions.overlap[0] == 1
    assert np.allclose(regions.overlap, iou(regions.boxes, np.broadcast_to(BOX, regions.boxes.shape)))
    assert (regions.own[:, 4] == 1).all()


def test_linear_machines_find_what_is_linear_in_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 6)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(int)
    boxes = np.tile([10.0, 10, 30, 30], (400, 1))
    moves = 0.05 * features[:, 1:2].clip(-2, 2)
    own = np.concatenate([boxes + 20 * moves, labels[:, None]], axis=1)
    crops = np.tile(features[:, :3, None, None], (1, 1, 8, 8)).transpose(0, 2, 3, 1)
    found = stages.SampledRegions(crops, boxes, own, np.ones(400), np.ones(400, bool))
    monkeypatch.setattr(stages, "features_of", lambda network, crops: crops[:, 0, 0])
    network = stages.RegionNetwork(3, 2, 8, 2, 4, jax.random.key(0))
    machine = stages.fitted(network, found, 2, 8, penalty=0.1, ridge_penalty=1e-3)
    moved, scores = machine.judged(jnp.asarray(features[:, :3]), jnp.asarray(boxes), moved=True)
    assert ((np.asarray(scores).argmax(axis=1) == labels).mean()) > 0.98
    inside = np.abs(features[:, 1]) < 1.5  # beyond, what moves a box is cut off and no longer linear
    chosen = np.asarray(moved)[np.arange(400), labels]
    assert np.abs(chosen - own[:, :4])[inside].max() < 0.5
    unmoved, same = machine.judged(jnp.asarray(features[:, :3]), jnp.asarray(boxes), moved=False)
    assert np.allclose(unmoved, boxes[:, None])
    assert np.allclose(same, scores)


def test_regions_of_objects_alone_teach_nothing_and_the_remedy_is_named() -> None:
    found = stages.SampledRegions(
        np.zeros((2, 8, 8, 3), np.float32), np.zeros((2, 4)), np.zeros((2, 5)), np.ones(2), np.ones(2, bool)
    )
    network = stages.RegionNetwork(3, 1, 8, 2, 4, jax.random.key(0))
    with pytest.raises(DataError, match="train=400"):
        stages.learnt(network, found, steps=1, lr=1e-3, seed=0)


def test_images_without_boxes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no images with boxes"):
        experiments.run("r-cnn", data="digits")
