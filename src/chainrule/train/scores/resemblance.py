"""Resemblance of samples to held-out points: the Sinkhorn divergence between the two sets.

A distance between finite sets of one distribution is not zero, so it stands beside the same distance for real points:
as many training examples against the same held-out ones. Only the ratio of the two says something.
"""

import math

import numpy as np

from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.protocol import CanSample
from chainrule.probability.transport import sinkhorn_divergence
from chainrule.train.scoring import Evaluation, Metric, Score

_MOST = 1000
_SETS = 4
"""Sets of training examples at most."""


def resemblance(model: CanSample, data: Data, part: Split, key: Key) -> tuple[float, float, float]:
    """Sinkhorn divergence of samples from held-out points, of training points from them, and the error of the latter.

    All are in squares of the units of the model, with one epsilon.
    """
    n = min(len(part), len(data.train), _MOST)
    held_out = _rows(part, 0, n)
    others = [_rows(data.train, first, n) for first in range(0, len(data.train) - n + 1, n)][:_SETS]
    first = sinkhorn_divergence(others[0], held_out)
    floor = [first.value, *(sinkhorn_divergence(x, held_out, first.epsilon).value for x in others[1:])]
    options = {"condition": part.batch(np.arange(n)).y} if model.needs_condition else {}
    drawn = np.asarray(model.sample(key, n, **options)).reshape(n, -1)
    found = sinkhorn_divergence(drawn, held_out, first.epsilon).value
    return found, float(np.mean(floor)), float(np.std(floor) / math.sqrt(len(floor)))


def _rows(split: Split, first: int, count: int) -> np.ndarray:
    return np.asarray(split.batch(np.arange(first, first + count)).x).reshape(count, -1)


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, CanSample) and kinds.of(evaluation.data.schema).has_distances


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert isinstance(evaluation.model, CanSample), "ask what applies first"
    if min(len(evaluation.split), len(evaluation.data.train)) < 2:  # a single point has no spread
        return {}
    found = resemblance(evaluation.model, evaluation.data, evaluation.split, evaluation.key)
    value, floor, error = found
    return {
        "sinkhorn_divergence": Metric(value, "squared distance"),
        "sinkhorn_divergence_of_real": Metric(floor, "squared distance", error),
    }


score = Score("How much samples resemble held-out points.", _applies, _measure, order=60)

__all__ = ["resemblance", "score"]
