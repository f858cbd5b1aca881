"""Images, masks and boxes from one draw: boxes are held against the mask's own bounding box, masks against images."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.nn.augment import Crops, crop_boxes, crop_masks
from chainrule.nn.rand_augment import (
    OPERATIONS,
    ImageOperations,
    draw_operations,
    operate_boxes,
    operate_images,
    operate_masks,
    rand_augment,
)
from chainrule.nn.scenes import Scenes, augmented

SIZE = (40, 60)
BOX = (22.0, 12.0, 41.0, 25.0)
GEOMETRIC = ("shear-x", "shear-y", "translate-x", "translate-y", "rotate")


def scenes(batch: int) -> Scenes:
    """The same rectangle, marked by 5 in the mask and white in the image, `batch` times."""
    mask = np.zeros((batch, *SIZE), np.int32)
    mask[:, 12:25, 22:41] = 5
    images = (mask[..., None] > 0).astype(np.float32)
    return Scenes(
        jnp.asarray(images), jnp.asarray(mask), jnp.tile(jnp.asarray(BOX)[None, None], (batch, 1, 1))
    )


def around(mask: np.ndarray) -> tuple[float, ...]:
    """The smallest box around what a mask marks."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


def holds(outer: Sequence[float], inner: Sequence[float], slack: float) -> bool:
    """Whether one box lies within another, but for so many pixels."""
    x0, y0, x1, y1 = np.subtract(inner, outer)
    return min(x0, y0) >= -slack and max(x1, y1) <= slack


@jax.jit
def operate(there: Scenes, drawn: ImageOperations) -> Scenes:
    return Scenes(
        operate_images(there.images, drawn),
        operate_masks(there.masks, drawn),
        operate_boxes(there.boxes, drawn, SIZE),
    )


def test_every_operation_moves_masks_and_boxes_as_it_moves_the_image() -> None:
    signs = jnp.asarray(np.repeat([0.3, -0.3], len(OPERATIONS)), jnp.float32)[None]
    chosen = jnp.tile(jnp.arange(len(OPERATIONS)), 2)[None]
    there = scenes(2 * len(OPERATIONS))
    found = operate(there, ImageOperations(chosen, signs))
    moved = 0
    for number, image, mask, box in zip(chosen[0], *map(np.asarray, found), strict=True):
        name = OPERATIONS[int(number)]
        assert set(np.unique(mask)) == {0, 5}
        np.testing.assert_allclose(box[0], around(mask), atol=1.01, err_msg=name)
        if name in GEOMETRIC:
            np.testing.assert_array_equal(image[..., 0] > 0, mask > 0, err_msg=name)
            moved += not np.array_equal(mask, there.masks[0])
        else:
            np.testing.assert_array_equal(mask, there.masks[0], err_msg=name)
            np.testing.assert_allclose(box[0], BOX, rtol=1e-6, err_msg=name)
    assert moved == 2 * len(GEOMETRIC)


@pytest.mark.parametrize("name", GEOMETRIC)
def test_there_and_back_is_where_it_was(name: str) -> None:
    chosen = jnp.full((2, 1), OPERATIONS.index(name))
    there = scenes(1)
    back = operate(there, ImageOperations(chosen, jnp.array([[0.2], [-0.2]])))
    same = np.mean(np.asarray(back.masks) == np.asarray(there.masks))
    assert same == 1 if name.startswith("translate") else same > 0.98
    x0, y0, x1, y1 = np.asarray(back.boxes)[0, 0]
    if name.startswith("translate"):
        np.testing.assert_allclose((x0, y0, x1, y1), BOX, atol=1e-4)
    else:  # an upright box around an upright box that was turned
        assert holds((x0, y0, x1, y1), BOX, 0.01)


def test_scenes_are_changed_by_one_draw_and_boxes_hold_what_they_mark() -> None:
    there = scenes(24)
    settings = {"resized_crop": 0.5, "flip": True, "crop": 4, "operations": 2, "magnitude": 6.0}
    draw = jax.jit(lambda there, key: augmented(there, key, **settings))
    one, same, other = (draw(there, jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.masks, same.masks)
    assert not np.array_equal(one.masks, other.masks)
    alone = jax.jit(lambda x, key: augmented(Scenes(x), key, **settings).images)(
        there.images, jax.random.key(0)
    )
    np.testing.assert_array_equal(one.images, alone)
    seen = 0
    for mask, (box,) in zip(np.asarray(one.masks), np.asarray(one.boxes), strict=True):
        if (mask > 0).sum() > 20:
            x0, y0, x1, y1 = around(mask > 0)
            # What comes in mirrored at an edge is marked as well, and no part of the box.
            if min(x0, y0) > 0 and x1 < SIZE[1] and y1 < SIZE[0]:
                seen += 1
                assert holds(box, (x0, y0, x1, y1), 1.5)
    assert seen > 6


def test_masks_of_a_crop_hold_what_the_boxes_hold() -> None:
    crops = Crops(jnp.array([[5.0, 10.0], [8.0, 18.0]]), jnp.array([[30.0, 40.0], [20.0, 30.0]]))
    there = scenes(2)
    masks = np.asarray(crop_masks(there.masks, crops))
    boxes = np.asarray(crop_boxes(there.boxes, crops, SIZE))
    assert masks.dtype == np.int32
    for mask, (box,) in zip(masks, boxes, strict=True):
        np.testing.assert_allclose(box, around(mask), atol=1.01)


def test_operations_are_drawn_as_they_are_done() -> None:
    x = jnp.asarray(np.random.default_rng(0).random((6, 8, 8, 3)), jnp.float32)
    key = jax.random.key(3)
    done = jax.jit(lambda x: rand_augment(x, key, 2, 9.0))(x)
    apart = jax.jit(lambda x: operate_images(x, draw_operations(key, 6, 2, 9.0)))(x)
    np.testing.assert_array_equal(done, apart)
    assert draw_operations(key, 6, 0, 9.0).chosen.shape == (0, 6)
