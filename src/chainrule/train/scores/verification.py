"""Verification and search of identities that training has not seen, by the cosine of their vectors."""

import numpy as np

from chainrule.data import targets
from chainrule.data.targets.identity import numbers_of
from chainrule.models.protocol import CanEncode
from chainrule.probability.classification.verification import Trials, cosine_trials, error_rates
from chainrule.train.evaluation import over
from chainrule.train.ranking import area_under
from chainrule.train.scoring import Evaluation, Metric, Score, mean

RATES = (0.1, 0.01, 0.001)
"""Shares of impostors at which the share of genuine pairs is told, where there are impostors enough."""
_MOST = 3000
"""Examples whose pairs are compared."""


def verification(trials: Trials) -> dict[str, Metric]:
    """Equal error rate, area under the curve and TAR at FAR of pairs.

    >>> found = verification(Trials(np.array([0.9, 0.8, 0.3]), np.array([0.4, 0.2, 0.1])))
    >>> round(found["eer"].value, 3), round(found["roc_auc"].value, 3)
    (0.333, 0.889)
    """
    genuine, impostors = trials
    if not len(genuine) or not len(impostors):
        return {}
    rates = error_rates(genuine, impostors)
    ours = np.arange(len(genuine) + len(impostors)) < len(genuine)
    basis = f"of {len(genuine):,} pairs of one identity and {len(impostors):,} of two"
    found = {
        "eer": Metric(rates.equal_error_rate(), basis),
        "roc_auc": Metric(area_under(np.concatenate(trials), ours)),
    }
    enough = [rate for rate in RATES if rate * len(impostors) >= 1]
    return found | {f"tar_at_far_{_power(rate)}": Metric(rates.true_accept_at(rate)) for rate in enough}


def _power(rate: float) -> str:
    """A power of ten without a dot, which in names of scores would mean that they are of one class.

    >>> _power(0.01)
    '1e-2'
    """
    return f"1e{round(np.log10(rate))}"


def gallery_search(vectors: np.ndarray, who: np.ndarray) -> dict[str, Metric]:
    """How often the likeliest identities of a gallery, the first example of each, hold that of the other examples."""
    identities, first = np.unique(who, return_index=True)
    rest = np.setdiff1d(np.arange(len(who)), first)
    if not len(rest) or len(identities) < 2:
        return {}
    cosine = vectors[rest] @ vectors[first].T
    own = cosine[np.arange(len(rest)), np.searchsorted(identities, who[rest])]
    rank = (cosine > own[:, None]).sum(axis=1)
    size = f"of a gallery of {len(identities):,}"
    found = {"rank_1": mean(rank < 1, size)}
    return found | ({"rank_5": mean(rank < 5, size)} if len(identities) > 5 else {})


def embedded(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of length one and numbers of identities, of all examples or of the first few thousand."""
    vectors = over(
        "vectors",
        lambda model, batch, key: model.encode(batch.x),
        *(evaluation.model, evaluation.split, evaluation.key),
    )[:_MOST].astype(np.float64)
    who = numbers_of(np.asarray(evaluation.split.y))[:_MOST]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), who


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    vectors, who = embedded(evaluation)
    known = len(evaluation.data.schema.classes)
    return {
        **verification(cosine_trials(vectors, who)),
        **gallery_search(vectors, who),
        "new_identities": Metric(float(len(np.unique(who[who >= known]))), "that training has not seen"),
    }


score = Score(
    "How well identities are told apart that training has not seen.",
    lambda e: isinstance(e.model, CanEncode) and targets.of(e.data.schema).has_identity,
    _measure,
    order=10,
)

__all__ = ["RATES", "embedded", "gallery_search", "score", "verification"]
