"""Regions of interest: the part of a feature map within a box, brought to a fixed number of cells.

Boxes are in the units of the map, one unit a cell: those of an image divided by the stride of the map.
"""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.detection.boxes import check_boxes

FeatureMap = Float[Array, "height width channels"]
RegionBoxes = Float[Array, "regions 4"]


@jax.named_scope("roi_max_pool")
def roi_max_pool(
    features: FeatureMap, boxes: RegionBoxes, size: tuple[int, int] = (7, 7)
) -> Float[Array, "regions rows columns channels"]:
    """The largest entry in each of `size` cells of every box, edges rounded to whole entries (Girshick, 2015).

    A cell takes in every entry that it touches, so that cells may share entries; one outside the map is 0. The gradient
    goes to the largest entry.

    >>> ramp = jnp.arange(16.0).reshape(4, 4, 1)
    >>> roi_max_pool(ramp, jnp.array([[0.0, 0, 4, 4]]), (2, 2))[0, ..., 0].tolist()
    [[5.0, 7.0], [13.0, 15.0]]
    """
    rows, columns = _sizes("roi_max_pool", features, boxes, size)
    height, width, _ = features.shape
    # Cells are products of ranges of rows and of columns, so that the maximum is taken along one after the other.
    inside = _touched(boxes[:, 1], boxes[:, 3], rows, height)[:, :, :, None, None]
    tall = jnp.where(inside, features[None, None], -jnp.inf).max(axis=2)
    inside = _touched(boxes[:, 0], boxes[:, 2], columns, width)[:, None, :, :, None]
    found = jnp.where(inside, tall[:, :, None], -jnp.inf).max(axis=3)
    return jnp.where(jnp.isneginf(found), 0.0, found)


@jax.named_scope("roi_align")
def roi_align(
    features: FeatureMap, boxes: RegionBoxes, size: tuple[int, int] = (7, 7), *, samples: int = 2
) -> Float[Array, "regions rows columns channels"]:
    """The mean over `samples`² points in each of `size` cells of every box, interpolated bilinearly (He et al., 2017).

    Nothing is rounded, so that it is differentiable in the boxes too. Points up to one entry outside the map have the
    value at its edge, those further away are 0.

    >>> ramp = jnp.broadcast_to(jnp.arange(8.0)[None, :, None] + 0.5, (8, 8, 1))
    >>> roi_align(ramp, jnp.array([[1.0, 1, 7, 7]]), (1, 3))[0, 0, :, 0].tolist()
    [2.0, 4.0, 6.0]
    """
    rows, columns = _sizes("roi_align", features, boxes, size)
    samples = whole("roi_align", "samples", samples)
    height, width, channels = features.shape
    tall, down = _taps(boxes[:, 1], boxes[:, 3], rows, samples, height)
    wide, along = _taps(boxes[:, 0], boxes[:, 2], columns, samples, width)
    entries = features.reshape(height * width, channels)
    found = jnp.zeros((len(boxes), rows, columns, channels), features.dtype)
    # Written out, as one sum: compilers read the entries as they add them up and keep none of them.
    for i, j in itertools.product(range(2 * samples), repeat=2):
        share = (down[:, :, None, i] * along[:, None, :, j]).astype(features.dtype)
        found += share[..., None] * entries[tall[:, :, None, i] * width + wide[:, None, :, j]]
    return found


@jax.named_scope("warp_regions")
def warp_regions(
    image: FeatureMap, boxes: RegionBoxes, size: tuple[int, int], *, context: float = 0.0
) -> Float[Array, "regions rows columns channels"]:
    """The pixels within each box, stretched to one size whatever its shape (R-CNN; Girshick et al., 2014).

    `context` is the share of the side of what comes out that shows, at each edge, what lies around the box: 16 of 227
    pixels as published. What would lie outside of the image has the mean colour of the image.

    >>> image = jnp.zeros((8, 8, 1)).at[2:6, 2:6].set(1.0)
    >>> box = jnp.array([[2.0, 2, 6, 6]])
    >>> warp_regions(image, box, (4, 4), context=0.25)[0, :, 1, 0].round(2).tolist()  # edges are interpolated
    [0.0, 1.0, 1.0, 0.0]
    """
    _sizes("warp_regions", image, boxes, size)
    if not 0 <= context < 0.5:
        raise ArgumentError(
            f"warp_regions(context={context}): context must be at least 0 and below 0.5",
            remedy="16 / 227, about 0.07, is what was published",
        )
    around = (boxes[:, 2:] - boxes[:, :2]) * (context / (1 - 2 * context))
    wider = jnp.concatenate([boxes[:, :2] - around, boxes[:, 2:] + around], axis=1)
    mean = image.mean(axis=(0, 1), keepdims=True)
    return roi_align(image - mean, wider, size) + mean[None]


def _sizes(where: str, features: Array, boxes: Array, size: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of what comes out; an error unless there are boxes of one map."""
    check_boxes(where, "boxes", boxes)
    if features.ndim != 3 or boxes.ndim != 2:
        raise ArgumentError(
            f"{where}: a map of shape {features.shape} and boxes of shape {boxes.shape}",
            remedy="give (height, width, channels) and (regions, 4); for several images jax.vmap over both",
        )
    if not isinstance(size, Sequence) or len(size) != 2:
        raise ArgumentError(f"{where}(size={size}): rows and columns are two numbers", remedy="size=(7, 7)")
    return whole(where, "size", size[0]), whole(where, "size", size[1])


def _touched(low: Array, high: Array, cells: int, length: int) -> Array:
    """Whether each entry of an axis belongs to each cell of a range with rounded ends, (regions, cells, length)."""
    first = jnp.round(low)
    span = jnp.maximum(jnp.round(high) - first, 1.0)
    step = (span / cells)[:, None]
    number = jnp.arange(cells, dtype=low.dtype)[None]
    begin = jnp.floor(number * step) + first[:, None]
    end = jnp.ceil((number + 1) * step) + first[:, None]
    entry = jnp.arange(length, dtype=low.dtype)[None, None]
    return (entry >= begin[:, :, None]) & (entry < end[:, :, None])


def _taps(low: Array, high: Array, cells: int, samples: int, length: int) -> tuple[Array, Array]:
    """Which entries of an axis the points of each cell lie between, and what each counts for in their mean.

    Both are (regions, cells, 2 * samples): two entries for a point.
    """
    step = ((high - low) / (cells * samples))[:, None]
    at = low[:, None] + (jnp.arange(cells * samples, dtype=low.dtype)[None] + 0.5) * step - 0.5
    known = (at >= -1) & (at <= length)
    at = at.clip(0, length - 1)
    first = jnp.floor(at).astype(jnp.int32)
    further = at - first
    entries = jnp.stack([first, jnp.minimum(first + 1, length - 1)], axis=-1)
    shares = jnp.where(known[..., None], jnp.stack([1 - further, further], axis=-1), 0.0) / samples
    shape = (len(low), cells, 2 * samples)
    return entries.reshape(shape), shares.reshape(shape)


__all__ = ["roi_align", "roi_max_pool", "warp_regions"]
