"""Boxes against plain loops and closed numbers: overlap, notation, anchors, suppression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import detection
from chainrule.nn.detection import anchor_shapes, decode_boxes, encode_boxes, nms, soft_nms


def random_boxes(rng: np.random.Generator, count: int, side: float = 60.0) -> np.ndarray:
    low = rng.uniform(0, side, (count, 2))
    return np.concatenate([low, low + rng.uniform(1, side / 2, (count, 2))], axis=1)


def looped(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """IoU, GIoU and DIoU of two boxes, step by step."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    common = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common
    wide, tall = max(a[2], b[2]) - min(a[0], b[0]), max(a[3], b[3]) - min(a[1], b[1])
    away = ((a[0] + a[2] - b[0] - b[2]) / 2) ** 2 + ((a[1] + a[3] - b[1] - b[3]) / 2) ** 2
    overlap = common / union
    return (
        overlap,
        overlap - (wide * tall - union) / (wide * tall),
        overlap - away / (wide**2 + tall**2),
    )


def test_overlaps_are_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    a, b = random_boxes(rng, 12), random_boxes(rng, 9)
    expected = np.array([[looped(one, other) for other in b] for one in a])
    for index, measure in enumerate((detection.iou, detection.giou, detection.diou)):
        assert np.allclose(detection.pairwise(measure, a, b), expected[..., index], atol=1e-12)
        compiled = detection.pairwise(measure, jnp.asarray(a), jnp.asarray(b))
        assert np.allclose(compiled, expected[..., index], atol=1e-5)


def test_published_examples_of_overlap() -> None:
    a, b = np.array([0.0, 0, 2, 2]), np.array([1.0, 1, 3, 3])
    assert np.isclose(detection.iou(a, b), 1 / 7)
    assert np.isclose(detection.giou(a, b), -5 / 63)


def test_boxes_without_area_overlap_nothing_and_have_slopes() -> None:
    point = jnp.array([3.0, 3, 3, 3])
    for measure in (detection.iou, detection.giou, detection.diou):
        value, slope = jax.value_and_grad(measure)(point, point)
        assert value == 0
        assert bool(jnp.isfinite(slope).all())


def test_notations_lead_back() -> None:
    boxes = random_boxes(np.random.default_rng(1), 5)
    assert np.allclose(detection.from_centers(detection.centers_of(boxes)), boxes)
    assert np.allclose(detection.from_sizes(detection.sizes_of(boxes)), boxes)


def test_deltas_of_a_known_anchor_and_the_way_back() -> None:
    anchor = detection.from_centers(np.array([50.0, 50, 100, 100]))
    box = detection.from_centers(np.array([60.0, 50, 200, 50]))
    found = encode_boxes(jnp.asarray(box), jnp.asarray(anchor))
    assert np.allclose(found, [0.1, 0, np.log(2), -np.log(2)], atol=1e-6)
    rng = np.random.default_rng(2)
    boxes, anchors = (jnp.asarray(random_boxes(rng, 20)) for _ in range(2))
    assert np.allclose(decode_boxes(encode_boxes(boxes, anchors), anchors), boxes, atol=1e-3)


def test_a_hopeless_delta_stays_finite() -> None:
    assert bool(jnp.isfinite(decode_boxes(jnp.full(4, 1e4), jnp.array([0.0, 0, 1, 1]))).all())


def test_anchors_have_the_areas_and_shapes_asked_for() -> None:
    shapes = anchor_shapes([128, 256, 512], [0.5, 1, 2])
    assert shapes.shape == (9, 2)
    assert np.allclose(shapes.prod(axis=1), np.repeat([128**2, 256**2, 512**2], 3))
    assert np.allclose(shapes[:, 1] / shapes[:, 0], [0.5, 1, 2] * 3)
    laid = detection.anchors((2, 3), 16, shapes)
    assert laid.shape == (2 * 3 * 9, 4)
    assert np.allclose(detection.centers_of(laid)[9:18, :2], [24, 8])  # the second cell of the first row


def greedy(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, threshold: float) -> list[int]:
    """Suppression as it is told: the best box, without those that are the same thing, and again."""
    left, kept = list(np.argsort(-scores, kind="stable")), []
    while left:
        best = left.pop(0)
        kept.append(int(best))
        left = [
            one
            for one in left
            if labels[one] != labels[best] or looped(boxes[one], boxes[best])[0] <= threshold
        ]
    return kept


_suppress = jax.jit(nms, static_argnames=("threshold", "most", "least"))


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_suppression_is_that_of_a_plain_loop(threshold: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        boxes, scores = random_boxes(rng, 60), rng.uniform(size=60).astype(np.float32)
        labels = rng.integers(0, 3, 60)
        found = _suppress(
            jnp.asarray(boxes), jnp.asarray(scores), jnp.asarray(labels), threshold=threshold, most=60
        )
        expected = greedy(boxes, scores, labels, threshold)
        assert np.asarray(found.indices)[np.asarray(found.there)].tolist() == expected
        assert np.allclose(np.asarray(found.scores)[: len(expected)], scores[expected])


def test_suppression_keeps_two_or_three_of_the_published_boxes() -> None:
    boxes = jnp.array([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    scores = jnp.array([0.9, 0.8, 0.7])
    assert np.isclose(detection.iou(boxes[0], boxes[1]), 0.680672, atol=1e-6)
    assert nms(boxes, scores, threshold=0.5, most=3).indices.tolist() == [0, 2, 0]
    assert nms(boxes, scores, threshold=0.5, most=3).there.tolist() == [True, True, False]
    assert nms(boxes, scores, threshold=0.7, most=3).there.all()
    assert nms(boxes, scores, most=1).indices.tolist() == [0]
    assert nms(boxes, scores, most=3, least=0.75).there.tolist() == [True, False, False]


def test_suppression_of_a_batch_is_that_of_each() -> None:
    rng = np.random.default_rng(4)
    boxes = jnp.asarray(np.stack([random_boxes(rng, 20) for _ in range(3)]))
    scores = jnp.asarray(rng.uniform(size=(3, 20)))
    together = jax.vmap(lambda b, s: nms(b, s, most=10))(boxes, scores)
    for image in range(3):
        alone = nms(boxes[image], scores[image], most=10)
        assert together.indices[image].tolist() == alone.indices.tolist()
        assert together.there[image].tolist() == alone.there.tolist()


def test_nothing_is_kept_of_nothing() -> None:
    found = nms(jnp.zeros((0, 4)), jnp.zeros(0), most=2)
    assert not found.there.any()
    assert not nms(jnp.ones((3, 4)), jnp.full(3, -jnp.inf), most=2).there.any()


def test_soft_suppression_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(5)
    boxes, scores = random_boxes(rng, 15), rng.uniform(size=15)
    left, expected = {i: float(s) for i, s in enumerate(scores)}, []
    while left:
        best = max(left, key=lambda one: left[one])
        score = left.pop(best)
        if score <= 0.01:
            break
        expected.append((best, score))
        left = {i: s * np.exp(-(looped(boxes[i], boxes[best])[0] ** 2) / 0.5) for i, s in left.items()}
    found = soft_nms(jnp.asarray(boxes), jnp.asarray(scores), most=15, least=0.01)
    assert int(found.there.sum()) == len(expected)
    assert found.indices[: len(expected)].tolist() == [one for one, _ in expected]
    assert np.allclose(found.scores[: len(expected)], [score for _, score in expected], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: detection.iou(np.zeros((2, 4)), np.zeros((3, 4))), "pairwise"),
        (lambda: detection.pairwise(detection.iou, np.zeros(4), np.zeros((3, 4))), "single box"),
        (lambda: nms(jnp.zeros((2, 4)), jnp.zeros(2), threshold=2.0), "threshold=2.0"),
        (lambda: nms(jnp.zeros((2, 4)), jnp.zeros(2), most=0), "most"),
        (lambda: soft_nms(jnp.zeros((2, 4)), jnp.zeros(2), sigma=0.0), "sigma=0.0"),
        (lambda: anchor_shapes([0.0], [1.0]), "sides"),
        (lambda: detection.grid_centers((2, 2), 0), "stride=0"),
    ],
)
def test_bad_arguments_are_named(call: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()  # type: ignore[operator]
