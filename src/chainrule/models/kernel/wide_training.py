"""Training of networks of infinite width: to its end, which is kernel ridge regression, or for a time.

Either way values are predicted by `k(x, X) coefficients`. Some examples are also predicted by networks that have not
seen them: at the end of training every one from all others, in closed form; for a time a fifth from the rest.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.types import Array
from chainrule.kernels import Precomputed
from chainrule.kernels.infinite import TrainedEnsemble, gradient_descent
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import FittedRidge, KernelRidge

Matrix = Float[np.ndarray, "points points"]
Values = Float[np.ndarray, "points outputs"]
HELD = 5
"""One in so many examples is left out to see how far networks that were trained for a time are off."""


@final
@dataclass(frozen=True)
class WideTraining:
    """What training has found, and what it says of examples left out."""

    coefficients: Values
    ridge: float
    jitter: float
    """What rounding needed on the diagonal beyond the ridge."""
    outputs: Values
    """At the kept examples."""
    held: Int[np.ndarray, " held"]
    """Which examples were left out."""
    left_out: Float[np.ndarray, "held outputs"]
    """What is predicted of them without them."""
    variance: Float[np.ndarray, " held"]
    """How far networks from different weights are apart there; zero where nobody asked."""
    ensemble: TrainedEnsemble | None
    """All networks at that time, where training was stopped."""


def to_the_end(
    matrix: Matrix, values: Values, weights: Float[np.ndarray, " points"], ridge: float | None
) -> WideTraining:
    """Kernel ridge regression; the ridge that predicts examples left out best, where none is given.

    >>> to_the_end(np.eye(2), np.array([[1.0], [2.0]]), np.ones(2), 1.0).coefficients.round(6).tolist()
    [[0.5], [1.0]]
    """
    every = np.arange(len(matrix))
    fitted = KernelRidge(Precomputed(matrix), ridge).fit(every[:, None], values, weights)
    assert isinstance(fitted, FittedRidge)  # nothing is approximated here
    # The regression at the kept examples is known: `K a = y - ridge a`.
    there = values - (fitted.ridge / weights + fitted.jitter)[:, None] * fitted.coefficients
    return WideTraining(
        fitted.coefficients,
        fitted.ridge,
        fitted.jitter,
        there,
        every,
        values - fitted.residuals,
        np.zeros(len(matrix)),
        None,
    )


def for_a_time(matrix: Matrix, covariance: Matrix, values: Values, ridge: float, time: float) -> WideTraining:
    """Gradient descent from random weights; time in units of one over the mean of the kernel's diagonal.

    `matrix` is the kernel that trains, `covariance` that of outputs before training.

    >>> found = for_a_time(np.eye(2), np.eye(2), np.array([[1.0], [2.0]]), 0.0, 1.0)
    >>> found.outputs.round(3).tolist()
    [[0.632], [1.264]]
    """
    every = np.arange(len(matrix))
    whole = descended(matrix, covariance, values, every, ridge, time)
    coefficients = applied(whole, values)
    held = np.sort(np.random.default_rng(0).permutation(len(matrix))[: max(1, len(matrix) // HELD)])
    rest = np.setdiff1d(every, held)
    left_out, variance = np.zeros((len(held), values.shape[1])), np.diagonal(covariance)[held]
    if len(rest):
        left_out, spread = descended(matrix, covariance, values, rest, ridge, time)(held[:, None])
        variance = np.maximum(np.diagonal(spread), 0.0)
    return WideTraining(coefficients, ridge, 0.0, matrix @ coefficients, held, left_out, variance, whole)


def descended(
    matrix: Matrix,
    covariance: Matrix,
    values: Values,
    some: Int[np.ndarray, " some"],
    ridge: float,
    time: float,
) -> TrainedEnsemble:
    """All networks after a time of gradient descent on some of the examples."""
    trains = Precomputed(matrix)
    before = trains if covariance is matrix else Precomputed(covariance)
    rate = 1 / float(np.diagonal(matrix).mean())
    return gradient_descent(
        trains, before, some[:, None], values[some], time, learning_rate=rate, ridge=ridge
    )


def applied(
    ensemble: TrainedEnsemble, b: Float[np.ndarray, "points columns"]
) -> Float[np.ndarray, "points columns"]:
    """`Theta^-1 (I - exp(-t Theta)) b`: coefficients of these targets."""
    return np.asarray(_applied(ensemble.descent, ensemble.times, b), np.float64)


@in_double
def _applied(descent: Any, t: Any, b: Any) -> Array:
    found: Array = descent.applied(t, b)
    return found


__all__ = ["HELD", "WideTraining", "applied", "descended", "for_a_time", "to_the_end"]
