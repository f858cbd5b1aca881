"""Shapes: boxes and masks of one generator agree."""

import numpy as np
import pytest

from chainrule.data import load, preview
from chainrule.data.generated.shapes import CLASSES, scene


@pytest.mark.parametrize("seed", range(3))
def test_boxes_are_those_of_what_the_mask_shows(seed: int) -> None:
    found = scene(np.random.default_rng(seed), 64, 1)
    (x0, y0, x1, y1, label) = found.boxes[0]
    rows, columns = np.nonzero(found.mask)
    assert (x0, y0, x1, y1) == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert np.unique(found.mask).tolist() == [0, 1 + label]


def test_every_shape_of_several_is_seen() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        found = scene(rng, 64, 5)
        for x0, y0, x1, y1, label in found.boxes:
            inside = found.mask[int(y0) : int(y1), int(x0) : int(x1)]
            assert (inside == 1 + label).sum() > 0.2 * inside.size
        everywhere = np.zeros_like(found.mask, bool)
        for x0, y0, x1, y1, _ in found.boxes:
            everywhere[int(y0) : int(y1), int(x0) : int(x1)] = True
        assert not found.mask[~everywhere].any()


def test_shapes_differ_from_the_ground_they_lie_on() -> None:
    found = scene(np.random.default_rng(0), 64, 1)
    image = found.image.astype(float)
    inside, outside = image[found.mask > 0].mean(axis=0), image[found.mask == 0].mean(axis=0)
    assert np.abs(inside - outside).max() > 30


def test_the_three_sources_hold_the_same_images() -> None:
    boxes, masks, labels = (load(name, n=20) for name in ("shapes", "shape-masks", "shape-labels"))
    assert np.array_equal(boxes.train.arrays["x"], masks.train.arrays["x"])
    assert boxes.schema.classes == CLASSES
    assert masks.schema.classes == ("ground", *CLASSES)
    assert labels.schema.classes == CLASSES
    assert boxes.describe().startswith("20 images of 64×64×3, up to ")
    assert len(preview(boxes)[0].marks) == 16  # type: ignore[union-attr]
    assert preview(masks)[0].images.shape == (16, 64, 64, 3)  # type: ignore[union-attr]


def test_the_same_seed_gives_the_same_shapes_and_another_gives_others() -> None:
    assert load("shapes", n=10).hash == load("shapes", n=10).hash != load("shapes", n=10, seed=1).hash
