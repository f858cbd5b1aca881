"""Probabilities from regressions on classes: how sharply the softmax is to follow their values.

Reference: Platt, Probabilistic outputs for support vector machines, 1999.
"""

import math

import numpy as np
from jaxtyping import Float, Int
from scipy import optimize, special


def sharpness(
    values: Float[np.ndarray, "rows classes"],
    y: Int[np.ndarray, " rows"],
    weights: Float[np.ndarray, " rows"] | None = None,
) -> float:
    """What values are multiplied by so that their softmax gives the classes the least cross-entropy.

    It is one over a temperature. Give values of examples that the regression has not seen. Much as with Platt's
    sigmoid, one example more is taken to be of another class, so that classes far apart do not make it infinite.

    >>> values = np.array([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2]])
    >>> 1 < sharpness(values, np.array([0, 1, 0])) < 5 < sharpness(np.tile(values, (50, 1)), np.tile([0, 1, 0], 50))
    True
    """
    classes = values.shape[1]
    doubt = 1 / (len(y) + 2)
    wanted = np.full(values.shape, doubt / max(classes - 1, 1))
    wanted[np.arange(len(y)), y] = 1 - doubt

    def cross_entropy(log: float) -> float:
        logs = special.log_softmax(math.exp(log) * values, axis=1)
        return float(np.average(-(wanted * logs).sum(axis=1), weights=weights))

    return math.exp(float(optimize.minimize_scalar(cross_entropy, bounds=(-4.0, 8.0), method="bounded").x))


__all__ = ["sharpness"]
