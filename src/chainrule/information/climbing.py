"""The way up behind capacity and rate-distortion: a distribution that maximises a concave value, with a proof.

Blahut and Arimoto's step from q(z) to q(z) c(z) is again a distribution and never lowers the value, which nowhere is
above `value + max log c`; but it creeps where probabilities go to zero. Newton's step, a least-squares problem with
weights that are not negative, finds which of them do, and then arrives at once. It is taken wherever it is better.

References: Blahut, Computation of channel capacity and rate-distortion functions, IEEE Transactions on Information
Theory, 1972; Wang, On fast computation of the non-parametric maximum likelihood estimate of a mixing distribution,
Journal of the Royal Statistical Society B, 2007.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import nnls

from chainrule.core.errors import ArgumentError

Evaluate: TypeAlias = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From q to the value there and log c."""
Newton: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From q to a matrix and a target, whose least squares over distributions are the best one by the second order."""

_PLAIN = 5
"""Plain steps before the first one of Newton."""
_STILL = 20
"""Steps without any progress after which rounding is all that is left."""
_HEAVY = 1e3
"""Weight of the row that makes weights sum to one; it does not move the solution."""
_ROUNDING = 1e-14
_LEAST = 1e-15
"""Plain steps never lose an outcome for good."""


class Climb(NamedTuple):
    """Where the way up ended."""

    weights: np.ndarray
    log_ratio: np.ndarray
    """log c there."""
    value: float
    upper: float
    """What the value exceeds nowhere."""
    bounds: np.ndarray
    """Value and upper bound after each iteration."""


def tolerance(where: str, tol: float) -> float:
    """How far apart bounds may be.

    >>> tolerance("capacity", 0.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: capacity(tol=0.0): how far apart bounds may be is a positive number
    """
    if not 0 < tol < math.inf:
        raise ArgumentError(f"{where}(tol={tol}): how far apart bounds may be is a positive number")
    return float(tol)


def climb(evaluate: Evaluate, newton: Newton, size: int, tol: float, most: int) -> Climb:
    """Raise the value from the uniform distribution until it is within `tol` of its upper bound.

    >>> source, kernel = np.array([0.5, 0.5]), np.array([[1.0, 0.1], [0.1, 1.0]])
    >>> def evaluate(q):
    ...     return float(source @ np.log(kernel @ q)), np.log((source / (kernel @ q)) @ kernel)
    >>> found = climb(evaluate, lambda q: (kernel, source), 2, 1e-12, 100)
    >>> found.weights.tolist(), found.upper - found.value <= 1e-12
    ([0.5, 0.5], True)
    """
    weights = np.full(size, 1 / size)
    value, log_ratio = evaluate(weights)
    upper, still = math.inf, 0
    bounds: list[tuple[float, float]] = []
    while True:
        bound = value + max(float(log_ratio.max()), 0.0)
        still = 0 if bound < upper or not bounds or value > bounds[-1][0] else still + 1
        upper = min(upper, bound)
        bounds.append((value, upper))
        if upper - value <= tol or len(bounds) >= most or still >= _STILL:
            return Climb(weights, log_ratio, value, upper, np.array(bounds))
        plain = _normalized(np.maximum(weights, _LEAST) * np.exp(log_ratio))
        found = plain, *evaluate(plain)
        if len(bounds) > _PLAIN:
            found = _better(evaluate, weights, newton(weights), found)
        weights, value, log_ratio = found


def _better(
    evaluate: Evaluate,
    weights: np.ndarray,
    problem: tuple[np.ndarray, np.ndarray],
    plain: tuple[np.ndarray, float, np.ndarray],
) -> tuple[np.ndarray, float, np.ndarray]:
    """Newton's step, shortened until it is better than the plain one; the plain one if it never is."""
    matrix, target = problem
    try:
        towards = nnls(np.vstack([matrix, np.full(len(weights), _HEAVY)]), np.append(target, _HEAVY))[0]
    except RuntimeError:  # it went round in circles
        return plain
    if not towards.sum() > 0:
        return plain
    towards = _normalized(towards)
    for halved in range(6):
        tried = weights + (towards - weights) / 4**halved
        found = evaluate(tried)
        gained = found[0] - plain[1]
        # Where rounding is all that is gained, the step that proves more is better.
        if gained > _ROUNDING or (gained > -_ROUNDING and found[1].max() < plain[2].max()):
            return tried, *found
    return plain


def _normalized(weights: np.ndarray) -> np.ndarray:
    return np.asarray(weights / weights.sum())


__all__ = ["Climb", "climb", "tolerance"]
