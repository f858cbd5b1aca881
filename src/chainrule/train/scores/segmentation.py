"""Segmentation: how far predicted masks are the true ones, over all classes and class by class.

`miou` is the mean intersection over union, `dice` that of twice the intersection over the sum of both sizes,
`pixel_accuracy` the share of the pixels that are right, `boundary_f` the F-measure of pixels on edges, which may be off
by 0.75 % of the diagonal and one pixel at least. Pixels are counted over all images first.
"""

from collections.abc import Sequence

import numpy as np

from chainrule.core.types import Array
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.targets.mask import IGNORE
from chainrule.models.protocol import CanPredict
from chainrule.nn.segmentation import MaskAgreement, agreement
from chainrule.train.evaluation import over
from chainrule.train.scoring import Evaluation, Judged, Metric, Score


def segmentation(found: MaskAgreement, classes: Sequence[str]) -> dict[str, Metric]:
    """Means over the classes that there are, and the numbers of each; classes without a true pixel are named.

    >>> found = agreement(np.array([[[0, 0, 1]]]), np.array([[[0, 1, 1]]]), 3)
    >>> {name: str(one) for name, one in segmentation(found, ["ground", "cat", "dog"]).items() if "." not in name}
    {'miou': '0.5 (without dog, of which there is no pixel)', 'dice': '0.6667', 'pixel_accuracy': '0.6667', \
'boundary_f': '1'}
    """
    there = np.flatnonzero(found.there).tolist()
    if not there:
        return {}
    absent = [name for number, name in enumerate(classes) if number not in there]
    said = f"without {', '.join(absent)}, of which there is no pixel" if absent else ""
    each = {"iou": found.iou, "dice": found.dice, "boundary_f": found.boundary_f}
    metrics = {
        "miou": Metric(float(found.iou[there].mean()), kind=said),
        "dice": Metric(float(found.dice[there].mean())),
        "pixel_accuracy": Metric(found.accuracy),
    }
    edged = found.boundary_f[np.isfinite(found.boundary_f)]
    if len(edged):
        metrics["boundary_f"] = Metric(float(edged.mean()))
    for measure, values in each.items():
        metrics |= {
            f"{measure}.{classes[k]}": Metric(float(values[k])) for k in there if np.isfinite(values[k])
        }
    pixels = found.confusion.sum(axis=1)
    return metrics | {f"support.{classes[k]}": Metric(float(pixels[k]), "pixels") for k in there}


def predicted_masks(evaluation: Evaluation) -> np.ndarray:
    """The likeliest class of each pixel of every example: of large images there is no room for all probabilities."""
    assert isinstance(evaluation.model, CanPredict), "ask what applies first"
    return np.asarray(
        over("predictions", _likeliest, evaluation.model, evaluation.split, evaluation.key), np.uint8
    )


def _likeliest(model: CanPredict, batch: Batch, key: Array) -> Array:
    del key
    return model.predict(batch.x).argmax(axis=-1).astype("uint8")


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    classes = evaluation.data.schema.classes
    y = np.asarray(evaluation.split.y)
    return segmentation(agreement(predicted_masks(evaluation), y, len(classes), ignore=IGNORE), classes)


def _judge(judged: Judged) -> dict[str, Metric]:
    masks = judged.predicted.argmax(axis=-1)
    found = agreement(masks, np.asarray(judged.y), len(judged.schema.classes), ignore=IGNORE)
    return segmentation(found, judged.schema.classes)


score = Score(
    "How far predicted masks are the true ones: overlap of classes, pixels, edges.",
    lambda evaluation: (
        isinstance(evaluation.model, CanPredict) and targets.of(evaluation.data.schema).has_mask
    ),
    _measure,
    order=10,
    suits=lambda target: target.has_mask,
    judge=_judge,
)

__all__ = ["predicted_masks", "score", "segmentation"]
