"""The mean loss."""

from chainrule.models.protocol import CanPredict
from chainrule.train.evaluation import mean_loss
from chainrule.train.scoring import Evaluation, Metric, Score


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    named = isinstance(evaluation.model, CanPredict) and evaluation.data.schema.target in ("class", "labels")
    value = mean_loss(evaluation.model, evaluation.split, evaluation.key)[0]["loss"]
    return {"loss": Metric(value, "nats" if named else "")}


score = Score("The mean loss.", lambda evaluation: True, _measure, order=0)

__all__ = ["score"]
