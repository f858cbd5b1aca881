"""Ranking measures: area under the ROC curve, average precision, correlations."""

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


def correlations(predicted: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Pearson's correlation and Spearman's, that of the ranks; nothing where either side never changes.

    >>> found = correlations(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0, 3.0]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'pearson': 0.918, 'spearman': 1.0}
    """
    if len(true) < 2 or np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return {}
    ranks = (scipy.stats.rankdata(values) for values in (predicted, true))
    return {
        "pearson": float(np.corrcoef(predicted, true)[0, 1]),
        "spearman": float(np.corrcoef(*ranks)[0, 1]),
    }


__all__ = ["area_under", "average_precision", "correlations"]
