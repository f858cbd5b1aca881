"""RandAugment: a few random operations on every image, all of one magnitude (Cubuk et al., 2020, arXiv:1909.13719).

The fourteen operations and what a magnitude means to each are those of torchvision. Every image of a batch draws its
own: all affine ones are one look-up with a matrix for each image, all blends one weighted sum, so that a batch is
changed by a handful of compiled operations rather than by a loop over images. Pixels lie in [0, 1]. What is done is
drawn apart from doing it, so that masks and boxes go the way of their images.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Shaped

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.augment import Images

MOST = 30
"""The largest magnitude."""
OPERATIONS = (
    *("identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate"),
    *("brightness", "colour", "contrast", "sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize"),
)
DEGREES = 30.0
"""The turn that a strength of one means."""
_SHEAR, _SHIFT, _BLEND, _BITS = 0.3, 150 / 331, 0.9, 4
"""What the largest magnitude means: of a side, of a side, of the difference, of eight."""


class ImageOperations(NamedTuple):
    """What is done to each image of a batch, one operation after another."""

    chosen: Int[Array, "operations batch"]
    """Numbers of `OPERATIONS`."""
    strength: Float[Array, "operations batch"]
    """In [-1, 1]; signs say which way."""


def draw_operations(key: Key, batch: int, operations: int, magnitude: float) -> ImageOperations:
    """This many operations for every image, drawn at random; all of one magnitude, either way."""
    if operations < 0 or not 0 <= magnitude <= MOST:
        raise ArgumentError(
            f"rand_augment(operations={operations}, magnitude={magnitude:g}): magnitudes go from 0 to {MOST}",
            remedy="2 operations of magnitude 9 are usual",
        )
    drawn = []
    for round_key in jax.random.split(key, operations):
        to_choose, to_turn = jax.random.split(round_key)
        chosen = jax.random.randint(to_choose, (batch,), 0, len(OPERATIONS))
        drawn.append((chosen, jax.random.rademacher(to_turn, (batch,), jnp.float32) * (magnitude / MOST)))
    if not drawn:
        return ImageOperations(jnp.zeros((0, batch), jnp.int32), jnp.zeros((0, batch)))
    return ImageOperations(*(jnp.stack(each) for each in zip(*drawn, strict=True)))


def rand_augment(x: Images, key: Key, operations: int, magnitude: float) -> Images:
    """Every image after this many operations drawn at random, one after another; at magnitude 0 as it was."""
    drawn = draw_operations(key, len(x), operations, magnitude)
    return x if magnitude == 0 else operate_images(x, drawn)


def operate_images(x: Images, drawn: ImageOperations) -> Images:
    """Images after their operations."""
    for chosen, strength in zip(*drawn, strict=True):
        x = operated(x, chosen, strength)
    return x


def operate_masks(masks: Shaped[Array, "batch height width *rest"], drawn: ImageOperations) -> Array:
    """Masks, whatever they hold, after the same operations: only where things are changes; zeros come in at edges."""
    for chosen, strength in zip(*drawn, strict=True):
        masks = _look_up(masks, _matrices(chosen, strength, (masks.shape[1], masks.shape[2])))
    return masks


def operate_boxes(
    boxes: Float[Array, "batch boxes 4"], drawn: ImageOperations, size: tuple[int, int]
) -> Float[Array, "batch boxes 4"]:
    """Boxes (x0, y0, x1, y1) of images of that (height, width) around what was in them, cut off at the edges.

    A box that is turned or sheared becomes the smallest upright one around its corners.

    >>> right = ImageOperations(jnp.array([[OPERATIONS.index("translate-x")]]), jnp.array([[-1.0]]))
    >>> operate_boxes(jnp.array([[[0.0, 0.0, 2.0, 1.0]]]), right, (4, 331)).round(3).tolist()
    [[[150.0, 0.0, 152.0, 1.0]]]
    """
    height, width = size
    centre = jnp.array([height, width], boxes.dtype)[None, None, None] / 2
    for chosen, strength in zip(*drawn, strict=True):
        # The matrices say where a pixel comes from; corners go the other way.
        matrices = _matrices(chosen, strength, size).astype(boxes.dtype)
        (a, b), (c, d) = ((matrices[:, i, 0], matrices[:, i, 1]) for i in (0, 1))
        back = jnp.stack([jnp.stack([d, -b], axis=-1), jnp.stack([-c, a], axis=-1)], axis=1)
        back = back / (a * d - b * c)[:, None, None]
        x0, y0, x1, y1 = jnp.moveaxis(boxes, -1, 0)
        corners = jnp.stack([jnp.stack([y, x], axis=-1) for y in (y0, y1) for x in (x0, x1)], axis=2)
        from_there = corners - centre - matrices[:, None, None, :, 2]
        moved = jnp.einsum("nij,nbcj->nbci", back, from_there) + centre
        ends = jnp.array([height, width], boxes.dtype)[None, None]
        low, high = (edge(moved, axis=2).clip(0, ends) for edge in (jnp.min, jnp.max))
        boxes = jnp.concatenate([low[..., ::-1], high[..., ::-1]], axis=-1)
    return boxes


def operated(
    x: Images, chosen: Int[Array, " batch"], strength: Float[Array, " batch"]
) -> Float[Array, "batch height width channels"]:
    """Every image after the operation of this number; strengths lie in [-1, 1], signs say which way."""
    height, width = x.shape[1:3]
    x = _look_up(x, _matrices(chosen, strength, (height, width)))
    strong = strength.astype(x.dtype).reshape(-1, 1, 1, 1)

    def where(name: str, new: Array, old: Array) -> Array:
        return jnp.where((chosen == OPERATIONS.index(name)).reshape(-1, 1, 1, 1), new, old)

    grey = _grey(x)
    faded = x
    for name, other in (
        ("brightness", jnp.zeros_like(x)),
        ("colour", jnp.broadcast_to(grey, x.shape)),
        ("contrast", jnp.broadcast_to(grey.mean(axis=(1, 2), keepdims=True), x.shape)),
        ("sharpness", _smoothed(x)),
    ):
        faded = where(name, other, faded)
    # Beyond the image itself a blend goes on in the same direction; where `faded` is `x` it changes nothing.
    out = jnp.where(faded == x, x, (faded + (1 + _BLEND * strong) * (x - faded)).clip(0, 1))
    size = jnp.abs(strong)
    step = 2.0 ** jnp.round(_BITS * size)
    levels = jnp.round(x * 255)
    out = where("posterize", jnp.where(step > 1, jnp.floor(levels / step) * step / 255, x), out)
    out = where("solarize", jnp.where(x > 1 - size, 1 - x, x), out)
    out = where("autocontrast", _stretched(x), out)
    return where("equalize", _equalised(levels.astype(jnp.int32)).astype(x.dtype), out)


def _matrices(
    chosen: Int[Array, " batch"], strength: Float[Array, " batch"], size: tuple[int, int]
) -> Float[Array, "batch 2 3"]:
    """From a pixel (row, column, 1), counted from the centre, to where it comes from."""
    height, width = size
    amount = {name: jnp.where(chosen == i, strength, 0.0) for i, name in enumerate(OPERATIONS)}
    angle = jnp.deg2rad(DEGREES) * amount["rotate"]
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    rows = [cosine, sine + _SHEAR * amount["shear-y"], _SHIFT * height * amount["translate-y"]]
    columns = [-sine + _SHEAR * amount["shear-x"], cosine, _SHIFT * width * amount["translate-x"]]
    return jnp.stack([jnp.stack(rows, axis=-1), jnp.stack(columns, axis=-1)], axis=1)


def _look_up(x: Shaped[Array, "batch height width *rest"], matrices: Float[Array, "batch 2 3"]) -> Array:
    """The nearest pixel of where each comes from; black beyond the edges."""
    height, width = x.shape[1:3]
    kind = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.float32
    row, column = jnp.meshgrid(jnp.arange(height), jnp.arange(width), indexing="ij")
    centre = jnp.array([(height - 1) / 2, (width - 1) / 2], kind)
    from_centre = jnp.stack([row - centre[0], column - centre[1], jnp.ones_like(row)], axis=-1)

    def one(image: Array, matrix: Array) -> Array:
        at = jnp.round(from_centre @ matrix.T.astype(kind) + centre[None, None]).astype(jnp.int32)
        inside = (at >= 0).all(axis=-1) & (at < jnp.array([height, width])[None, None]).all(axis=-1)
        found = image[at[..., 0].clip(0, height - 1), at[..., 1].clip(0, width - 1)]
        return jnp.where(
            inside.reshape(height, width, *(1,) * (found.ndim - 2)), found, jnp.zeros_like(found)
        )

    return jax.vmap(one)(x, matrices)


def _grey(x: Images) -> Float[Array, "batch height width 1"]:
    """Brightness as the eye sees it, of colours; the mean of other channels."""
    weights = jnp.array([0.299, 0.587, 0.114], x.dtype)
    return (
        (x * weights[None, None, None]).sum(axis=-1, keepdims=True)
        if x.shape[-1] == 3
        else x.mean(axis=-1, keepdims=True)
    )


def _smoothed(x: Images) -> Images:
    """Every pixel that has all its neighbours as their mean, itself counted five times."""
    if min(x.shape[1:3]) < 3:
        return x
    rows = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    inner = (rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:] + 4 * x[:, 1:-1, 1:-1]) / 13
    return x.at[:, 1:-1, 1:-1].set(inner)


def _stretched(x: Images) -> Images:
    """Every channel from black to white; one without contrast as it was."""
    low, high = x.min(axis=(1, 2), keepdims=True), x.max(axis=(1, 2), keepdims=True)
    return jnp.where(high > low, (x - low) / jnp.where(high > low, high - low, 1.0), x)


def _equalised(levels: Int[Array, "batch height width channels"]) -> Images:
    """Levels of 0 to 255 such that every brightness is about as frequent, channel by channel."""
    batch, height, width, channels = levels.shape
    flat = jnp.moveaxis(levels, -1, 1).reshape(batch * channels, height * width)

    def one(pixels: Array) -> Array:
        counts = jnp.zeros(256, jnp.int32).at[pixels].add(1)
        last = counts[pixels.max()]
        step = (height * width - last) // 255
        below = jnp.cumsum(counts) - counts
        new = ((below + step // 2) // jnp.maximum(step, 1)).clip(0, 255)
        return jnp.where(step == 0, pixels, new[pixels])

    equal = jax.vmap(one)(flat).reshape(batch, channels, height, width)
    return jnp.moveaxis(equal, 1, -1) / 255


__all__ = [
    "DEGREES",
    "MOST",
    "OPERATIONS",
    "ImageOperations",
    "draw_operations",
    "operate_boxes",
    "operate_images",
    "operate_masks",
    "operated",
    "rand_augment",
]
