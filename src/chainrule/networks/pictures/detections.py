"""Pictures of detections: boxes beside what is there, precision over recall, errors by their reason, proposals."""

from collections.abc import Sequence

import numpy as np

from chainrule.core.pictures import Bars, Images, Lines, Mark
from chainrule.data.targets.boxes import marks_of
from chainrule.nn.detection import average_precision, iou, pairwise, rankings
from chainrule.nn.detection.errors import detection_errors

SHOWN = 12
_MOST_CLASSES = 7
"""Curves of one picture; of more classes those with the most objects are drawn."""
_WORDS = {
    "class": "wrong class",
    "position": "wrong position",
    "duplicate": "found twice",
    "background": "of nothing",
    "missed": "missed",
}


def detected_marks(rows: np.ndarray, classes: Sequence[str], least: float) -> list[Mark]:
    """Detections (x0, y0, x1, y1, score, class) of one image as marks with their scores."""
    return [
        Mark(tuple(map(float, row[:4])), f"{classes[int(row[5])]} {row[4]:.2f}", int(row[5]))  # type: ignore[arg-type]
        for row in rows
        if row[5] >= 0 and row[4] >= least
    ]


def beside_truth(
    images: np.ndarray,
    detected: np.ndarray,
    objects: np.ndarray,
    classes: Sequence[str],
    *,
    least: float = 0.3,
    name: str = "detections",
    title: str = "Detections beside what is there",
    labels: Sequence[str] = (),
    caption: str = "",
) -> Images:
    """Images in [0, 1] with detections (whole lines) over the objects (dashed lines)."""
    marks = [
        [*marks_of(true, classes, dashed=True, named=False), *detected_marks(said, classes, least)]
        for true, said in zip(objects, detected, strict=True)
    ]
    said = f"Dashed: what is there. Whole lines: detections with a score of at least {least:g}."
    return Images(name, title, images, labels, 4, f"{said} {caption}".strip(), marks=marks)


def precision_recall(detected: np.ndarray, objects: np.ndarray, classes: Sequence[str]) -> Lines:
    """Precision over recall of each class at an IoU of 0.5."""
    found = rankings(detected, objects, len(classes))
    there = sorted((k for k in range(len(classes)) if found[k].objects), key=lambda k: -found[k].objects)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for number in there[:_MOST_CLASSES]:
        recall, precision = found[number].curve()
        ends = np.concatenate([[0.0], recall, recall[-1:]]), np.concatenate([precision[:1], precision, [0.0]])
        empty = np.zeros(1), np.zeros(1)
        series[f"{classes[number]} {average_precision(found[number]):.2f}"] = ends if len(recall) else empty
    left = len(there) - len(series)
    more = f" {left} classes with fewer objects are not drawn." if left > 0 else ""
    return Lines(
        *("precision-recall", "Precision over recall", "recall", "precision", series),
        caption="Detections from the highest score to the lowest, found where the IoU is at least 0.5; beside each "
        f"class its average precision.{more}",
    )


def error_bars(detected: np.ndarray, objects: np.ndarray, least: float = 0.3) -> Bars:
    """How many detections are wrong for which reason, and how many objects were missed."""
    counts = detection_errors(detected, objects, least=least).counts()
    total = int((objects[..., 4] >= 0).sum())
    return Bars(
        *("detection-errors", "What is wrong with detections", "", "number"),
        [_WORDS[name] for name in _WORDS],
        {"errors": np.array([counts[name] for name in _WORDS])},
        caption=f"Of {total:,} objects {counts['found']:,} were found by detections with a score of at least {least:g} "
        "and an IoU of at least 0.5. Wrong position: an IoU of 0.1 to 0.5 with an object.",
    )


def worst(
    images: np.ndarray, detected: np.ndarray, objects: np.ndarray, losses: np.ndarray, classes: Sequence[str]
) -> Images:
    """The images with the highest loss."""
    order = np.argsort(-losses, kind="stable")[: SHOWN - SHOWN // 3]
    return beside_truth(
        *(images[order], detected[order], objects[order], classes),
        name="worst-losses",
        title="Images with the highest loss",
        labels=[f"loss {losses[one]:.2f}" for one in order],
    )


def proposal_recall(
    proposals: np.ndarray, objects: np.ndarray, thresholds: Sequence[float] = (0.5, 0.7)
) -> Lines:
    """Which share of the objects the first proposals of each image cover, against how many these are."""
    many = np.unique(np.geomspace(1, max(1, proposals.shape[1]), 24).astype(int))
    best = []
    for own, true in zip(proposals, objects, strict=True):
        true = true[true[:, 4] >= 0]
        if len(true):
            best.append(np.maximum.accumulate(pairwise(iou, own[:, :4], true[:, :4]), axis=0)[many - 1])
    overlap = np.concatenate(best, axis=1) if best else np.zeros((len(many), 1))
    series = {f"IoU {t:g}": (many.astype(float), (overlap >= t).mean(axis=1)) for t in thresholds}
    return Lines(
        *("proposal-recall", "Objects that proposals cover", "proposals of an image", "share of the objects"),
        series,
        log_x=True,
        caption=f"{overlap.shape[1]:,} objects; the best proposals come first.",
    )


__all__ = [
    "SHOWN",
    "beside_truth",
    "detected_marks",
    "error_bars",
    "precision_recall",
    "proposal_recall",
    "worst",
]
