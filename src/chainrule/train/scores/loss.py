"""The mean loss."""

from chainrule.data import targets
from chainrule.models.protocol import CanPredict, HasOutputs
from chainrule.train.evaluation import mean_loss
from chainrule.train.scoring import Evaluation, Metric, Score


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, target = evaluation.model, targets.of(evaluation.data.schema)
    unit = target.loss_unit if isinstance(model, CanPredict) else ""
    value = mean_loss(model, evaluation.split, evaluation.key)[0]["loss"]
    return {"loss": Metric(value, model.loss_unit() if isinstance(model, HasOutputs) else unit)}


score = Score("The mean loss.", lambda evaluation: True, _measure, order=0)

__all__ = ["score"]
