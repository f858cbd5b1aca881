"""Boxes: overlap measures, changes of notation, clipping.

A box is (x0, y0, x1, y1), its left, upper, right and lower edge in pixels: that around a whole image is (0, 0, width,
height). Any leading axes; NumPy arrays stay NumPy arrays.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array

Boxes: TypeAlias = Shaped[Array, "... 4"] | Shaped[np.ndarray, "... 4"]
Overlap: TypeAlias = Any
"""One number for each box."""


def check_boxes(where: str, name: str, boxes: Any) -> None:
    """Raise unless an array holds boxes.

    >>> check_boxes("iou", "a", np.zeros((2, 5)))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: iou: a has shape (2, 5); boxes are (x0, y0, x1, y1) along the last axis
    """
    if not boxes.ndim or boxes.shape[-1] != 4:
        raise ArgumentError(
            f"{where}: {name} has shape {boxes.shape}; boxes are (x0, y0, x1, y1) along the last axis"
        )


def box_area(boxes: Boxes) -> Overlap:
    """Width times height; 0 where an edge has passed its opposite.

    >>> box_area(np.array([[0.0, 0.0, 2.0, 3.0], [2.0, 0.0, 1.0, 3.0]])).tolist()
    [6.0, 0.0]
    """
    check_boxes("box_area", "boxes", boxes)
    sides = (boxes[..., 2:] - boxes[..., :2]).clip(0)
    return sides[..., 0] * sides[..., 1]


def iou(a: Boxes, b: Boxes) -> Overlap:
    """Area in common over area in all, of each box and its counterpart; two boxes without area have 0 in common.

    >>> round(float(iou(np.array([0.0, 0, 2, 2]), np.array([1.0, 1, 3, 3]))), 6)
    0.142857
    """
    common, union, _ = _areas("iou", a, b)
    return _ratio(common, union)


def giou(a: Boxes, b: Boxes) -> Overlap:
    """IoU less the share of the smallest box around both that neither covers (Rezatofighi et al., 2019).

    Between -1 and 1, and it has a slope where boxes are apart.

    >>> round(float(giou(np.array([0.0, 0, 2, 2]), np.array([1.0, 1, 3, 3]))), 6)
    -0.079365
    """
    common, union, hull = _areas("giou", a, b)
    around = box_area(hull)
    return _ratio(common, union) - _ratio(around - union, around)


def diou(a: Boxes, b: Boxes) -> Overlap:
    """IoU less the squared distance of the centres over the squared diagonal of the box around both (Zheng, 2020).

    >>> round(float(diou(np.array([0.0, 0, 2, 2]), np.array([1.0, 1, 3, 3]))), 6)
    0.031746
    """
    common, union, hull = _areas("diou", a, b)
    apart = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    diagonal = hull[..., 2:] - hull[..., :2]
    return _ratio(common, union) - _ratio((apart**2).sum(axis=-1), (diagonal**2).sum(axis=-1))


def pairwise(measure: Callable[[Any, Any], Any], a: Boxes, b: Boxes) -> Any:
    """A measure of every box of `a` (rows) with every box of `b` (columns), over common leading axes.

    >>> pairwise(iou, np.array([[0.0, 0, 2, 2]]), np.array([[0.0, 0, 2, 2], [0, 0, 1, 2]])).tolist()
    [[1.0, 0.5]]
    """
    for name, boxes in (("a", a), ("b", b)):
        check_boxes("pairwise", name, boxes)
        if boxes.ndim < 2:
            raise ArgumentError(f"pairwise: {name} is a single box", remedy=f"give several: {name}[None]")
    return measure(a[..., :, None, :], b[..., None, :, :])


def centers_of(boxes: Boxes) -> Any:
    """(x0, y0, x1, y1) as (centre x, centre y, width, height).

    >>> centers_of(np.array([10.0, 20, 30, 60])).tolist()
    [20.0, 40.0, 20.0, 40.0]
    """
    check_boxes("centers_of", "boxes", boxes)
    low, high = boxes[..., :2], boxes[..., 2:]
    return _together((low + high) / 2, high - low)


def from_centers(boxes: Boxes) -> Any:
    """(centre x, centre y, width, height) as (x0, y0, x1, y1).

    >>> from_centers(np.array([20.0, 40, 20, 40])).tolist()
    [10.0, 20.0, 30.0, 60.0]
    """
    check_boxes("from_centers", "boxes", boxes)
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return _together(centre - half, centre + half)


def from_sizes(boxes: Boxes) -> Any:
    """(x0, y0, width, height), as COCO's files have them, as (x0, y0, x1, y1).

    >>> from_sizes(np.array([10.0, 20, 5, 6])).tolist()
    [10.0, 20.0, 15.0, 26.0]
    """
    check_boxes("from_sizes", "boxes", boxes)
    return _together(boxes[..., :2], boxes[..., :2] + boxes[..., 2:])


def sizes_of(boxes: Boxes) -> Any:
    """(x0, y0, x1, y1) as (x0, y0, width, height).

    >>> sizes_of(np.array([10.0, 20, 15, 26])).tolist()
    [10.0, 20.0, 5.0, 6.0]
    """
    check_boxes("sizes_of", "boxes", boxes)
    return _together(boxes[..., :2], boxes[..., 2:] - boxes[..., :2])


def clip_boxes(boxes: Boxes, size: tuple[int, int]) -> Any:
    """Boxes cut off at the edges of an image of this (height, width).

    >>> clip_boxes(np.array([-3.0, 2, 9, 30]), (20, 8)).tolist()
    [0.0, 2.0, 8.0, 20.0]
    """
    check_boxes("clip_boxes", "boxes", boxes)
    height, width = size
    return _together(
        *(boxes[..., i : i + 1].clip(0, end) for i, end in enumerate((width, height, width, height)))
    )


def _areas(where: str, a: Boxes, b: Boxes) -> tuple[Any, Any, Any]:
    """Area in common, area in all, and the smallest box around both."""
    check_boxes(where, "a", a)
    check_boxes(where, "b", b)
    if a.ndim != b.ndim or any(n != m and 1 not in (n, m) for n, m in zip(a.shape, b.shape, strict=True)):
        raise ArgumentError(
            f"{where}: boxes of shape {a.shape} and {b.shape}",
            remedy=f"give each a counterpart, or compare all with all: pairwise({where}, a, b)",
        )
    xp = _namespace(a, b)
    low, high = xp.maximum(a[..., :2], b[..., :2]), xp.minimum(a[..., 2:], b[..., 2:])
    common = box_area(_together(low, high))
    union = box_area(a) + box_area(b) - common
    hull = _together(xp.minimum(a[..., :2], b[..., :2]), xp.maximum(a[..., 2:], b[..., 2:]))
    return common, union, hull


def _ratio(part: Any, whole: Any) -> Any:
    """A share of something that may be nothing; the slope is that of zero there."""
    xp = _namespace(whole)
    some = whole > 0
    return xp.where(some, part, 0) / xp.where(some, whole, 1)


def _together(*parts: Any) -> Any:
    return _namespace(*parts).concatenate(parts, axis=-1)


def _namespace(*arrays: Any) -> Any:
    return np if all(isinstance(array, np.ndarray | np.generic) for array in arrays) else jnp


__all__ = [
    "Boxes",
    "box_area",
    "centers_of",
    "check_boxes",
    "clip_boxes",
    "diou",
    "from_centers",
    "from_sizes",
    "giou",
    "iou",
    "pairwise",
    "sizes_of",
]
