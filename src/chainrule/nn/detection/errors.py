"""What is wrong with detections, one reason for each (after TIDE: Bolya et al., 2020, arXiv:2008.08115).

A detection that found no object has the class of another one, is beside one, found what another had found already, or
is of nothing; an object that none found was missed.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError
from chainrule.nn.detection.average_precision import Detected, Objects, check_detections, matched, ordered
from chainrule.nn.detection.boxes import iou, pairwise

REASONS = ("found", "class", "position", "duplicate", "background")
"""What a detection is, by number; -1 fills up."""
_BESIDE = 0.1
"""The IoU from which on a detection is beside an object, and not of nothing."""


class DetectionErrors(NamedTuple):
    """What each detection is, and which objects were missed."""

    reasons: Int[np.ndarray, "images detections"]
    """Numbers of `REASONS`; -1 for fillers and scores that are too low."""
    missed: np.ndarray
    """Whether each object was found by none, (images, objects)."""

    def counts(self) -> dict[str, int]:
        """How often each occurs.

        >>> DetectionErrors(np.array([[0, 3, -1]]), np.array([[False, True]])).counts()
        {'found': 1, 'class': 0, 'position': 0, 'duplicate': 1, 'background': 0, 'missed': 1}
        """
        found = {name: int((self.reasons == number).sum()) for number, name in enumerate(REASONS)}
        return {**found, "missed": int(self.missed.sum())}


def detection_errors(
    detected: Detected, objects: Objects, *, threshold: float = 0.5, least: float = 0.3
) -> DetectionErrors:
    """What detections with a score of at least `least` are, where an IoU of `threshold` is needed to find an object.

    >>> objects = np.array([[[0.0, 0, 10, 10, 0]]])
    >>> detected = np.array([[[0.0, 0, 10, 9, 0.9, 0], [0, 0, 10, 10, 0.8, 0], [0, 0, 10, 10, 0.7, 1]]])
    >>> [REASONS[n] for n in detection_errors(detected, objects).reasons[0]]
    ['found', 'duplicate', 'class']
    """
    check_detections("detection_errors", detected, objects)
    if not 0 < threshold <= 1:
        raise ArgumentError(f"detection_errors(threshold={threshold}): an IoU lies in (0, 1]")
    detected, objects = np.asarray(detected, np.float64), np.asarray(objects, np.float64)
    reasons = np.full(detected.shape[:2], -1)
    missed = objects[..., 4] >= 0
    for image, order in enumerate(ordered(detected)):
        own = objects[image]
        for row in order:
            said = detected[image, row]
            if said[5] < 0 or said[4] < least:
                continue
            overlap = pairwise(iou, said[None, :4], own[:, :4])[0] * (own[:, 4] >= 0)
            right = own[:, 4] == said[5]
            (taken,) = matched((overlap * (right & missed[image]))[None], threshold)
            if taken >= 0:
                reasons[image, row] = 0
                missed[image, taken] = False
            else:
                reasons[image, row] = _reason(overlap, right, threshold)
    return DetectionErrors(reasons, missed)


def _reason(overlap: np.ndarray, right: np.ndarray, threshold: float) -> int:
    if (overlap[right] >= threshold).any():
        return REASONS.index("duplicate")
    if (overlap >= threshold).any():
        return REASONS.index("class")
    return REASONS.index("position" if (overlap >= _BESIDE).any() else "background")


__all__ = ["REASONS", "DetectionErrors", "detection_errors"]
