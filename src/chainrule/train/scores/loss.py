"""The mean loss."""

from chainrule.data import targets
from chainrule.models.protocol import CanPredict
from chainrule.train.evaluation import mean_loss
from chainrule.train.scoring import Evaluation, Metric, Score


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    target = targets.of(evaluation.data.schema)
    value = mean_loss(evaluation.model, evaluation.split, evaluation.key)[0]["loss"]
    return {"loss": Metric(value, target.loss_unit if isinstance(evaluation.model, CanPredict) else "")}


score = Score("The mean loss.", lambda evaluation: True, _measure, order=0)

__all__ = ["score"]
