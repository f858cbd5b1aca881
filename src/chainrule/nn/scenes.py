"""Random augmentation of images together with the masks and boxes that belong to them, from one draw.

The order is that of training: a part cut out and enlarged, mirrored and moved, operations of RandAugment, light. A pure
function of a key that can be compiled.
"""

from typing import NamedTuple

from jaxtyping import Shaped

from chainrule.core import random
from chainrule.core.types import Array, Float, Key
from chainrule.nn import augment, rand_augment
from chainrule.nn.augment import Images


class Scenes(NamedTuple):
    """Images of a batch and what is marked in them."""

    images: Images
    masks: Shaped[Array, "batch height width *rest"] | None = None
    """Numbers of things or classes, or any values, for each pixel."""
    boxes: Float[Array, "batch boxes 4"] | None = None
    """(x0, y0, x1, y1) in pixels; one that has left its image has no area."""


def augmented(
    scenes: Scenes,
    key: Key,
    *,
    resized_crop: float = 1.0,
    flip: bool = False,
    crop: int = 0,
    operations: int = 0,
    magnitude: float = 9,
    light: float = 0.0,
) -> Scenes:
    """Images changed at random, with masks and boxes that stay on what they mark.

    `resized_crop` is the smallest share of the area that is cut out (1: all of it), `flip` mirrors every second image,
    `crop` moves by up to so many pixels, `operations` are those of RandAugment at this `magnitude`, `light` is the
    largest change of contrast, brightness and saturation.

    >>> import jax, jax.numpy as jnp
    >>> mask = jnp.zeros((1, 8, 8), jnp.int32).at[:, 2:5, 1:3].set(7)
    >>> there = Scenes(mask[..., None] / 7.0, mask, jnp.array([[[1.0, 2.0, 3.0, 5.0]]]))
    >>> found = augmented(there, jax.random.key(0), flip=True, crop=1)
    >>> bool((found.images[..., 0] * 7 == found.masks).all()), int((found.masks > 0).sum())
    (True, 6)
    """
    images, masks, boxes = scenes
    size = (images.shape[1], images.shape[2])
    if resized_crop < 1:
        crops = augment.draw_crops(random.named(key, "crops"), len(images), size, least=resized_crop)
        images = augment.crop_images(images, crops)
        masks = None if masks is None else augment.crop_masks(masks, crops)
        boxes = None if boxes is None else augment.crop_boxes(boxes, crops, size)
    if flip or crop:
        moves = augment.draw_moves(random.named(key, "moves"), len(images), flip=flip, crop=crop)
        images = augment.move_images(images, moves)
        masks = None if masks is None else augment.move_images(masks, moves)
        boxes = None if boxes is None else augment.move_boxes(boxes, moves, size)
    if operations and magnitude:
        drawn = rand_augment.draw_operations(
            random.named(key, "operations"), len(images), operations, magnitude
        )
        images = rand_augment.operate_images(images, drawn)
        masks = None if masks is None else rand_augment.operate_masks(masks, drawn)
        boxes = None if boxes is None else rand_augment.operate_boxes(boxes, drawn, size)
    if light:
        images = augment.relight(images, random.named(key, "light"), light)
    return Scenes(images, masks, boxes)


__all__ = ["Scenes", "augmented"]
