"""Spoof detection by one number: area under the curve, equal error rate, and both errors at a threshold of validation.

The names of the errors are those of ISO/IEC 30107-3: APCER is the share of the spoofs of one kind that pass for live,
of which the worst kind counts, BPCER the share of live examples that are refused, ACER the mean of both.
"""

import numpy as np

from chainrule.core import random
from chainrule.data.splits import Split
from chainrule.models.protocol import HasSpoofScore
from chainrule.probability.classification.verification import error_rates
from chainrule.train.evaluation import over
from chainrule.train.ranking import area_under
from chainrule.train.scoring import Evaluation, Metric, Score


def spoof_scores(model: HasSpoofScore, split: Split) -> np.ndarray:
    """The number that decides, for every example."""
    found = over(
        "spoof scores",
        lambda model, batch, key: model.spoof_score(batch.x),
        *(model, split, random.key(0, "score")),
    )
    return np.asarray(found, np.float64)


def presentation_errors(
    score: np.ndarray, y: np.ndarray, live: int, threshold: float
) -> tuple[dict[int, float], float]:
    """APCER of each kind of spoof and BPCER, when everything from the threshold on is refused.

    >>> presentation_errors(np.array([0.1, 0.3, 0.2, 0.5]), np.array([0, 0, 1, 1]), 0, 0.25)
    ({1: 0.5}, 0.5)
    """
    refused = score >= threshold
    kinds = [int(k) for k in np.unique(y) if k != live]
    passed = {k: float((~refused[y == k]).mean()) for k in kinds}
    return passed, float(refused[y == live].mean())


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, data = evaluation.model, evaluation.data
    assert isinstance(model, HasSpoofScore), "ask what applies first"
    y, live, names = np.asarray(evaluation.split.y), model.live_class, data.schema.classes
    score = spoof_scores(model, evaluation.split)
    genuine = y == live
    if not genuine.any() or genuine.all():
        return {}
    found = {
        "spoof_eer": Metric(
            error_rates(score[~genuine], score[genuine]).equal_error_rate(), "by the spoof score"
        ),
        "spoof_roc_auc": Metric(area_under(score, ~genuine), "by the spoof score"),
    }
    known = np.asarray(data.val.y) if len(data.val) else np.zeros(0)
    if not (known == live).any() or not (known != live).any():
        return found  # other data have no validation examples to choose a threshold on
    held = spoof_scores(model, data.val)
    threshold = error_rates(held[known != live], held[known == live]).equal_threshold()
    passed, refused = presentation_errors(score, y, live, threshold)
    worst = max(passed.values())
    return {
        **found,
        "spoof_threshold": Metric(threshold, "of equal errors on validation examples"),
        "apcer": Metric(worst, "spoofs that pass, of the worst kind"),
        "bpcer": Metric(refused, "live examples that are refused"),
        "acer": Metric((worst + refused) / 2),
        **{f"apcer.{names[k]}": Metric(value) for k, value in passed.items()},
    }


score = Score(
    "How well spoofs are told from live examples by one number.",
    lambda evaluation: isinstance(evaluation.model, HasSpoofScore),
    _measure,
    order=15,
)

__all__ = ["presentation_errors", "score", "spoof_scores"]
