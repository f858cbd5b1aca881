"""Segmentations of images into pieces of one colour: SLIC superpixels, and merging along the edges of a graph.

Images are (height, width, channels) in [0, 1]; what comes back is the number of a piece for each pixel, from 0 on.
NumPy: pieces have no gradient.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy import ndimage

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError

Segments = Int[np.ndarray, "height width"]
Picture = Float[np.ndarray, "height width channels"]


def slic(image: Picture, pieces: int = 100, *, compactness: float = 0.2, iterations: int = 10) -> Segments:
    """Superpixels: k-means over colour and position, each centre looking no further than two cells (Achanta, 2012).

    `compactness` is the difference in colour that weighs as much as the side of a cell. Parts that lie apart from the
    rest of their piece go to the piece beside them, so that every piece is connected.

    >>> image = np.zeros((8, 8, 1)); image[:, 4:] = 1
    >>> found = slic(image, 4)
    >>> bool((found[:, 3] != found[:, 4]).all())
    True
    """
    pieces, iterations = whole("slic", "pieces", pieces), whole("slic", "iterations", iterations)
    if not compactness > 0:
        raise ArgumentError(
            f"slic(compactness={compactness}): compactness must be above 0", remedy="0.2 is usual"
        )
    image = _checked("slic", image)
    height, width, _ = image.shape
    side = max(1.0, np.sqrt(height * width / pieces))
    rows = np.arange(side / 2, height, side)
    columns = np.arange(side / 2, width, side)
    grid = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    y, x = np.mgrid[:height, :width] + 0.5
    points = np.concatenate([image, np.stack([y, x], axis=-1) * compactness / side], axis=-1)
    centres = points[
        grid[:, 0].astype(int).clip(0, height - 1), grid[:, 1].astype(int).clip(0, width - 1)
    ].copy()
    labels = np.zeros((height, width), int)
    for _ in range(iterations):
        nearest = np.full((height, width), np.inf)
        for number, centre in enumerate(centres):
            row, column = centre[-2:] * side / compactness
            near = (
                slice(max(0, int(row - 2 * side)), int(row + 2 * side) + 1),
                slice(max(0, int(column - 2 * side)), int(column + 2 * side) + 1),
            )
            away = ((points[near] - centre) ** 2).sum(axis=-1)
            closer = away < nearest[near]
            nearest[near][closer] = away[closer]
            labels[near][closer] = number
        flat = labels.ravel()
        counts = np.bincount(flat, minlength=len(centres))
        sums = [np.bincount(flat, points[..., c].ravel(), len(centres)) for c in range(points.shape[-1])]
        some = counts > 0
        centres[some] = np.stack(sums, axis=-1)[some] / counts[some, None]
    return _connected(labels, max(1, int(side**2 / 4)))


def graph_segments(image: Picture, *, scale: float = 1.0, smallest: int = 20, sigma: float = 0.8) -> Segments:
    """Pieces whose inner differences are not much smaller than those across their borders (Felzenszwalb, 2004).

    Edges between neighbours, from the smallest difference to the largest, merge two pieces unless the difference
    exceeds the largest inside of either by more than `scale` over its number of pixels; pieces of fewer than `smallest`
    pixels are merged in any case. The image is smoothed by `sigma` pixels first.

    >>> image = np.zeros((8, 8, 1)); image[2:6, 2:6] = 1
    >>> np.bincount(graph_segments(image, smallest=4, sigma=0.0).ravel()).tolist()
    [48, 16]
    """
    smallest = whole("graph_segments", "smallest", smallest)
    if scale < 0 or sigma < 0:
        raise ArgumentError(f"graph_segments(scale={scale}, sigma={sigma}): neither may be negative")
    image = _checked("graph_segments", image)
    smooth = ndimage.gaussian_filter(image, (sigma, sigma, 0)) if sigma else image
    ends, weights = _edges(smooth)
    order = np.argsort(weights, kind="stable")
    pairs, steps = ends[order].tolist(), weights[order].tolist()
    pixels = image.shape[0] * image.shape[1]
    parent, size, inside = list(range(pixels)), [1] * pixels, [0.0] * pixels
    for merging in ("alike", "small"):
        for (a, b), step in zip(pairs, steps, strict=True):
            # The sets that both belong to, on paths that are halved on the way.
            while parent[a] != a:
                parent[a] = a = parent[parent[a]]
            while parent[b] != b:
                parent[b] = b = parent[parent[b]]
            if a == b:
                continue
            if merging == "alike":
                joined = step <= min(inside[a] + scale / size[a], inside[b] + scale / size[b])
            else:
                joined = min(size[a], size[b]) < smallest
            if joined:
                a, b = (a, b) if size[a] >= size[b] else (b, a)
                parent[b] = a
                size[a] += size[b]
                inside[a] = step  # edges come in the order of their differences: this is the largest
    roots = np.array(parent)
    while (roots[roots] != roots).any():
        roots = roots[roots]
    return _numbered(roots.reshape(image.shape[:2]))


def neighbours(segments: Segments) -> set[tuple[int, int]]:
    """Pairs of pieces that touch, the lower number first.

    >>> sorted(neighbours(np.array([[0, 1], [0, 2]])))
    [(0, 1), (0, 2), (1, 2)]
    """
    pairs = [
        np.stack([segments[:, :-1].ravel(), segments[:, 1:].ravel()], axis=1),
        np.stack([segments[:-1].ravel(), segments[1:].ravel()], axis=1),
    ]
    every = np.sort(np.concatenate(pairs), axis=1)
    return {(int(a), int(b)) for a, b in np.unique(every[every[:, 0] != every[:, 1]], axis=0)}


def _edges(image: Picture) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of pixels that touch, corners included, and how much their colours differ."""
    height, width, _ = image.shape
    number = np.arange(height * width).reshape(height, width)
    ends, weights = [], []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        first = (slice(0, height - down), slice(max(0, -right), width - max(0, right)))
        second = (slice(down, height), slice(max(0, right), width + min(0, right)))
        ends.append(np.stack([number[first].ravel(), number[second].ravel()], axis=1))
        weights.append(np.sqrt(((image[first] - image[second]) ** 2).sum(axis=-1)).ravel())
    return np.concatenate(ends), np.concatenate(weights)


def _connected(labels: Segments, smallest: int) -> Segments:
    """Each connected part a piece of its own; parts that are too small go to the piece at their left or above."""
    parts = np.zeros_like(labels)
    count = 0
    for number in np.unique(labels):
        own, many = ndimage.label(labels == number)
        parts[own > 0] = own[own > 0] + count
        count += many
    parts -= 1
    sizes = np.bincount(parts.ravel())
    target = np.arange(count)
    for row, column in zip(*np.unravel_index(_first_pixels(parts), parts.shape), strict=True):
        one = parts[row, column]
        if sizes[one] < smallest:
            beside = parts[row, column - 1] if column else parts[row - 1, column] if row else one
            target[one] = target[beside] if beside < count else one
    for _ in range(count.bit_length()):
        target = target[target]
    return _numbered(target[parts])


def _first_pixels(parts: Segments) -> np.ndarray:
    """The first pixel of each part, in the order of the rows."""
    return np.sort(np.unique(parts, return_index=True)[1])


def _numbered(labels: Segments) -> Segments:
    """Pieces numbered by their first pixels."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), int)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse].reshape(labels.shape)


def _checked(where: str, image: np.ndarray) -> np.ndarray:
    if image.ndim != 3 or not image.size or not np.isfinite(image).all():
        raise ArgumentError(
            f"{where}: an image of shape {image.shape}",
            remedy="give finite numbers (height, width, channels), best between 0 and 1",
        )
    return np.asarray(image, np.float64)


__all__ = ["graph_segments", "neighbours", "slic"]
