"""Classifier score: whether samples are each clearly of a class, and together of all classes.

exp E KL(p(y|x) || p(y)): 1 where the classifier says the same of all samples, the number of classes where it is sure of
each and every class comes as often. With Inception for a classifier this is the inception score.

Reference: Salimans, Goodfellow, Zaremba, Cheung, Radford and Chen, Improved techniques for training GANs, 2016.
"""

import math
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.probability.samples.rows import rows_of

_SLACK = 1e-3
"""How far the sum of probabilities may be from one: classifiers compute in single precision or less."""


def classifier_score(probabilities: Any) -> float:
    """The score of what a classifier says of samples.

    >>> classifier_score(np.eye(4)), classifier_score(np.full((3, 4), 0.25))
    (4.0, 1.0)
    """
    probabilities = rows_of("classifier_score", "probabilities", probabilities)
    if not len(probabilities):
        raise ArgumentError("classifier_score: there are no samples", remedy="give one or more")
    off = (np.abs(probabilities.sum(axis=1) - 1) > _SLACK) | (probabilities < 0).any(axis=1)
    if off.any():
        at = int(np.argmax(off))
        raise ArgumentError(
            f"classifier_score(probabilities): row {at} has the sum {probabilities[at].sum():.6g} and the least entry "
            f"{probabilities[at].min():.6g}",
            remedy="give what a classifier says of each sample, every row with the sum 1: softmax of its logits",
        )
    shares = probabilities.mean(axis=0, keepdims=True)
    certain = probabilities > 0
    ratio = np.where(certain, probabilities, 1.0) / np.where(certain, shares, 1.0)
    divergence = (probabilities * np.log(ratio)).sum(axis=1)
    return math.exp(divergence.mean())


__all__ = ["classifier_score"]
