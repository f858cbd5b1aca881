"""Average precision: the closed example, scikit-learn for hits that need no matching, COCO's own program for all."""

import contextlib
import io

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from chainrule.core.errors import ArgumentError
from chainrule.nn.detection import Ranking, average_precision, average_precisions, rankings, sizes_of
from chainrule.nn.detection.average_precision import SWEEP, check_detections


def scene(seed: int, images: int = 12, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Objects, and detections that miss some, double some and move all."""
    rng = np.random.default_rng(seed)
    objects = np.full((images, 6, 5), -1.0)
    detected = np.full((images, 14, 6), -1.0)
    for image in range(images):
        count = rng.integers(0, 7)
        low = rng.uniform(0, 60, (count, 2))
        boxes = np.concatenate([low, low + rng.uniform(6, 30, (count, 2))], axis=1)
        labels = rng.integers(0, classes, count)
        objects[image, :count] = np.column_stack([boxes, labels])
        again = rng.choice(count, min(count + 3, 10)) if count else np.zeros(0, int)
        moved = boxes[again] + rng.normal(0, 2.0, (len(again), 4))
        said = np.where(
            rng.uniform(size=len(again)) < 0.85, labels[again], rng.integers(0, classes, len(again))
        )
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
        detected[image, : len(again)] = np.column_stack([moved, rng.uniform(size=len(again)), said])
    return detected, objects


def test_the_three_averages_of_hit_miss_hit() -> None:
    ranking = Ranking(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]), 2)
    expected = {None: 0.833333, 11: 0.848485, 101: 0.834983}
    for points, value in expected.items():
        assert np.isclose(average_precision(ranking, points), value, atol=1e-6)


def test_nothing_to_be_found_has_no_precision_and_nothing_found_has_none() -> None:
    assert np.isnan(average_precision(Ranking(np.array([0.5]), np.array([False]), 0)))
    assert average_precision(Ranking(np.zeros(0), np.zeros(0, bool), 3)) == 0
    assert average_precision(Ranking(np.zeros(0), np.zeros(0, bool), 3), None) == 0


def test_a_falling_curve_has_the_area_that_scikit_learn_gives() -> None:
    rng = np.random.default_rng(0)
    scores, hits = np.sort(rng.uniform(size=30))[::-1], np.arange(30) < 12
    hits[[12, 20]] = [False, True]
    ranking = Ranking(scores, hits, int(hits.sum()))
    recall, precision = ranking.curve()
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    ours = average_precision(ranking, None)
    assert ours >= average_precision_score(hits, scores)  # the same sum before the curve is made to fall
    assert np.isclose(ours, np.sum(np.diff(recall, prepend=0) * falling))
    assert np.isclose(
        average_precision(Ranking(scores, np.arange(30) < 12, 12), None),
        average_precision_score(np.arange(30) < 12, scores),
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_sweep_is_that_of_cocos_own_program(seed: int) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    detected, objects = scene(seed)
    annotations, results = [], []
    for image in range(len(objects)):
        for box, label in zip(sizes_of(objects[image, :, :4]), objects[image, :, 4], strict=True):
            if label >= 0:
                area = float(box[2] * box[3])
                one = {"image_id": image + 1, "category_id": int(label), "bbox": box.tolist()}
                annotations.append({**one, "id": len(annotations) + 1, "area": area, "iscrowd": 0})
        rows = zip(sizes_of(detected[image, :, :4]), detected[image, :, 4:], strict=True)
        results += [
            {"image_id": image + 1, "category_id": int(label), "bbox": box.tolist(), "score": float(score)}
            for box, (score, label) in rows
            if label >= 0
        ]
    truth = coco.COCO()
    truth.dataset = {
        "images": [{"id": image + 1} for image in range(len(objects))],
        "annotations": annotations,
        "categories": [{"id": number} for number in range(3)],
        "info": {},
    }
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        judged = evaluation.COCOeval(truth, truth.loadRes(results), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    found = average_precisions(detected, objects, 3)
    precision = judged.eval["precision"][
        :, :, :, 0, -1
    ]  # thresholds, recalls, classes; all areas, 100 detections
    assert np.allclose(found, precision.mean(axis=1), atol=1e-6)
    assert np.isclose(found.mean(), judged.stats[0], atol=1e-6)
    assert np.isclose(found[0].mean(), judged.stats[1], atol=1e-6)


def test_one_threshold_is_a_row_of_the_sweep() -> None:
    detected, objects = scene(3)
    whole = average_precisions(detected, objects, 3)
    row = [average_precision(one) for one in rankings(detected, objects, 3, SWEEP[4])]
    assert np.allclose(whole[4], row)


def test_the_order_of_detections_and_fillers_makes_no_difference() -> None:
    detected, objects = scene(4)
    order = np.random.default_rng(0).permutation(detected.shape[1])
    assert np.allclose(
        average_precisions(detected, objects, 3), average_precisions(detected[:, order], objects, 3)
    )


def test_bad_arguments_are_named() -> None:
    detected, objects = scene(0)
    with pytest.raises(ArgumentError, match="points=1"):
        average_precision(Ranking(np.zeros(0), np.zeros(0, bool), 3), 1)
    with pytest.raises(ArgumentError, match="objects has shape"):
        check_detections("score", detected, objects[:2])
    with pytest.raises(ArgumentError, match="detected has shape"):
        check_detections("score", objects, objects)
