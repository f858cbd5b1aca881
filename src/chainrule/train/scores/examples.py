"""The number of examples that scores were estimated on."""

from chainrule.train.scoring import Evaluation, Metric, Score


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    judged = len(evaluation.split)
    return {"examples": Metric(judged, f"of {evaluation.of:,}")} if judged < evaluation.of else {}


score = Score("How many examples were judged.", lambda evaluation: True, _measure, order=90)

__all__ = ["score"]
