"""Temperature scaling: what the probabilities of classes are worth at a temperature that was fitted beforehand."""

import numpy as np

from chainrule.data import targets
from chainrule.models.protocol import CanPredict
from chainrule.train.scores.classification import calibration
from chainrule.train.scoring import Evaluation, Metric, Score, mean, predictions
from chainrule.train.temperature import at_temperature


def _applies(evaluation: Evaluation) -> bool:
    of_classes = targets.of(evaluation.data.schema).one_class
    return evaluation.temperature is not None and of_classes and isinstance(evaluation.model, CanPredict)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert evaluation.temperature is not None, "ask what applies first"
    y = np.asarray(evaluation.split.y)
    p = at_temperature(predictions(evaluation).astype(np.float64), evaluation.temperature)
    own = np.maximum(np.take_along_axis(p, y[:, None], axis=1)[:, 0], np.finfo(np.float64).tiny)
    return {
        "temperature": Metric(evaluation.temperature),
        "loss_at_temperature": mean(-np.log(own), "nats"),
        "calibration_error_at_temperature": Metric(calibration(p, y)[0]),
    }


score = Score("How far probabilities can be trusted at a fitted temperature.", _applies, _measure, order=20)

__all__ = ["score"]
