"""Detection: average precision of boxes, over all classes and class by class.

`map50` counts boxes with an IoU of at least 0.5 as found, `map` is the mean over the thresholds of COCO, 0.50 to 0.95.
"""

from collections.abc import Sequence

import numpy as np

from chainrule.nn.detection.average_precision import SWEEP, average_precisions
from chainrule.train.scoring import Judged, Metric, of_predictions


def detection(detected: np.ndarray, objects: np.ndarray, classes: Sequence[str]) -> dict[str, Metric]:
    """Mean average precision at 0.5, at 0.75 and over the sweep; at 0.5 of each class, with the number of its objects.

    Classes of which there is no object have no precision and are left out.

    >>> objects = np.array([[[0.0, 0, 10, 10, 0]]])
    >>> found = detection(np.array([[[0.0, 0, 10, 8, 0.9, 0]]]), objects, ["cat", "dog"])
    >>> [round(found[name].value, 3) for name in ("map50", "map75", "map", "ap50.cat")]
    [1.0, 1.0, 0.7, 1.0]
    """
    precision = average_precisions(detected, objects, len(classes))
    counts = np.array([(objects[..., 4] == number).sum() for number in range(len(classes))])
    there = np.flatnonzero(counts)
    if not len(there):
        return {}
    found = {
        "map50": Metric(float(precision[SWEEP.index(0.5), there].mean())),
        "map75": Metric(float(precision[SWEEP.index(0.75), there].mean())),
        "map": Metric(float(precision[:, there].mean())),
    }
    found |= {f"ap50.{classes[number]}": Metric(float(precision[0, number])) for number in there.tolist()}
    return found | {f"support.{classes[number]}": Metric(float(counts[number])) for number in there.tolist()}


def _judge(judged: Judged) -> dict[str, Metric]:
    return detection(np.asarray(judged.predicted, np.float64), np.asarray(judged.y), judged.schema.classes)


score = of_predictions(
    "How well objects are found: average precision of boxes.",
    lambda target: target.has_boxes,
    _judge,
)

__all__ = ["detection", "score"]
