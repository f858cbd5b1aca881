"""The log marginal likelihood of a Gaussian process and its gradient, by one factorisation and one inverse.

`log p(t) = -(t' C^-1 t + log |C| + n log 2 pi) / 2` with `C = K + noise`. Its derivative in the entries of C is
`(a a' - C^-1) / 2`, `a = C^-1 t` (Rasmussen and Williams, 2006, section 5.4.1): so no derivative passes through the
factorisation. `log_evidence` states this to JAX, for traced code and for devices; on the host, `evidence` does it in
the memory of one matrix. Objectives that leave points out have such a matrix, too.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.types import Array, Scalar
from chainrule.kernels import host
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.positive import factored

Inputs: TypeAlias = Float[np.ndarray, "rows features"]
Targets: TypeAlias = Float[np.ndarray, "rows outputs"]


@jax.custom_jvp
def log_evidence(covariance: Float[Array, "rows rows"], targets: Float[Array, "rows outputs"]) -> Scalar:
    """`sum log N(t; 0, C)` over the columns of the targets; NaN for a matrix that is no covariance.

    >>> float(log_evidence(jnp.eye(1), jnp.zeros((1, 1))))
    -0.918938...
    """
    found = factored(covariance)
    white = found.whiten(targets)
    size, outputs = targets.shape
    return -0.5 * (jnp.square(white).sum() + outputs * (found.log_det + size * math.log(2 * math.pi)))


@log_evidence.defjvp
def _log_evidence_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Scalar, Scalar]:
    covariance, targets = primals
    found = factored(covariance)
    weights, inverse = found.solve(targets), found.solve(jnp.eye(len(targets), dtype=targets.dtype))
    slope = 0.5 * (weights @ weights.T - targets.shape[1] * inverse)
    # The value by its own rule, so that a second derivative sees `weights` and `inverse` alone.
    value = log_evidence(covariance, targets)
    return value, (slope * tangents[0]).sum() - (weights * tangents[1]).sum()


class ObjectiveSlope(NamedTuple):
    """An objective and its gradient."""

    value: float
    kernel: Kernel
    """In the parameters of the kernel: a tree like it."""
    noise: Float[np.ndarray, " rows"]
    """In the noise of every point."""


Objective: TypeAlias = Callable[[Kernel, Float[np.ndarray, " rows"], Inputs, Targets], ObjectiveSlope]
"""From kernel, noise, points and targets less their mean; called where double precision is on."""


def evidence(kernel: Kernel, noise: Float[np.ndarray, " rows"], x: Inputs, t: Targets) -> ObjectiveSlope:
    """The log marginal likelihood with its gradient, on the host."""
    lower = host.factor(lambda: host.lower_gram(kernel, x, noise))
    weights = lower.solve(t)
    rows, outputs = t.shape
    value = -0.5 * (float((t * weights).sum()) + outputs * (lower.log_det + rows * math.log(2 * math.pi)))
    inverse = lower.inverted()
    slope = host.pulled_back(kernel, x, 0.5 * weights, weights, inverse, -0.5 * outputs)
    return ObjectiveSlope(
        value, slope, 0.5 * (np.square(weights).sum(axis=1) - outputs * np.diagonal(inverse))
    )


def left_out(folds: Sequence[Int[np.ndarray, " _"]] | None = None) -> Objective:
    """The objective that predicts each fold from the others: the sum of its log predictive densities.

    Without folds every point is one. With `Q = C^-1` the prediction of a fold I has covariance `Q_II^-1` and is off by
    `Q_II^-1 a_I` (Rasmussen and Williams, 2006, section 5.4.2, for single points): no further factorisations of C.
    """

    def judged(kernel: Kernel, noise: Float[np.ndarray, " rows"], x: Inputs, t: Targets) -> ObjectiveSlope:
        lower = host.factor(lambda: host.lower_gram(kernel, x, noise))
        weights = lower.solve(t)
        inverse = lower.inverted()
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        value, missed, spread = (_single if folds is None else _by_fold(folds))(inverse, weights)
        value -= 0.5 * t.size * math.log(2 * math.pi)
        # d f = sum(missed * d a) + sum(spread * d Q) with d Q = -Q dC Q and d a = -Q dC a.
        back = inverse @ missed
        base = inverse @ (spread @ inverse if spread.ndim == 2 else spread[:, None] * inverse)
        left, right = np.hstack([weights, back]), -0.5 * np.hstack([back, weights])
        slope = host.pulled_back(kernel, x, left, right, base, -1.0)
        return ObjectiveSlope(value, slope, -(weights * back).sum(axis=1) - np.diagonal(base))

    return judged


_Parts: TypeAlias = tuple[float, np.ndarray, np.ndarray]


def _single(inverse: np.ndarray, weights: np.ndarray) -> _Parts:
    """The value, and its slopes in `a` and in the diagonal of Q, where every point is left out by itself."""
    own, outputs = np.diagonal(inverse), weights.shape[1]
    squares = np.square(weights).sum(axis=1)
    value = 0.5 * float(outputs * np.log(own).sum() - (squares / own).sum())
    return value, -weights / own[:, None], 0.5 * (outputs / own + squares / own**2)


def _by_fold(folds: Sequence[np.ndarray]) -> Callable[[np.ndarray, np.ndarray], _Parts]:
    """The same for folds; the slope in Q is a matrix of blocks."""

    def found(inverse: np.ndarray, weights: np.ndarray) -> _Parts:
        value, missed, spread = 0.0, np.zeros_like(weights), np.zeros_like(inverse)
        outputs = weights.shape[1]
        for fold in folds:
            block = inverse[np.ix_(fold, fold)]
            covariance = np.linalg.inv(block)
            covariance = (covariance + covariance.T) / 2
            off = covariance @ weights[fold]
            value += 0.5 * float(outputs * np.linalg.slogdet(block)[1] - (weights[fold] * off).sum())
            missed[fold] = -off
            spread[np.ix_(fold, fold)] = 0.5 * (outputs * covariance + off @ off.T)
        return value, missed, spread

    return found


__all__ = ["Objective", "ObjectiveSlope", "evidence", "left_out", "log_evidence"]
