"""Simple shapes on a noisy ground: pictures whose boxes, masks and labels are known exactly, all from one generator.

Every image holds one to five shapes of any colour that differs from the ground, in any size and turned at random. A
shape may cover a little of one before it; masks say which pixels of it are seen, boxes are those around these pixels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, UInt8

from chainrule.data.loading.options import Option, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.targets.boxes import filled

CLASSES = ("circle", "square", "triangle", "star")
_SMALLEST, _LARGEST = 6.0, 15.0
"""Distance from the centre of a shape to its farthest point, in pixels of an image of 64."""
_USUAL = 64
_SEEN = 0.75
"""The share of a shape that must be seen."""
_TRIES = 20


class Scene(NamedTuple):
    """One image and everything that is known about it."""

    image: UInt8[np.ndarray, "height width 3"]
    boxes: Float[np.ndarray, "shapes 5"]
    """(x0, y0, x1, y1, class) of what is seen of each shape."""
    mask: UInt8[np.ndarray, "height width"]
    """0 for the ground, 1 + class for a shape."""


def scene(rng: np.random.Generator, size: int, most: int) -> Scene:
    """One image with up to `most` shapes."""
    y, x = np.mgrid[:size, :size] + 0.5
    tilt = rng.uniform(-0.25, 0.25, (2, 3)) / size
    ground = (
        rng.uniform(0.15, 0.85, 3) + (x - size / 2)[..., None] * tilt[0] + (y - size / 2)[..., None] * tilt[1]
    )
    owner = np.zeros((size, size), int)
    labels: list[int] = []
    areas: list[int] = []
    image = ground.copy()
    for _ in range(rng.integers(1, most + 1)):
        for _ in range(_TRIES):
            label = int(rng.integers(len(CLASSES)))
            reach = rng.uniform(_SMALLEST, _LARGEST) * size / _USUAL
            centre = rng.uniform(0.8 * reach, size - 0.8 * reach, 2)
            near = tuple(slice(max(0, int(c - reach - 1)), int(c + reach + 2)) for c in centre[::-1])
            outside = _distance(
                label, x[near] - centre[0], y[near] - centre[1], reach, rng.uniform(0, 2 * np.pi)
            )
            inside = outside < 0
            covered = np.bincount(owner[near][inside], minlength=len(labels) + 1)[1:]
            left = np.bincount(owner.ravel(), minlength=len(labels) + 1)[1:] - covered
            if (left >= _SEEN * np.array(areas)).all():
                break
        else:
            continue
        labels.append(label)
        areas.append(int(inside.sum()))
        owner[near][inside] = len(labels)
        colour = _colour(rng, ground[int(centre[1]), int(centre[0])])
        share = np.clip(0.5 - outside, 0, 1)[..., None]
        image[near] = (1 - share) * image[near] + share * colour
    noisy = image + rng.normal(0, 0.04, image.shape)
    mask = np.array([0, *(1 + label for label in labels)], np.uint8)[owner]
    boxes = [(*_box(owner == number + 1), label) for number, label in enumerate(labels)]
    return Scene((np.clip(noisy, 0, 1) * 255).astype(np.uint8), np.array(boxes, float).reshape(-1, 5), mask)


def _distance(label: int, x: np.ndarray, y: np.ndarray, reach: float, turn: float) -> np.ndarray:
    """How far each pixel lies outside a shape, about; below 0 inside."""
    if label == 0:
        return np.hypot(x, y) - reach
    corners = {1: 4, 2: 3, 3: 5}[label]
    sector = 2 * np.pi / corners
    # Every sector is mirrored about the ray through its corner: one edge then tells for all of them.
    angle = np.abs((np.arctan2(y, x) + turn) % sector - sector / 2)
    along, aside = np.hypot(x, y) * np.cos(angle), np.hypot(x, y) * np.sin(angle)
    if label < 3:
        return along - reach * np.cos(sector / 2)
    inner = 0.45 * reach  # the corners that a star turns inwards lie on the ray itself
    tip = np.array([np.cos(sector / 2), np.sin(sector / 2)]) * reach
    edge = tip - [inner, 0.0]
    normal = np.array([edge[1], -edge[0]]) / np.hypot(*edge)
    return (along - inner) * normal[0] + aside * normal[1]


def _colour(rng: np.random.Generator, ground: np.ndarray) -> np.ndarray:
    """A colour that can be told from the ground."""
    colour = rng.uniform(0, 1, 3)
    while np.abs(colour - ground).max() < 0.3:
        colour = rng.uniform(0, 1, 3)
    return colour


def _box(seen: Bool[np.ndarray, "height width"]) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


@final
@dataclass(frozen=True)
class Shapes:
    """Images of shapes with one of the things that are known about them."""

    summary: str
    target: str
    """What is known, by the name of the target."""
    known: Callable[[Sequence[Scene]], tuple[np.ndarray, tuple[str, ...]]]
    """That of some images, and the names of the classes."""
    n: int = 2000

    @property
    def reader(self) -> SourceReader:
        """The images as a source of data."""
        options = {
            "n": Option(self.n, whole(10, 10**6), "number of images"),
            "size": Option(_USUAL, whole(16, 1024), "pixels a side"),
            "most": Option(5, whole(1, 20), "most shapes in an image"),
        }
        return SourceReader("shapes", "images", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        n, size, most = (request.options[name] for name in ("n", "size", "most"))
        rng = np.random.default_rng(request.seed)
        scenes = [scene(rng, size, most) for _ in range(n)]
        x = np.stack([one.image for one in scenes])
        y, classes = self.known(scenes)
        return Scan(n, n, contents=Contents("image", x, y, self.target, classes=classes, levels=256))


def _boxes(scenes: Sequence[Scene]) -> tuple[np.ndarray, tuple[str, ...]]:
    return filled([one.boxes for one in scenes]), CLASSES


def _masks(scenes: Sequence[Scene]) -> tuple[np.ndarray, tuple[str, ...]]:
    return np.stack([one.mask for one in scenes]), ("ground", *CLASSES)


def _labels(scenes: Sequence[Scene]) -> tuple[np.ndarray, tuple[str, ...]]:
    there = [[(one.boxes[:, 4] == label).any() for label in range(len(CLASSES))] for one in scenes]
    return np.array(there, np.uint8), CLASSES


SHAPES = {
    "shapes": Shapes("circles, squares, triangles and stars with boxes, 64×64 in colour", "boxes", _boxes),
    "shape-masks": Shapes("the same shapes with a class for each pixel", "mask", _masks),
    "shape-labels": Shapes("the same shapes with which of them there are", "labels", _labels),
}

__all__ = ["CLASSES", "SHAPES", "Scene", "Shapes", "scene"]
