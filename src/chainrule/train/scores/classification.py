"""Classification: accuracy, precision, recall, F1, area under the ROC curve, calibration."""

import math

import numpy as np

from chainrule.data import targets
from chainrule.models.protocol import CanPredict
from chainrule.train.ranking import area_under
from chainrule.train.scoring import Evaluation, Metric, Score, predictions


def classification(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Metric]:
    """Accuracy, precision, recall and F1 as means over classes, area under the ROC curve, calibration error and, for
    more than five classes, top-5 accuracy.

    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> classification(p, np.array([0, 1, 1, 1]))["accuracy"].value
    0.75
    """
    n, classes = probabilities.shape
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    found = {"accuracy": Metric(accuracy, stderr=math.sqrt(accuracy * (1 - accuracy) / n))}
    if classes > 5:
        own = np.take_along_axis(probabilities, labels[:, None], axis=1)
        # Of equal probabilities the lower class comes first, as in argmax: having no opinion is not being right.
        ahead = (probabilities > own) | (
            (probabilities == own) & (np.arange(classes)[None, :] < labels[:, None])
        )
        top = float((ahead.sum(axis=1) < 5).mean())
        found["top_5_accuracy"] = Metric(top, stderr=math.sqrt(top * (1 - top) / n))
    matrix = confusion(probabilities.argmax(axis=1), labels, classes)
    right, true, said = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    present = true + said > 0
    # A class that is never predicted has no precision and one that never occurs no recall: they count as zero.
    found["precision"] = Metric(float((right / np.maximum(said, 1))[present].mean()))
    found["recall"] = Metric(float((right / np.maximum(true, 1))[present].mean()))
    found["f1"] = Metric(float((2 * right[present] / (true + said)[present]).mean()))
    if (true > 0).sum() > 1:
        found["roc_auc"] = Metric(roc_auc(probabilities, labels))
    found["calibration_error"] = Metric(calibration(probabilities, labels)[0])
    return found


def roc_auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve: how often an example of a class gets a higher probability for it than one of another.

    For two classes that of the second class; for more, the mean over the classes that occur, each against the rest.

    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> roc_auc(np.stack([1 - p, p], axis=1), np.array([0, 0, 1, 1]))
    0.75
    """
    classes = [1] if probabilities.shape[1] == 2 else [int(c) for c in np.unique(labels)]
    return float(np.mean([area_under(probabilities[:, c], labels == c) for c in classes]))


def confusion(predicted: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Counts by (true class, predicted class).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    cell = labels.astype(np.int64) * classes + predicted  # small integer types would wrap around
    return np.bincount(cell, minlength=classes**2).reshape(classes, classes)


def calibration(
    probabilities: np.ndarray, labels: np.ndarray, bins: int = 15
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Expected calibration error, and per bin of confidence: mean confidence, accuracy, count (Guo et al., 2017)."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(which, minlength=bins)
    some = np.maximum(count, 1)
    mean = np.bincount(which, confidence, minlength=bins) / some
    accuracy = np.bincount(which, right, minlength=bins) / some
    error = float((count / len(labels) * np.abs(mean - accuracy)).sum())
    return error, mean, accuracy, count


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, CanPredict) and targets.of(evaluation.data.schema).one_class


score = Score(
    "How often the class is right, and how far the probabilities can be trusted.",
    _applies,
    lambda evaluation: classification(predictions(evaluation), np.asarray(evaluation.split.y)),
    order=10,
)

__all__ = ["calibration", "classification", "confusion", "roc_auc", "score"]
