"""How well masks agree: pixels counted class by class, and the edges of regions.

Everything is a count that adds up over images; ratios are formed once, at the end. Pixels of the value `ignore` count
for nothing. NumPy: masks are whole numbers and have no gradient.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import ndimage

from chainrule.core.errors import ArgumentError

_TOLERANCE = 0.0075
"""How far an edge may be off, as a share of the diagonal (Perazzi et al., 2016); one pixel at least."""


class MaskAgreement(NamedTuple):
    """Counts of predicted masks beside true ones, which add up."""

    confusion: Int[np.ndarray, "classes classes"]
    """Pixels of each true class (rows) for which each class was predicted (columns)."""
    edges: Int[np.ndarray, "classes 4"]
    """Pixels of predicted edges, those near a true one, pixels of true edges, those near a predicted one."""

    @classmethod
    def none(cls, classes: int) -> "MaskAgreement":
        """Of no masks at all."""
        return cls(np.zeros((classes, classes), np.int64), np.zeros((classes, 4), np.int64))

    def plus(self, other: "MaskAgreement") -> "MaskAgreement":
        """Of both."""
        return MaskAgreement(self.confusion + other.confusion, self.edges + other.edges)

    @property
    def there(self) -> Bool[np.ndarray, " classes"]:
        """Which classes have a true pixel; the others have no scores."""
        return self.confusion.sum(axis=1) > 0

    @property
    def iou(self) -> Float[np.ndarray, " classes"]:
        """Intersection over union of each class; NaN without true pixels."""
        right = np.diagonal(self.confusion)
        union = self.confusion.sum(axis=0) + self.confusion.sum(axis=1) - right
        return self._where(right, union)

    @property
    def dice(self) -> Float[np.ndarray, " classes"]:
        """`2 IoU / (1 + IoU)`: twice the intersection over the sum of both sizes."""
        both = self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        return self._where(2 * np.diagonal(self.confusion), both)

    @property
    def boundary_f(self) -> Float[np.ndarray, " classes"]:
        """The harmonic mean of how many pixels of predicted edges are near a true one, and the other way round.

        NaN for classes without a true edge: those without pixels, and one that fills every image.
        """
        said, good, true, found = self.edges.T.astype(np.float64)
        precision = good / np.maximum(said, 1)
        recall = found / np.maximum(true, 1)
        f = 2 * precision * recall / np.where(precision + recall > 0, precision + recall, 1)
        return np.where(true > 0, f, np.nan)

    @property
    def accuracy(self) -> float:
        """The share of the pixels that are right."""
        return float(np.trace(self.confusion) / max(1, self.confusion.sum()))

    def _where(self, above: np.ndarray, below: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.where(self.there, above / np.maximum(below, 1), np.nan)
        return found


def agreement(
    predicted: Sequence[np.ndarray] | np.ndarray,
    true: Sequence[np.ndarray] | np.ndarray,
    classes: int,
    *,
    ignore: int = 255,
) -> MaskAgreement:
    """Counts of masks of class numbers beside the true ones, image by image; images may differ in size.

    >>> found = agreement(np.array([[[0, 1, 1, 1]]]), np.array([[[0, 0, 1, 255]]]), 3)
    >>> found.iou.round(3).tolist(), found.dice.round(3).tolist(), found.accuracy
    ([0.5, 0.5, nan], [0.667, 0.667, nan], 0.6666666666666666)
    """
    if len(predicted) != len(true):
        raise ArgumentError(f"agreement: {len(predicted)} predicted masks beside {len(true)} true ones")
    total = MaskAgreement.none(classes)
    for said, own in zip(predicted, true, strict=True):
        if said.shape != own.shape:
            sizes = (f"{one.shape[1]}×{one.shape[0]}" for one in (said, own))
            raise ArgumentError("agreement: a mask of {} pixels beside one of {}".format(*sizes))
        if said.dtype.kind not in "iub" or own.dtype.kind not in "iub":
            raise ArgumentError(
                f"agreement: masks of {said.dtype} and {own.dtype}; classes are whole numbers",
                remedy="of probabilities take p.argmax(axis=-1)",
            )
        counted = own != ignore
        wrong = np.setdiff1d(np.concatenate([own[counted], said[counted]]), np.arange(classes))
        if len(wrong):
            shown = ", ".join(map(str, wrong[:8].tolist()))
            raise ArgumentError(
                f"agreement(classes={classes}): masks hold {shown}; classes are numbered from 0 to {classes - 1}",
                remedy=f"give more classes, or ignore={wrong[0]}",
            )
        pairs = own[counted].astype(np.int64) * classes + said[counted]
        confusion = np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
        edges = np.array([_edges(said == k, own == k, counted) for k in range(classes)])
        total = total.plus(MaskAgreement(confusion, edges))
    return total


def boundary(region: Bool[np.ndarray, "height width"]) -> Bool[np.ndarray, "height width"]:
    """Pixels of a region beside one that does not belong to it; the edge of the image is none.

    >>> boundary(np.array([[True, True, False]])).tolist()
    [[False, True, False]]
    """
    inner: np.ndarray = ndimage.binary_erosion(region, border_value=1)
    found: np.ndarray = region & ~inner
    return found


def tolerance(size: tuple[int, ...]) -> int:
    """How many pixels an edge may be off in images of this size.

    >>> tolerance((64, 64)), tolerance((480, 854))
    (1, 7)
    """
    return max(1, round(_TOLERANCE * math.hypot(*size)))


def _edges(said: np.ndarray, own: np.ndarray, counted: np.ndarray) -> list[int]:
    """The counts of one class in one image."""
    if not (said.any() or own.any()):
        return [0, 0, 0, 0]
    first, second = boundary(said) & counted, boundary(own) & counted
    reach = tolerance(own.shape)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = y**2 + x**2 <= reach**2
    near_second, near_first = (ndimage.binary_dilation(one, disc) for one in (second, first))
    return [int(one.sum()) for one in (first, first & near_second, second, second & near_first)]


__all__ = ["MaskAgreement", "agreement", "boundary", "tolerance"]
