"""Counts of masks against sets of pixels, edges against all pairs of pixels, and what is left out."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.segmentation import agreement, boundary, tolerance
from chainrule.train.scores.segmentation import segmentation

RNG = np.random.default_rng(0)


def test_dice_follows_from_the_intersection_over_union() -> None:
    half = agreement(np.array([[[1, 1, 0]]]), np.array([[[1, 0, 0]]]), 2)
    assert half.iou.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(half.dice, 0.666667, atol=1e-6)
    many = agreement(RNG.integers(0, 3, (4, 9, 9)), RNG.integers(0, 3, (4, 9, 9)), 3)
    np.testing.assert_allclose(many.dice, 2 * many.iou / (1 + many.iou), rtol=1e-12)


def test_pixels_are_counted_over_all_images_first() -> None:
    said, true = RNG.integers(0, 3, (2, 5, 6, 7))
    true[0, 0] = 255
    found = agreement(said, true, 3)
    for k in range(3):
        a, b = (said == k) & (true != 255), true == k
        np.testing.assert_allclose(found.iou[k], (a & b).sum() / (a | b).sum())
    counted = true != 255
    np.testing.assert_allclose(found.accuracy, (said == true)[counted].mean())


def test_classes_without_a_true_pixel_are_left_out_and_named() -> None:
    found = agreement(np.array([[[0, 0, 2, 1]]]), np.array([[[0, 0, 1, 1]]]), 3)
    scores = segmentation(found, ["ground", "cat", "dog"])
    assert scores["miou"].value == pytest.approx(
        (1 + 0.5) / 2
    )  # what was taken for a dog is missing from the cat
    assert scores["miou"].kind == "without dog, of which there is no pixel"
    assert "iou.dog" not in scores
    assert scores["support.cat"].value == 2
    assert (
        segmentation(agreement(np.zeros((1, 2, 2), int), np.full((1, 2, 2), 255), 3), ["a", "b", "c"]) == {}
    )


def test_edges_are_met_within_the_tolerance() -> None:
    size = (200, 220)
    reach = tolerance(size)
    assert reach == 2
    y, x = np.mgrid[: size[0], : size[1]]
    true = ((y - 100) ** 2 + (x - 110) ** 2 < 50**2).astype(int)
    for shift, least, most in ((0, 1.0, 1.0), (1, 1.0, 1.0), (12, 0.0, 0.5)):
        said = np.roll(true, shift, axis=1)
        found = agreement(said[None], true[None], 2)
        edges = [np.argwhere(boundary(one == 1)) for one in (said, true)]
        near = [
            (np.linalg.norm(a[:, None] - b[None], axis=-1).min(axis=1) <= reach).mean()
            for a, b in (edges, edges[::-1])
        ]
        expected = 2 * near[0] * near[1] / max(sum(near), 1e-9)
        np.testing.assert_allclose(found.boundary_f[1], expected, atol=1e-9)
        assert least <= found.boundary_f[1] <= most


def test_a_class_that_fills_every_image_has_no_edges() -> None:
    found = agreement(np.zeros((1, 4, 4), int), np.zeros((1, 4, 4), int), 1)
    assert found.iou.tolist() == [1.0]
    assert np.isnan(found.boundary_f).all()
    assert "boundary_f" not in segmentation(found, ["ground"])


def test_values_that_are_no_classes_are_shown() -> None:
    with pytest.raises(ArgumentError, match="masks hold 7, 9; classes are numbered from 0 to 2"):
        agreement(np.zeros((1, 1, 3), int), np.array([[[0, 7, 9]]]), 3)
    with pytest.raises(ArgumentError, match="3×1 pixels beside one of 4×1"):
        agreement(np.zeros((1, 1, 3), int), np.zeros((1, 1, 4), int), 3)
    with pytest.raises(ArgumentError, match="1 predicted masks beside 2"):
        agreement(np.zeros((1, 1, 3), int), np.zeros((2, 1, 3), int), 3)
