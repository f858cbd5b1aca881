"""Classifier two-sample test: how often a classifier tells samples from real rows.

A classifier of nearest neighbours learns from one half of both sets and is asked about the other half. If both are of
one distribution it is right half of the time, whatever it learns; how far chance goes is a matter of coin tosses.

Reference: Lopez-Paz and Oquab, Revisiting classifier two-sample tests, 2017.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from chainrule.probability.samples.neighbours import nearest
from chainrule.probability.samples.rows import two_sets

_LEVEL = 0.95


class TwoSampleAccuracy(NamedTuple):
    """The share of rows that a classifier gets right, the binomial interval around it, and of how many rows it is."""

    accuracy: float
    low: float
    """Ends of the exact interval of 95 % (Clopper and Pearson)."""
    high: float
    asked: int

    @property
    def chance(self) -> bool:
        """Whether guessing is within the interval."""
        return self.low <= 0.5 <= self.high


def two_sample_accuracy(one: Any, other: Any, seed: int = 0) -> TwoSampleAccuracy:
    """How often neighbours, as many as the root of the rows learnt from, tell one set from the other.

    Equally many rows of both are compared.

    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> two_sample_accuracy(x, x + 9).accuracy, two_sample_accuracy(x[:30], x[30:]).chance
    (1.0, True)
    """
    one, other = two_sets("two_sample_accuracy", one, other, 4)
    count, rng = min(len(one), len(other)), np.random.default_rng(seed)
    half = count // 2
    parts = [rows[rng.permutation(len(rows))[:count]] for rows in (one, other)]
    known = np.concatenate([rows[:half] for rows in parts])
    asked = np.concatenate([rows[half:] for rows in parts])
    neighbours = math.isqrt(len(known)) | 1  # an odd number of votes is never even
    _, numbers = nearest(asked, known, min(neighbours, len(known) - 1))
    second = (numbers >= half).mean(axis=1) > 0.5
    right = int((second == (np.arange(len(asked)) >= count - half)).sum())
    found = stats.binomtest(right, len(asked)).proportion_ci(_LEVEL)
    return TwoSampleAccuracy(right / len(asked), float(found.low), float(found.high), len(asked))


__all__ = ["TwoSampleAccuracy", "two_sample_accuracy"]
