"""Anchors: boxes of a few sizes and shapes at every cell of a feature map, and boxes coded relative to them."""

import itertools
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import check_same_shape, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.detection.boxes import check_boxes

MOST_GROWTH = math.log(1000 / 16)
"""The largest logarithm of a size over that of its anchor that is decoded: beyond it exp would overflow."""


def anchor_shapes(sides: Sequence[float], ratios: Sequence[float]) -> Float[np.ndarray, "shapes 2"]:
    """Width and height of anchors of area `side`² for each ratio of height to width.

    >>> anchor_shapes([128], [0.5, 1, 2]).round(1).tolist()
    [[181.0, 90.5], [128.0, 128.0], [90.5, 181.0]]
    """
    for name, values in (("sides", sides), ("ratios", ratios)):
        if not len(values) or not all(0 < one < math.inf for one in values):
            raise ArgumentError(f"anchor_shapes({name}={values}): {name} must be some numbers above 0")
    return np.array(
        [
            (side / math.sqrt(ratio), side * math.sqrt(ratio))
            for side, ratio in itertools.product(sides, ratios)
        ]
    )


def grid_centers(grid: tuple[int, int], stride: float) -> Float[np.ndarray, "cells 2"]:
    """The centres (x, y) of the cells of a feature map of this (height, width), in pixels, row after row.

    >>> grid_centers((1, 2), 8).tolist()
    [[4.0, 4.0], [12.0, 4.0]]
    """
    height, width = (whole("grid_centers", "grid", n) for n in grid)
    if not stride > 0:
        raise ArgumentError(f"grid_centers(stride={stride}): stride must be above 0")
    y, x = np.meshgrid((np.arange(height) + 0.5) * stride, (np.arange(width) + 0.5) * stride, indexing="ij")
    return np.stack([x, y], axis=-1).reshape(-1, 2)


def anchors(
    grid: tuple[int, int], stride: float, shapes: Float[np.ndarray, "shapes 2"]
) -> Float[np.ndarray, "anchors 4"]:
    """Boxes of each shape about the centre of every cell: cells row after row, the shapes of a cell together.

    >>> anchors((1, 1), 16, anchor_shapes([8], [1])).tolist()
    [[4.0, 4.0, 12.0, 12.0]]
    """
    centre = grid_centers(grid, stride)[:, None]
    half = np.asarray(shapes)[None] / 2
    return np.concatenate([centre - half, centre + half], axis=-1).reshape(-1, 4)


def encode_boxes(
    boxes: Float[Array, "*boxes 4"], anchors: Float[Array, "*boxes 4"]
) -> Float[Array, "*boxes 4"]:
    """Boxes relative to anchors: ((x - xa) / wa, (y - ya) / ha, log(w / wa), log(h / ha)) of centres and sizes.

    >>> found = encode_boxes(jnp.array([-40.0, 25, 160, 75]), jnp.array([0.0, 0, 100, 100]))
    >>> [round(float(one), 6) + 0.0 for one in found]
    [0.1, 0.0, 0.693147, -0.693147]
    """
    check_boxes("encode_boxes", "boxes", boxes)
    check_same_shape("encode_boxes", "boxes", boxes, "anchors", anchors)
    (x0, x1), (a0, a1) = ((both[..., :2], both[..., 2:]) for both in (boxes, anchors))
    side = a1 - a0
    moved = (x0 + x1 - a0 - a1) / (2 * side)
    return jnp.concatenate([moved, jnp.log((x1 - x0) / side)], axis=-1)


def decode_boxes(
    deltas: Float[Array, "*boxes 4"], anchors: Float[Array, "*boxes 4"]
) -> Float[Array, "*boxes 4"]:
    """The boxes that `encode_boxes` gives these numbers for; a side grows to 62.5 times its anchor's at most.

    >>> decode_boxes(jnp.zeros(4), jnp.array([4.0, 4, 12, 12])).tolist()
    [4.0, 4.0, 12.0, 12.0]
    """
    check_boxes("decode_boxes", "deltas", deltas)
    check_same_shape("decode_boxes", "deltas", deltas, "anchors", anchors)
    a0, a1 = anchors[..., :2], anchors[..., 2:]
    side = a1 - a0
    centre = (a0 + a1) / 2 + deltas[..., :2] * side
    half = jnp.exp(jnp.minimum(deltas[..., 2:], MOST_GROWTH)) * side / 2
    return jnp.concatenate([centre - half, centre + half], axis=-1)


__all__ = [
    "MOST_GROWTH",
    "anchor_shapes",
    "anchors",
    "decode_boxes",
    "encode_boxes",
    "grid_centers",
]
