"""Average precision of detections: how well the objects of some images were found, class by class.

Detections of a class in all images, from the highest score to the lowest, are hits or misses: each takes, of the
objects of its image that none before it has taken, the one it overlaps most, if the IoU reaches a threshold. Precision
over recall is made to fall, and averaged.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from chainrule.core.errors import ArgumentError
from chainrule.nn.detection.boxes import iou, pairwise

SWEEP = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
"""The thresholds of COCO: 0.50, 0.55, ..., 0.95."""
MOST = 100
"""Detections of an image that count, those with the highest scores."""

Detected = Shaped[np.ndarray, "images detections 6"]
"""(x0, y0, x1, y1, score, class) for each; a class below 0 fills up."""
Objects = Shaped[np.ndarray, "images objects 5"]
"""(x0, y0, x1, y1, class) for each; a class below 0 fills up."""


class Ranking(NamedTuple):
    """The detections of one class, from the highest score to the lowest."""

    scores: Float[np.ndarray, " detections"]
    hits: Bool[np.ndarray, " detections"]
    """Whether each found an object."""
    objects: int
    """How many there are to be found."""

    def curve(self) -> tuple[Float[np.ndarray, " detections"], Float[np.ndarray, " detections"]]:
        """Recall and precision after each detection.

        >>> ranking = Ranking(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]), 2)
        >>> [one.round(3).tolist() for one in ranking.curve()]
        [[0.5, 0.5, 1.0], [1.0, 0.5, 0.667]]
        """
        found = np.cumsum(self.hits)
        return found / max(self.objects, 1), found / np.arange(1, len(self.hits) + 1)


def average_precision(ranking: Ranking, points: int | None = 101) -> float:
    """The mean of the precision that is reached at some recall or a higher one.

    At 101 equally spaced recalls (COCO), at 11 (PASCAL VOC to 2009), or at all of them, the area under the curve
    (`points=None`, PASCAL VOC since 2010). Not a number where there is nothing to be found.

    >>> ranking = Ranking(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]), 2)
    >>> [round(average_precision(ranking, points), 6) for points in (None, 11, 101)]
    [0.833333, 0.848485, 0.834983]
    """
    if points is not None and points < 2:
        raise ArgumentError(
            f"average_precision(points={points}): at least two recalls are needed", remedy="11 or 101"
        )
    if not ranking.objects:
        return float("nan")
    recall, precision = ranking.curve()
    reached = np.maximum.accumulate(precision[::-1])[::-1] if len(precision) else precision
    if points is None:
        return float((np.diff(recall, prepend=0.0) * reached).sum())
    at = np.searchsorted(recall, np.linspace(0, 1, points), side="left")
    return float(np.append(reached, 0.0)[at].sum() / points)


def rankings(
    detected: Detected, objects: Objects, classes: int, threshold: float = 0.5, most: int = MOST
) -> list[Ranking]:
    """The detections of each class, ranked."""
    return _ranked(detected, objects, classes, [threshold], most)[0]


def average_precisions(
    detected: Detected,
    objects: Objects,
    classes: int,
    thresholds: Sequence[float] = SWEEP,
    points: int | None = 101,
    most: int = MOST,
) -> Float[np.ndarray, "thresholds classes"]:
    """Average precision of each class at each threshold; not a number for classes of which there is no object.

    >>> objects = np.array([[[0.0, 0, 10, 10, 0]]])
    >>> detected = np.array([[[0.0, 0, 10, 8, 0.9, 0]]])  # an IoU of 0.8
    >>> average_precisions(detected, objects, 1).mean().round(3)
    np.float64(0.7)
    """
    found = _ranked(detected, objects, classes, thresholds, most)
    return np.array([[average_precision(one, points) for one in row] for row in found])


def matched(
    overlap: Float[np.ndarray, "detections objects"], threshold: float
) -> Int[np.ndarray, " detections"]:
    """The object that each detection takes, in the order of the detections; -1 for none.

    >>> matched(np.array([[0.6, 0.7], [0.0, 0.9]]), 0.5).tolist()
    [1, -1]
    """
    free = np.ones(overlap.shape[1], bool)
    found = np.full(len(overlap), -1)
    for row, values in enumerate(overlap):
        open_ = np.where(free, values, -1.0)
        if len(open_) and open_.max() >= min(threshold, 1 - 1e-10):
            found[row] = (
                len(open_) - 1 - int(open_[::-1].argmax())
            )  # of equals the last, as in COCO's own program
            free[found[row]] = False
    return found


def ordered(detected: Detected) -> Int[np.ndarray, "images detections"]:
    """The positions of each image's detections from the highest score to the lowest, fillers last."""
    scores = np.where(detected[..., 5] >= 0, detected[..., 4], -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")


def check_detections(where: str, detected: np.ndarray, objects: np.ndarray) -> None:
    """Raise unless both have the right form for the same images."""
    if detected.ndim != 3 or detected.shape[-1] != 6:
        raise ArgumentError(
            f"{where}: detected has shape {detected.shape}",
            remedy="give (x0, y0, x1, y1, score, class) for each detection of each image; a class below 0 fills up",
        )
    if objects.ndim != 3 or objects.shape[-1] != 5 or len(objects) != len(detected):
        raise ArgumentError(
            f"{where}: objects has shape {objects.shape} for {len(detected)} images",
            remedy="give (x0, y0, x1, y1, class) for each object of each image; a class below 0 fills up",
        )


def _ranked(
    detected: Detected, objects: Objects, classes: int, thresholds: Sequence[float], most: int
) -> list[list[Ranking]]:
    """By threshold and class."""
    check_detections("average_precision", detected, objects)
    detected, objects = np.asarray(detected, np.float64), np.asarray(objects, np.float64)
    detected = np.take_along_axis(detected, ordered(detected)[..., None], axis=1)
    scores: list[list[float]] = [[] for _ in range(classes)]
    hits: list[list[list[bool]]] = [[[] for _ in thresholds] for _ in range(classes)]
    for said, true in zip(detected, objects, strict=True):
        for number in range(classes):
            # Of each class the highest scores count, as in COCO's own program.
            own, ours = said[said[:, 5] == number][:most], true[true[:, 4] == number]
            if not len(own):
                continue
            overlap = pairwise(iou, own[:, :4], ours[:, :4])
            scores[number] += own[:, 4].tolist()
            for row, threshold in zip(hits[number], thresholds, strict=True):
                row += (matched(overlap, threshold) >= 0).tolist()
    counts = [int((objects[..., 4] == number).sum()) for number in range(classes)]
    found: list[list[Ranking]] = []
    for t in range(len(thresholds)):
        found.append([])
        for number in range(classes):
            values = np.array(scores[number])
            order = np.argsort(-values, kind="stable")
            found[-1].append(Ranking(values[order], np.array(hits[number][t], bool)[order], counts[number]))
    return found


__all__ = [
    "MOST",
    "SWEEP",
    "Detected",
    "Objects",
    "Ranking",
    "average_precision",
    "average_precisions",
    "check_detections",
    "matched",
    "ordered",
    "rankings",
]
