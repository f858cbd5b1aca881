"""Selective search: boxes that may hold an object, from pieces of an image that are merged (Uijlings et al., 2013).

Of all pieces that touch, the two most alike are merged, again and again until one is left; the box of every piece on
the way is a proposal. Alike means: in colour, in texture, small (so that large ones do not swallow all), and filling
one box.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

from chainrule.nn.detection.superpixels import Picture, Segments, graph_segments, neighbours

_COLOURS, _TEXTURES, _DIRECTIONS = 25, 10, 8
"""Bins of the histograms of colours and of the strengths of edges, and directions of these."""


@final
@dataclass
class ImagePiece:
    """A piece of an image and what it is compared by."""

    pixels: int
    box: tuple[int, int, int, int]
    colours: Float[np.ndarray, " bins"]
    textures: Float[np.ndarray, " edges"]

    def merged(self, other: "ImagePiece") -> "ImagePiece":
        """Both as one: histograms of the union follow from those of the parts."""
        total = self.pixels + other.pixels
        mine, theirs = self.pixels / total, other.pixels / total
        a, b = self.box, other.box
        return ImagePiece(
            total,
            (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])),
            mine * self.colours + theirs * other.colours,
            mine * self.textures + theirs * other.textures,
        )

    def similarity(self, other: "ImagePiece", image: int) -> float:
        """Colour + texture + size + fill, each between 0 and 1, in an image of so many pixels."""
        colour = float(np.minimum(self.colours, other.colours).sum())
        texture = float(np.minimum(self.textures, other.textures).sum())
        both = self.pixels + other.pixels
        x0, y0, x1, y1 = self.merged(other).box
        return colour + texture + (1 - both / image) + (1 - ((x1 - x0) * (y1 - y0) - both) / image)


def selective_search(
    image: Picture, *, scale: float = 1.0, smallest: int = 20, sigma: float = 0.8, least: int = 3
) -> Float[np.ndarray, "proposals 4"]:
    """Boxes (x0, y0, x1, y1) of all pieces, the largest merges first; those with a side below `least` are left out.

    `scale`, `smallest` and `sigma` are those of `graph_segments`, which gives the first pieces.

    >>> image = np.zeros((16, 16, 1)); image[4:10, 2:8] = 1
    >>> [2.0, 4.0, 8.0, 10.0] in selective_search(image, smallest=4, sigma=0.0).tolist()
    True
    """
    segments = graph_segments(image, scale=scale, smallest=smallest, sigma=sigma)
    pieces = dict(enumerate(_pieces(np.asarray(image, np.float64), segments)))
    total = segments.size
    touching: dict[int, set[int]] = {number: set() for number in pieces}
    alike: dict[tuple[int, int], float] = {}
    for a, b in neighbours(segments):
        touching[a].add(b)
        touching[b].add(a)
        alike[a, b] = pieces[a].similarity(pieces[b], total)
    found = [piece.box for piece in pieces.values()]
    while alike:
        a, b = max(alike, key=lambda pair: (alike[pair], pair))
        new = len(found)
        pieces[new] = pieces[a].merged(pieces[b])
        found.append(pieces[new].box)
        beside = (touching.pop(a) | touching.pop(b)) - {a, b}
        for one in beside:
            for old in (a, b):
                alike.pop((min(one, old), max(one, old)), None)
                touching[one].discard(old)
            touching[one].add(new)
            alike[one, new] = pieces[one].similarity(pieces[new], total)
        alike.pop((a, b), None)
        touching[new] = beside
    boxes = np.array(found[::-1], np.float64).reshape(-1, 4)
    boxes = boxes[((boxes[:, 2:] - boxes[:, :2]) >= least).all(axis=1)]
    _, first = np.unique(boxes, axis=0, return_index=True)
    return boxes[np.sort(first)]


def propose_regions(
    images: Float[np.ndarray, "images height width channels"], kept: int
) -> tuple[Float[np.ndarray, "images kept 4"], Bool[np.ndarray, "images kept"]]:
    """The first so many boxes of selective search in each image, and which of them are there and no fillers.

    >>> image = np.zeros((1, 16, 16, 1)); image[0, 4:10, 2:8] = 1
    >>> boxes, there = propose_regions(image, 8)
    >>> boxes.shape, bool(there[0, 0]), bool(there[0, -1])
    ((1, 8, 4), True, False)
    """
    boxes, there = np.zeros((len(images), kept, 4)), np.zeros((len(images), kept), bool)
    boxes[..., 2:] = 1
    for number, image in enumerate(images):
        found = selective_search(image, scale=0.2, sigma=0.4)[:kept]
        boxes[number, : len(found)], there[number, : len(found)] = found, True
    return boxes, there


def _pieces(image: Picture, segments: Segments) -> list[ImagePiece]:
    count = int(segments.max()) + 1
    flat = segments.ravel()
    pixels = np.bincount(flat, minlength=count)
    colours = np.concatenate(
        [_histograms(image[..., c], flat, count, _COLOURS) for c in range(image.shape[2])], axis=1
    )
    textures = np.concatenate(
        [
            _histograms(one, flat, count, _TEXTURES)
            for c in range(image.shape[2])
            for one in _edges_by_direction(image[..., c])
        ],
        axis=1,
    )
    colours /= np.maximum(colours.sum(axis=1, keepdims=True), 1)
    textures /= np.maximum(textures.sum(axis=1, keepdims=True), 1)
    boxes = [
        (columns.start, rows.start, columns.stop, rows.stop)
        for rows, columns in ndimage.find_objects(segments + 1)
    ]
    return [ImagePiece(int(pixels[k]), boxes[k], colours[k], textures[k]) for k in range(count)]


def _histograms(values: np.ndarray, flat: np.ndarray, count: int, bins: int) -> np.ndarray:
    """Counts of values in [0, 1] for each piece."""
    bin_ = (values.ravel().clip(0, 1) * bins).astype(int).clip(0, bins - 1)
    return np.bincount(flat * bins + bin_, minlength=count * bins).reshape(count, bins).astype(float)


def _edges_by_direction(channel: np.ndarray) -> list[np.ndarray]:
    """How strongly a channel rises in each of eight directions."""
    down, right = (ndimage.gaussian_filter(channel, 1.0, order=order) for order in ((1, 0), (0, 1)))
    angles = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    return [np.maximum(np.cos(angle) * right + np.sin(angle) * down, 0) * 2 for angle in angles]


__all__ = ["ImagePiece", "propose_regions", "selective_search"]
