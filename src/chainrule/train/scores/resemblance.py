"""Resemblance of samples to held-out points: the Sinkhorn divergence between the two sets.

A distance between finite sets of one distribution is not zero, so it stands beside the same distance for real points:
as many training examples against the same held-out ones. Only the ratio of the two says something.
"""

import math
from typing import final

import numpy as np

from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.protocol import CanSample
from chainrule.probability.transport import sinkhorn_divergence
from chainrule.train.scoring import Evaluation, Metric, Score

_MOST = 1000
_SETS = 4
"""Sets of training examples at most."""


@final
class HeldOutPoints:
    """Held-out points that sets of as many samples, or of training points, are compared with, by one epsilon."""

    def __init__(self, data: Data, part: Split) -> None:
        self.count = min(len(part), len(data.train), _MOST)
        self._points = _rows(part, 0, self.count)
        starts = range(0, len(data.train) - self.count + 1, self.count)
        first, *others = [_rows(data.train, start, self.count) for start in starts][:_SETS]
        found = sinkhorn_divergence(first, self._points)
        self._epsilon = found.epsilon
        self._of_real = [found.value, *(self.distance(x) for x in others)]

    def distance(self, samples: np.ndarray) -> float:
        """Sinkhorn divergence of samples from the points, in squares of the units of the model."""
        return sinkhorn_divergence(samples.reshape(len(samples), -1), self._points, self._epsilon).value

    @property
    def distance_of_real(self) -> tuple[float, float]:
        """The same of training points, and its standard error."""
        return float(np.mean(self._of_real)), float(np.std(self._of_real) / math.sqrt(len(self._of_real)))


def _rows(split: Split, first: int, count: int) -> np.ndarray:
    return np.asarray(split.batch(np.arange(first, first + count)).x).reshape(count, -1)


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, CanSample) and kinds.of(evaluation.data.schema).has_distances


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, part = evaluation.model, evaluation.split
    assert isinstance(model, CanSample), "ask what applies first"
    if min(len(part), len(evaluation.data.train)) < 2:  # a single point has no spread
        return {}
    points = HeldOutPoints(evaluation.data, part)
    conditions = {"condition": part.batch(np.arange(points.count)).y} if model.needs_condition else {}
    drawn = np.asarray(model.sample(evaluation.key, points.count, **conditions))
    floor, error = points.distance_of_real
    return {
        "sinkhorn_divergence": Metric(points.distance(drawn), "squared distance"),
        "sinkhorn_divergence_of_real": Metric(floor, "squared distance", error),
    }


score = Score("How much samples resemble held-out points.", _applies, _measure, order=60)

__all__ = ["HeldOutPoints", "score"]
