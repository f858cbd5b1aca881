"""Multi-label classification: exact match, and F1, area under the ROC curve and average precision by label."""

import math
from collections.abc import Sequence

import numpy as np

from chainrule.core.checks import check_same_shape
from chainrule.train.ranking import area_under, average_precision
from chainrule.train.scoring import Metric, of_predictions


def multilabel(
    probabilities: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    threshold: float | np.ndarray = 0.5,
) -> dict[str, Metric]:
    """How often all labels of an example are right, and each; F1, area under the ROC curve and average precision as
    means over the labels; each label's F1, area, average precision, precision, recall and number of examples under its
    name. The mean of the average precisions is what is called mAP. `threshold` is one for all labels or one for each.

    A label that never or always occurs in these examples has no area and no average precision, and one that neither
    occurs nor is predicted has no F1: they are left out.

    >>> p = np.array([[0.9, 0.2], [0.6, 0.4], [0.1, 0.7]])
    >>> found = multilabel(p, np.array([[1, 0], [0, 1], [0, 1]]), ["cat", "dog"])
    >>> round(found["exact_match"].value, 3), round(found["f1.cat"].value, 3), found["roc_auc.dog"].value
    (0.667, 0.667, 1.0)
    """
    check_same_shape("multilabel", "probabilities", probabilities, "labels", labels)
    truth, said = labels > 0, probabilities >= threshold
    whole, single = (said == truth).all(axis=1), (said == truth).mean(axis=1)
    root_n = math.sqrt(len(truth))
    found = {
        "exact_match": Metric(float(whole.mean()), stderr=float(whole.std() / root_n)),
        "label_accuracy": Metric(float(single.mean()), stderr=float(single.std() / root_n)),
    }
    each: dict[str, dict[str, float]] = {"f1": {}, "roc_auc": {}, "average_precision": {}}
    own: dict[str, Metric] = {}
    for name, p, ours, chosen in zip(names, probabilities.T, truth.T, said.T, strict=True):
        if ours.any() or chosen.any():
            both = float((ours & chosen).sum())
            each["f1"][name] = 2 * both / float(ours.sum() + chosen.sum())
            own[f"precision.{name}"] = Metric(both / max(int(chosen.sum()), 1))
            own[f"recall.{name}"] = Metric(both / max(int(ours.sum()), 1))
            own[f"support.{name}"] = Metric(float(ours.sum()))
        if ours.any() and not ours.all():
            each["roc_auc"][name] = area_under(p, ours)
            each["average_precision"][name] = average_precision(p, ours)
    found |= {
        kind: Metric(float(np.mean([*values.values()])), "mean over labels")
        for kind, values in each.items()
        if values
    }
    for kind in each:
        found |= {f"{kind}.{name}": Metric(value) for name, value in each[kind].items()}
    return found | own


score = of_predictions(
    "How often labels are right, all of an example and each.",
    lambda target: target.has_labels,
    lambda judged: multilabel(judged.predicted, judged.y, judged.schema.classes),
)

__all__ = ["multilabel", "score"]
