"""Ranking measures: area under the ROC curve and average precision."""

import numpy as np
import scipy.stats


def area_under(scores: np.ndarray, ours: np.ndarray) -> float:
    """How often one of our examples has a higher score than one of the others; ties count half.

    >>> area_under(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    ranks = scipy.stats.rankdata(scores)  # ties share their ranks
    positive, negative = int(ours.sum()), int((~ours).sum())
    return float((ranks[ours].sum() - positive * (positive + 1) / 2) / (positive * negative))


def average_precision(scores: np.ndarray, ours: np.ndarray) -> float:
    """Mean, over our examples, of the precision at the threshold that just includes each; ties come together.

    >>> average_precision(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]))
    0.8333333333333333
    """
    thresholds = np.sort(scores[ours])
    included = len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")
    right = len(thresholds) - np.searchsorted(thresholds, thresholds, side="left")
    return float(np.mean(right / included))


__all__ = ["area_under", "average_precision"]
