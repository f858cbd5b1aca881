"""Detections of held-out images: how well they fit, class by class, and what is wrong with the others."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.kinds.image import unit_images
from chainrule.data.schema import Schema
from chainrule.data.splits import Subset
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.networks.pictures import detections
from chainrule.nn.detection import average_precisions, detection_errors, iou, pairwise
from chainrule.nn.detection.average_precision import SWEEP
from chainrule.train import Run
from chainrule.train.scoring import Evaluation, predictions


@final
class DetectionSettings(Settings):
    """Which detections are looked at."""

    least: float = Field(0.3, ge=0, lt=1, description="scores from which on a detection counts as said")
    examples: int = Field(500, ge=1, description="held-out images")
    shown: int = Field(12, ge=1, le=100, description="images that are drawn")


def examine(run: Run, data: Data, settings: DetectionSettings) -> Outcome:
    """Average precision by class and threshold, errors by their reason, confusions, and the boxes themselves."""
    held_out, said = data.held_out()
    part = held_out if len(held_out) <= settings.examples else Subset.drawn(held_out, settings.examples)
    y = np.asarray(part.y)
    found = predictions(Evaluation(run.model, data, part, len(part), random.key(0, "score"))).astype(
        np.float64
    )
    classes = run.schema.classes
    counts = detection_errors(found, y, least=settings.least).counts()
    precision = average_precisions(found, y, len(classes))
    objects = np.array([(y[..., 4] == k).sum() for k in range(len(classes))])
    there = np.flatnonzero(objects)
    images = unit_images(run.schema, data.inverse(part.batch(np.arange(min(len(part), settings.shown))).x))
    total, wrong = int(objects.sum()), {name: n for name, n in counts.items() if name != "found"}
    most = max(wrong, key=lambda name: wrong[name])
    rows: list[list[str | float | int]] = [
        [
            classes[k],
            int(objects[k]),
            *(float(precision[SWEEP.index(t), k]) for t in (0.5, 0.75)),
            float(precision[:, k].mean()),
        ]
        for k in there.tolist()
    ]
    share = counts["found"] / max(total, 1)
    return Outcome(
        [
            f"Of {total:,} objects in {len(part):,} held-out images {counts['found']:,} ({share:.0%}) were found by "
            f"detections with a score of at least {settings.least:g}.",
            f"The most frequent fault is {_WORDS[most]}: {wrong[most]:,} of {sum(wrong.values()):,}."
            if sum(wrong.values())
            else "No detection is wrong, and none is missing.",
            *said,
        ],
        [
            detections.beside_truth(
                images, found[: len(images)], y[: len(images)], classes, least=settings.least
            ),
            detections.precision_recall(found, y, classes),
            detections.error_bars(found, y, settings.least),
        ],
        Table(
            "detections-table",
            "Average precision by class",
            ["class", "objects", "at an IoU of 0.5", "of 0.75", "mean of 0.50 to 0.95"],
            rows,
        ),
        {
            "objects": total,
            "errors": counts,
            "map50": float(precision[0, there].mean()) if len(there) else 0.0,
            "map": float(precision[:, there].mean()) if len(there) else 0.0,
            "confusion": _confusion(found, y, len(classes), settings.least),
        },
    )


_WORDS = {
    "class": "a wrong class",
    "position": "a box beside its object",
    "duplicate": "an object found twice",
    "background": "a box of nothing",
    "missed": "an object that was missed",
}


def _confusion(found: np.ndarray, y: np.ndarray, classes: int, least: float) -> list[list[int]]:
    """How often an object of each class (rows) was best covered by a detection of each (columns)."""
    counts = np.zeros((classes, classes), int)
    for said, true in zip(found, y, strict=True):
        own = said[(said[:, 5] >= 0) & (said[:, 4] >= least)]
        for row in true[true[:, 4] >= 0]:
            overlap = pairwise(iou, own[:, :4], row[None, :4].astype(np.float64))[:, 0]
            if len(overlap) and overlap.max() >= 0.5:
                counts[int(row[4]), int(own[overlap.argmax(), 5])] += 1
    found_: list[list[int]] = counts.tolist()
    return found_


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).has_boxes


probe = Probe(
    "Detections beside what is there, precision over recall by class, and errors by their reason.",
    "a model that finds boxes",
    _applies,
    examine,
    DetectionSettings,
    toy={"examples": 8, "shown": 2},
)

__all__ = ["DetectionSettings", "examine", "probe"]
