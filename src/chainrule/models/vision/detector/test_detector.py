"""The detector's own mathematics: which cell is to find what, and YOLO's published grid and loss."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema, load
from chainrule.models.vision.detector import Detector, DetectorConfig
from chainrule.models.vision.detector.heads import AnchorFree, Yolo
from chainrule.models.vision.detector.heads.yolo import cell_boxes, cell_targets
from chainrule.nn.detection.detections import detections

SHAPES = Schema("image", (64, 64, 3), "boxes", (3, 5), classes=("circle", "square"))
SMALL: dict[str, Any] = {"width": 2, "channels": 4, "depth": 1, "blocks": 0}
KEY = jax.random.key(0)


def objects(*rows: tuple[float, ...]) -> jax.Array:
    """The objects of one image, filled up to three."""
    y = np.zeros((1, 3, 5), np.float32)
    y[..., 4] = -1
    y[0, : len(rows)] = np.reshape(rows, (-1, 5))
    return jnp.asarray(y)


@pytest.fixture(scope="module")
def free() -> AnchorFree:
    head = Detector(DetectorConfig(**SMALL), SHAPES, KEY).head
    assert isinstance(head, AnchorFree)
    return head


def test_every_object_is_found_by_cells_around_its_middle_on_the_map_of_its_size(free: AnchorFree) -> None:
    small, large = (10.0, 10, 22, 20, 0), (4.0, 4, 60, 50, 1)
    found = free.assign(objects(small, large))
    centers, strides = free.centers, free.strides
    for number, (box, stride) in enumerate(((small, 4), (large, 16))):
        mine = np.asarray(found.positive[0] & (found.indices[0] == number))
        assert mine.any()
        assert set(strides[mine]) == {stride}
        middle = np.array([box[0] + box[2], box[1] + box[3]]) / 2
        assert np.abs(centers[mine] - middle).max() <= 1.5 * stride


def test_of_two_objects_in_one_cell_the_smaller_is_found(free: AnchorFree) -> None:
    found = free.assign(objects((8.0, 8, 28, 28, 0), (14.0, 14, 22, 22, 1)))
    middle = np.abs(free.centers - 18).max(axis=1) <= 2
    assert (np.asarray(found.indices[0])[middle & np.asarray(found.positive[0])] == 1).all()


def test_an_object_smaller_than_a_cell_is_found_by_the_cell_it_is_in(free: AnchorFree) -> None:
    found = free.assign(objects((17.0, 17, 18, 18, 0)))
    assert int(found.positive.sum()) == 1
    assert free.centers[int(found.positive[0].argmax())].tolist() == [18, 18]


def test_images_without_objects_ask_for_nothing_but_silence(free: AnchorFree) -> None:
    assert not free.assign(objects()).positive.any()
    outputs = jnp.full((1, len(free.centers), 6), -20.0)
    loss, metrics = free.losses(outputs, objects())
    assert float(loss[0]) < 1e-6
    assert metrics["box_loss"] == 0


def test_right_answers_have_no_loss_and_give_back_the_objects(free: AnchorFree) -> None:
    y = objects((10.0, 10, 22, 20, 0), (4.0, 4, 60, 50, 1))
    found = free.assign(y)
    own = np.asarray(y[0])[np.asarray(found.indices[0])]
    at, stride = free.centers, free.strides[:, None]
    away = np.concatenate([at - own[:, :2], own[:, 2:4] - at], axis=1) / stride
    logits = np.full((len(at), 2), -20.0)
    positive = np.asarray(found.positive[0])
    logits[positive, own[positive, 4].astype(int)] = 20.0
    outputs = jnp.asarray(np.concatenate([logits, np.log(np.maximum(away, 1e-6))], axis=1)[None], jnp.float32)
    loss, metrics = free.losses(outputs, y)
    assert float(loss[0]) < 1e-4
    rows = detections(*free.boxes(outputs), (64, 64), most=4, least=0.05, overlap=0.5)[0]
    assert rows[:, 5].tolist() == [0, 1, -1, -1]
    assert np.allclose(rows[:2, :4], y[0, :2, :4], atol=1e-2)
    del metrics


def test_the_published_grid_holds_thirty_numbers_for_twenty_classes() -> None:
    schema = Schema("image", (64, 64, 3), "boxes", (1, 5), classes=tuple(map(str, range(20))))
    model = Detector(DetectorConfig(**SMALL, head="yolo"), schema, KEY)
    assert isinstance(model.head, Yolo)
    out, _ = model.outputs(jnp.zeros((1, 64, 64, 3)), KEY)
    assert out.shape == (1, 7 * 7, 30)


def test_boxes_go_into_cells_and_back() -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 40, (5, 3, 2))
    boxes = np.concatenate([low, low + rng.uniform(2, 20, low.shape)], axis=-1)
    y = jnp.asarray(np.concatenate([boxes, np.zeros((5, 3, 1))], axis=-1), jnp.float32)
    found = cell_targets(y, 7, (64, 64))
    back = cell_boxes(found.boxes[:, :, None], 7, (64, 64))[:, :, 0]
    for image, cell in np.argwhere(np.asarray(found.there)):
        assert np.allclose(back[image, cell], y[image, found.indices[image, cell], :4], atol=1e-3)


def test_objects_that_share_a_cell_are_counted_as_lost() -> None:
    y = objects((10.0, 10, 14, 14, 0), (9.0, 9, 15, 15, 1), (50.0, 50, 60, 60, 0))
    assert cell_targets(y, 7, (64, 64)).lost.tolist() == [1]
    head = Detector(DetectorConfig(**SMALL, head="yolo"), SHAPES, KEY).head
    _, metrics = head.losses(jnp.zeros((1, 49, 12)), y)
    assert metrics["lost_objects"] == 1


def published(out: np.ndarray, y: np.ndarray, grid: int, size: float) -> float:
    """YOLO's loss of one image with two boxes a cell, as the paper writes it."""
    total = 0.0
    cells: dict[tuple[int, int], np.ndarray] = {}
    for row in y[y[:, 4] >= 0]:
        middle = (row[:2] + row[2:4]) / 2 / size * grid
        cells.setdefault((int(middle[1]), int(middle[0])), row)
    for i, j in np.ndindex(grid, grid):
        values = out[i * grid + j]
        said = values[:10].reshape(2, 5)
        if (i, j) not in cells:
            total += 0.5 * (said[:, 4] ** 2).sum()
            continue
        row = cells[i, j]
        width, height = (row[2:4] - row[:2]) / size
        x, z = (row[:2] + row[2:4]) / 2 / size * grid - np.array([j, i])
        overlaps = []
        for box in said:
            centre, sides = (box[:2] + np.array([j, i])) / grid * size, box[2:4] ** 2 * size
            low, high = np.maximum(centre - sides / 2, row[:2]), np.minimum(centre + sides / 2, row[2:4])
            common = np.prod(np.maximum(high - low, 0))
            overlaps.append(common / (np.prod(sides) + np.prod(row[2:4] - row[:2]) - common))
        best = int(np.argmax(overlaps))
        wanted = np.array([x, z, np.sqrt(width), np.sqrt(height)])
        total += 5 * ((said[best, :4] - wanted) ** 2).sum() + (said[best, 4] - overlaps[best]) ** 2
        total += 0.5 * said[1 - best, 4] ** 2 + ((values[10:] - np.eye(2)[int(row[4])]) ** 2).sum()
    return total


def test_yolos_loss_is_the_published_sum() -> None:
    y = objects((10.0, 10, 22, 20, 0), (30.0, 20, 60, 50, 1))
    head = Detector(DetectorConfig(**SMALL, head="yolo"), SHAPES, KEY).head
    out = np.random.default_rng(0).uniform(0, 1, (1, 49, 12)).astype(np.float32)
    found, _ = head.losses(jnp.asarray(out), y)
    assert np.isclose(float(found[0]), published(out[0], np.asarray(y[0]), 7, 64.0), rtol=1e-4)


def test_scores_of_yolo_are_class_times_confidence() -> None:
    head = Detector(DetectorConfig(**SMALL, head="yolo"), SHAPES, KEY).head
    out = np.zeros((1, 49, 12), np.float32)
    out[0, 25] = [0.5, 0.5, 0.5, 0.5, 0.8, 0, 0, 0, 0, 0.5, 0.25, 0.75]
    boxes, scores = head.boxes(jnp.asarray(out))
    assert np.allclose(scores[0, 50], [0.2, 0.6])
    assert np.allclose(scores[0, 51], [0.125, 0.375])
    assert np.allclose(
        boxes[0, 50],
        [(4.5 / 7 - 0.125) * 64, (3.5 / 7 - 0.125) * 64, (4.5 / 7 + 0.125) * 64, (3.5 / 7 + 0.125) * 64],
    )


def test_yolo_learns_and_predicts() -> None:
    data = load("shapes", n=20)
    model = models.build("detector", data, **SMALL, head="yolo")
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(4)))
    slope = eqx.filter_jit(eqx.filter_grad(lambda model: model.loss(batch, KEY)[0]))(model)
    leaves = jax.tree.leaves(eqx.filter(slope, eqx.is_inexact_array))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)
    assert any(bool(leaf.any()) for leaf in leaves)


def test_images_too_small_for_their_maps_are_refused() -> None:
    with pytest.raises(ArgumentError, match="use levels=4"):
        Detector(DetectorConfig(levels=6), SHAPES, KEY)
