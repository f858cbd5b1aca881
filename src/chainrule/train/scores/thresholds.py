"""Labels at thresholds of their own: what is said of examples once a probability per label decides."""

import numpy as np

from chainrule.data import targets
from chainrule.models.protocol import CanPredict
from chainrule.train.scores.multilabel import multilabel
from chainrule.train.scoring import Evaluation, Metric, Score, predictions


def _applies(evaluation: Evaluation) -> bool:
    labels = targets.of(evaluation.data.schema).has_labels
    return evaluation.thresholds is not None and labels and isinstance(evaluation.model, CanPredict)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    thresholds, names = evaluation.thresholds, evaluation.data.schema.classes
    assert thresholds is not None, "ask what applies first"
    found = multilabel(predictions(evaluation), np.asarray(evaluation.split.y), names, thresholds)
    said = {
        f"{kind}_at_thresholds": found[kind]
        for kind in ("exact_match", "label_accuracy", "f1")
        if kind in found
    }
    for name, value in zip(names, thresholds.tolist(), strict=True):
        said[f"threshold.{name}"] = Metric(value)
        if f"f1.{name}" in found:
            said[f"f1_at_threshold.{name}"] = found[f"f1.{name}"]
    return said


score = Score(
    "How often labels are right at thresholds that were chosen on validation examples.",
    _applies,
    _measure,
    order=20,
)

__all__ = ["score"]
