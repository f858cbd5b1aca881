"""Scores that a model computes itself."""

from collections.abc import Mapping

import numpy as np

from chainrule.core import random
from chainrule.core.compiling import compiled
from chainrule.core.types import Key
from chainrule.data.batches import Batch
from chainrule.data.splits import Split
from chainrule.models.protocol import CanSample, HasLogProb, HasScores, Scored
from chainrule.train.evaluation import batches
from chainrule.train.scoring import Evaluation, Metric, Score, mean


def own(model: HasScores, split: Split, key: Key) -> dict[str, Metric]:
    """The numbers a model is judged by beyond those its capabilities give: means and their standard errors."""
    units: dict[str, str] = {}
    values: dict[str, list[np.ndarray]] = {}
    for number, (batch, _) in enumerate(batches(split)):
        for name, scored in _scores_of(model, batch, random.at(key, number)).items():
            units[name] = scored.unit
            values.setdefault(name, []).append(np.asarray(scored.values))
    return {name: mean(np.concatenate(parts), units[name]) for name, parts in values.items()}


@compiled
def _scores_of(model: HasScores, batch: Batch, key: Key) -> Mapping[str, Scored]:
    return model.scores(batch, key)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert isinstance(evaluation.model, HasScores), "ask what applies first"
    return own(evaluation.model, evaluation.split, evaluation.key)


def _costly(evaluation: Evaluation) -> bool:
    # Drawing an example to compare another with takes many evaluations of the model.
    return isinstance(evaluation.model, CanSample) and not isinstance(evaluation.model, HasLogProb)


score = Score(
    "Numbers that the model itself says it is judged by.",
    lambda evaluation: isinstance(evaluation.model, HasScores),
    _measure,
    order=40,
    costly=_costly,
)

__all__ = ["own", "score"]
