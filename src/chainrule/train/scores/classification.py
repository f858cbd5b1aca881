"""Classification: accuracy, precision, recall, F1, area under the ROC curve, calibration; class by class as well.

Of two classes one is looked for, the positive one (the sick, the spam): precision, recall, F1, specificity and average
precision are given for it too.
"""

import math
from collections.abc import Sequence

import numpy as np

from chainrule.core.checks import check_class_numbers, check_same_shape
from chainrule.core.errors import ArgumentError, suggest
from chainrule.train.ranking import area_under, average_precision
from chainrule.train.scoring import Judged, Metric, of_predictions


def classification(
    probabilities: np.ndarray, labels: np.ndarray, top: Sequence[int] = ()
) -> dict[str, Metric]:
    """Accuracy, precision, recall and F1 as means over classes, area under the ROC curve, calibration error, top-k
    accuracy for each k of `top` and, for more than five classes, top-5 accuracy.

    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> classification(p, np.array([0, 1, 1, 1]))["accuracy"].value
    0.75
    """
    n, classes = _check("classification", probabilities, labels)
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    found = {"accuracy": Metric(accuracy, stderr=math.sqrt(accuracy * (1 - accuracy) / n))}
    for k in sorted({*top, *([5] if classes > 5 else [])}):
        share = top_accuracy(probabilities, labels, k)
        found[f"top_{k}_accuracy"] = Metric(share, stderr=math.sqrt(share * (1 - share) / n))
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


def top_accuracy(probabilities: np.ndarray, labels: np.ndarray, k: int) -> float:
    """How often the true class is among the `k` likeliest.

    Of equal probabilities the lower class comes first, as in argmax: having no opinion is not being right.

    >>> top_accuracy(np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), np.array([1, 2]), 2)
    0.5
    """
    _, classes = _check("top_accuracy", probabilities, labels)
    if not 1 <= k <= classes:
        raise ArgumentError(
            f"top-{k} accuracy: there are {classes} classes", remedy=f"use a number from 1 to {classes}"
        )
    own = np.take_along_axis(probabilities, labels[:, None], axis=1)
    ahead = (probabilities > own) | ((probabilities == own) & (np.arange(classes)[None, :] < labels[:, None]))
    return float((ahead.sum(axis=1) < k).mean())


def by_class(probabilities: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> dict[str, Metric]:
    """Precision, recall, F1 and number of examples of each class, under its name.

    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> found = by_class(p, np.array([0, 1, 1, 1]), ["cat", "dog"])
    >>> found["precision.cat"].value, found["recall.dog"].value, found["support.dog"].value
    (0.5, 0.6666666666666666, 3.0)
    """
    matrix = confusion(probabilities.argmax(axis=1), labels, len(names))
    right, true, said = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    columns = {
        "precision": right / np.maximum(said, 1),
        "recall": right / np.maximum(true, 1),
        "f1": 2 * right / np.maximum(true + said, 1),
        "support": true,
    }
    return {
        f"{measure}.{name}": Metric(float(value))
        for measure, values in columns.items()
        for name, value in zip(names, values, strict=True)
    }


def of_positive(
    probabilities: np.ndarray, labels: np.ndarray, names: Sequence[str], positive: str | None
) -> dict[str, Metric]:
    """What is said of the positive one of two classes; the second unless it is named.

    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> found = of_positive(p, np.array([0, 1, 1, 1]), ["no", "yes"], None)
    >>> str(found["positive_recall"]), found["specificity"].value
    ('0.6667 of yes', 1.0)
    """
    if positive is not None and positive not in names:
        raise ArgumentError(
            f"positive={positive!r}: there is no such class{suggest(positive, names)}",
            remedy=f"classes: {', '.join(names[:20])}",
        )
    if len(names) != 2:
        if positive is not None:
            raise ArgumentError(
                f"positive={positive!r}: only one of two classes is the positive one; these are {len(names)}",
                remedy=f"leave positive out: precision.{positive}, recall.{positive} and f1.{positive} are given",
            )
        return {}
    chosen = 1 if positive is None else list(names).index(positive)
    ours, said = labels == chosen, probabilities.argmax(axis=1) == chosen
    both = float((ours & said).sum())
    found = {
        "positive_precision": both / max(said.sum(), 1),
        "positive_recall": both / max(ours.sum(), 1),
        "positive_f1": 2 * both / max(ours.sum() + said.sum(), 1),
        "specificity": float((~ours & ~said).sum()) / max((~ours).sum(), 1),
    }
    if ours.any() and not ours.all():
        found["positive_average_precision"] = average_precision(probabilities[:, chosen], ours)
    return {name: Metric(float(value), f"of {names[chosen]}") for name, value in found.items()}


def roc_auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve: how often an example of a class gets a higher probability for it than one of another.

    For two classes that of the second class; for more, the mean over the classes that occur, each against the rest.

    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> roc_auc(np.stack([1 - p, p], axis=1), np.array([0, 0, 1, 1]))
    0.75
    """
    _check("roc_auc", probabilities, labels)
    classes = [1] if probabilities.shape[1] == 2 else [int(c) for c in np.unique(labels)]
    return float(np.mean([area_under(probabilities[:, c], labels == c) for c in classes]))


def confusion(predicted: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Counts by (true class, predicted class).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    check_same_shape("confusion", "predicted", predicted, "labels", labels)
    check_class_numbers("confusion", "predicted", predicted, classes)
    check_class_numbers("confusion", "labels", labels, classes)
    cell = labels.astype(np.int64) * classes + predicted  # small integer types would wrap around
    return np.bincount(cell, minlength=classes**2).reshape(classes, classes)


def calibration(
    probabilities: np.ndarray, labels: np.ndarray, bins: int = 15
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Expected calibration error, and per bin of confidence: mean confidence, accuracy, count (Guo et al., 2017)."""
    _check("calibration", probabilities, labels)
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(which, minlength=bins)
    some = np.maximum(count, 1)
    mean = np.bincount(which, confidence, minlength=bins) / some
    accuracy = np.bincount(which, right, minlength=bins) / some
    error = float((count / len(labels) * np.abs(mean - accuracy)).sum())
    return error, mean, accuracy, count


def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % score interval of a proportion (Wilson, 1927).

    >>> [end.round(3).tolist() for end in wilson(np.array([0.5]), np.array([10]))]
    [[0.237], [0.763]]
    """
    z = 1.959964
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


def _check(where: str, probabilities: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise ArgumentError(
            f"{where}: probabilities of shape {probabilities.shape} and labels of shape {labels.shape}",
            remedy="give a row of probabilities, one for each class, and one class number for each example",
        )
    check_class_numbers(where, "labels", labels, probabilities.shape[1])
    return probabilities.shape


def _judge(judged: Judged) -> dict[str, Metric]:
    both = judged.predicted, judged.y
    return {
        **classification(*both, judged.top),
        **of_positive(*both, judged.schema.classes, judged.positive),
        **by_class(*both, judged.schema.classes),
    }


score = of_predictions(
    "How often the class is right, and how far the probabilities can be trusted.",
    lambda target: target.one_class,
    _judge,
)

__all__ = [
    "by_class",
    "calibration",
    "classification",
    "confusion",
    "of_positive",
    "roc_auc",
    "score",
    "top_accuracy",
    "wilson",
]
