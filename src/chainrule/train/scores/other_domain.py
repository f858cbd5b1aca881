"""Accuracy in the other domain, on test examples whose targets neither training nor any choice has seen."""

import numpy as np

from chainrule.data import targets
from chainrule.models.protocol import CanPredict
from chainrule.train.evaluation import over
from chainrule.train.scoring import Evaluation, Metric, Score, mean


def _applies(evaluation: Evaluation) -> bool:
    other = evaluation.data.other
    return (
        isinstance(evaluation.model, CanPredict)
        and other is not None
        and targets.of(evaluation.data.schema).one_class
        and "y" in other.held_out()[0].arrays
    )


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert evaluation.data.other is not None, "ask what applies first"
    split = evaluation.data.other.held_out()[0]
    said = over(
        "the other domain",
        lambda model, batch, key: model.predict(batch.x),
        evaluation.model,
        split,
        evaluation.key,
    )
    return {"target_accuracy": mean(np.asarray(said).argmax(axis=1) == np.asarray(split.y))}


score = Score("Accuracy in the other domain.", _applies, _measure, order=11)

__all__ = ["score"]
