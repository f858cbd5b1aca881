"""Segmentations and selective search: pieces are connected and follow edges, proposals cover what was drawn."""

import numpy as np
import pytest
from scipy import ndimage

from chainrule.core.errors import ArgumentError
from chainrule.data.generated.shapes import scene
from chainrule.nn.detection import graph_segments, iou, pairwise, selective_search, slic
from chainrule.nn.detection.superpixels import neighbours


@pytest.fixture(scope="module")
def drawn() -> list:  # type: ignore[type-arg]
    rng = np.random.default_rng(0)
    return [scene(rng, 64, 3) for _ in range(6)]


@pytest.mark.parametrize("segment", [lambda image: slic(image, 60), lambda image: graph_segments(image)])
def test_every_pixel_belongs_to_one_connected_piece(segment: object, drawn: list) -> None:  # type: ignore[type-arg]
    found = segment(drawn[0].image / 255)  # type: ignore[operator]
    assert found.shape == (64, 64)
    assert np.array_equal(np.unique(found), np.arange(found.max() + 1))
    for number in range(found.max() + 1):
        assert ndimage.label(found == number, np.ones((3, 3)))[1] == 1


def test_superpixels_follow_edges_and_are_about_as_many_as_asked_for() -> None:
    image = np.zeros((40, 40, 3))
    image[:, 17:] = (1.0, 0.5, 0.0)
    found = slic(image, 16)
    assert 8 <= found.max() + 1 <= 24
    assert not set(np.unique(found[:, :17])) & set(np.unique(found[:, 17:]))


def test_more_scale_leaves_fewer_pieces_and_small_ones_are_merged(drawn: list) -> None:  # type: ignore[type-arg]
    image = drawn[1].image / 255
    fine, coarse = graph_segments(image, scale=0.3), graph_segments(image, scale=5.0)
    assert fine.max() > coarse.max()
    assert np.bincount(fine.ravel()).min() >= 20


def test_a_single_colour_is_one_piece_and_one_proposal() -> None:
    plain = np.full((12, 20, 3), 0.4)
    assert graph_segments(plain).max() == 0
    assert selective_search(plain).tolist() == [[0, 0, 20, 12]]


def test_pieces_that_touch_are_known() -> None:
    assert neighbours(np.array([[0, 0, 1], [2, 2, 1]])) == {(0, 1), (0, 2), (1, 2)}


def test_proposals_cover_the_shapes_of_a_picture(drawn: list) -> None:  # type: ignore[type-arg]
    best = []
    for one in drawn:
        found = selective_search(one.image / 255)
        assert (found[:, 2:] > found[:, :2]).all()
        assert len(np.unique(found, axis=0)) == len(found)
        best += pairwise(iou, found, one.boxes[:, :4]).max(axis=0).tolist()
    assert np.mean(np.array(best) >= 0.5) >= 0.8


def test_bad_images_are_refused() -> None:
    with pytest.raises(ArgumentError, match="height, width, channels"):
        slic(np.full((4, 4, 3), np.nan), 4)
    with pytest.raises(ArgumentError, match="compactness=0"):
        slic(np.zeros((4, 4, 3)), 4, compactness=0)
    with pytest.raises(ArgumentError, match="negative"):
        graph_segments(np.zeros((4, 4, 3)), scale=-1)
