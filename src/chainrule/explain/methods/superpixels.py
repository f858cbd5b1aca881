"""Superpixels: an image cut into connected pieces of similar colour, to be explained as whole pieces.

k-means of colour and position together, in which every pixel compares the centres of its own and the eight adjoining
cells of a grid only (SLIC), so that the work does not grow with the number of pieces. Colours are compared in CIELAB,
where distances are about as large as people see them. What falls apart is joined to the neighbour with the longest
common border, so that every piece is connected.

Reference: Achanta et al., SLIC superpixels compared to state-of-the-art superpixel methods, 2012.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError

Image = Float[np.ndarray, "height width channels"]
Labels = Int[np.ndarray, "height width"]
_COLOURS = 3
_WHITE = np.array([0.95047, 1.0, 1.08883])
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""sRGB in linear light to CIE XYZ."""


def superpixels(image: Any, count: int = 50, *, compactness: float = 10.0, rounds: int = 10) -> Labels:
    """The piece that each pixel belongs to, from 0, about `count` of them.

    Pixels are in [0, 1]. The larger the `compactness`, the more square are the pieces.

    >>> halves = np.zeros((8, 8, 1))
    >>> halves[:, 3:] = 1.0
    >>> superpixels(halves, 2, compactness=1.0)[0].tolist()
    [0, 0, 0, 1, 1, 1, 1, 1]
    """
    image = np.asarray(image)
    if image.ndim != 3:
        raise ArgumentError(
            f"superpixels: an image of shape {image.shape}; expected (height, width, channels)",
            remedy="shades of grey are image[..., None], and of a batch one image at a time",
        )
    height, width, _ = image.shape
    if not 1 <= whole("superpixels", "count", count) <= height * width:
        raise ArgumentError(
            f"superpixels(count={count}): the image has {height * width} pixels",
            remedy="ask for fewer pieces",
        )
    if not compactness > 0:
        raise ArgumentError(f"superpixels(compactness={compactness}): it must be above 0", remedy="try 10")
    step = np.sqrt(height * width / count)
    # The grid with the number of cells nearest to what was asked for, cells as square as that allows.
    down = min(max(round(height / step), 1), height)
    across = min(max(round(count / down), 1), width)
    rows, columns = np.mgrid[:height, :width]
    position = np.stack([rows, columns], axis=-1) * (compactness / step)
    features = np.concatenate([lab(image), position], axis=-1).astype(np.float64)
    cell = (rows * down // height, columns * across // width)
    labels = cell[0] * across + cell[1]
    for _ in range(whole("superpixels", "rounds", rounds)):
        centres = _means(features, labels, down * across)
        before, labels = labels, _nearest(features, centres, cell, (down, across))
        if (before == labels).all():
            break
    return _connected(labels, height * width / (4 * count))


def lab(image: Image) -> Float[np.ndarray, "height width three"]:
    """Colours in CIELAB from sRGB, or from shades of grey.

    >>> np.abs(lab(np.ones((1, 1, 3)))).round(2).tolist()
    [[[100.0, 0.0, 0.0]]]
    """
    wide = image if image.shape[-1] == _COLOURS else np.repeat(image[..., :1], _COLOURS, axis=-1)
    light = np.where(wide > 0.04045, ((np.maximum(wide, 0) + 0.055) / 1.055) ** 2.4, wide / 12.92)
    xyz = light @ _TO_XYZ.T / _WHITE[None, None]
    root = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(root, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def _means(features: np.ndarray, labels: Labels, count: int) -> np.ndarray:
    flat, numbers = features.reshape(-1, features.shape[-1]), labels.ravel()
    members = np.bincount(numbers, minlength=count)
    sums = np.stack([np.bincount(numbers, column, minlength=count) for column in flat.T], axis=-1)
    # A piece that lost all its pixels is never nearest again.
    return np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], np.inf)


def _nearest(features: np.ndarray, centres: np.ndarray, cell: tuple, grid: tuple[int, int]) -> Labels:
    best = np.full(features.shape[:2], np.inf)
    labels = np.zeros(features.shape[:2], np.int64)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            row, column = cell[0] + dy, cell[1] + dx
            inside = (row >= 0) & (row < grid[0]) & (column >= 0) & (column < grid[1])
            number = np.where(inside, row * grid[1] + column, 0)
            apart = np.where(inside, np.square(features - centres[number]).sum(axis=-1), np.inf)
            closer = apart < best
            best, labels = np.where(closer, apart, best), np.where(closer, number, labels)
    return labels


def _connected(labels: Labels, least: float) -> Labels:
    """Connected pieces of at least so many pixels, numbered in the order in which they are met."""
    index = np.arange(labels.size).reshape(labels.shape)
    ends = [
        np.concatenate([index[:-1].ravel(), index[:, :-1].ravel()]),
        np.concatenate([index[1:].ravel(), index[:, 1:].ravel()]),
    ]
    flat = labels.ravel()
    same = flat[ends[0]] == flat[ends[1]]
    joined = coo_array((np.ones(same.sum()), (ends[0][same], ends[1][same])), shape=(labels.size,) * 2)
    pieces = connected_components(joined, directed=False)[1]
    for piece in np.argsort(np.bincount(pieces), kind="stable"):
        if np.count_nonzero(pieces == piece) >= least:
            continue
        one, two = pieces[ends[0]], pieces[ends[1]]
        border = np.concatenate([two[(one == piece) & (two != piece)], one[(two == piece) & (one != piece)]])
        if border.size:
            pieces[pieces == piece] = np.bincount(border).argmax()
    _, first, numbers = np.unique(pieces, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers].reshape(labels.shape)


__all__ = ["lab", "superpixels"]
