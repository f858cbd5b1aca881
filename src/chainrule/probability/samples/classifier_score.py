"""Classifier score: whether samples are each clearly of a class, and together of all classes.

exp E KL(p(y|x) || p(y)): 1 where the classifier says the same of all samples, the number of classes where it is sure of
each and every class comes as often. With Inception for a classifier this is the inception score.

Reference: Salimans, Goodfellow, Zaremba, Cheung, Radford and Chen, Improved techniques for training GANs, 2016.
"""

import math

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError


def classifier_score(probabilities: Float[np.ndarray, "samples classes"]) -> float:
    """The score of what a classifier says of samples.

    >>> classifier_score(np.eye(4)), classifier_score(np.full((3, 4), 0.25))
    (4.0, 1.0)
    """
    if not len(probabilities):
        raise ArgumentError("classifier_score: there are no samples", remedy="give one or more")
    shares = probabilities.mean(axis=0, keepdims=True)
    certain = probabilities > 0
    ratio = np.where(certain, probabilities, 1.0) / np.where(certain, shares, 1.0)
    divergence = (probabilities * np.log(ratio)).sum(axis=1)
    return math.exp(divergence.mean())


__all__ = ["classifier_score"]
