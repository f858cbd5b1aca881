"""The bottleneck of normal variables, in closed form: projections of x that switch on one after another.

With l_i the eigenvalues of S_(x given y) S_x⁻¹, direction i is worth keeping above beta_i = 1 / (1 - l_i).

Reference: Chechik, Globerson, Tishby and Weiss, Information bottleneck for Gaussian variables, Journal of Machine
Learning Research, 2005.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.information.entropies import Axes, covariance_matrix
from chainrule.information.units import scale, takes_base


@final
@dataclass(frozen=True, eq=False)
class GaussianBottleneck:
    """z = projection @ x + noise of unit variance, the best for this beta."""

    beta: float
    rate: float
    """I(X; Z)."""
    relevance: float
    """I(Z; Y)."""
    unit: str
    eigenvalues: np.ndarray
    """Of S_(x given y) S_x⁻¹, smallest and thus most telling first."""
    critical_betas: np.ndarray
    """Where each direction switches on; infinite for directions that say nothing of y."""
    projection: np.ndarray
    """One row for each direction that is on."""

    def __str__(self) -> str:
        return (
            f"beta {self.beta:g}: I(X;Z) {self.rate:.6f}, I(Z;Y) {self.relevance:.6f} {self.unit}, "
            f"{len(self.projection)} of {len(self.eigenvalues)} directions"
        )


@takes_base
def gaussian_bottleneck(covariance: Any, beta: float, x: Axes = 0, unit: str = "bits") -> GaussianBottleneck:
    """The bottleneck of variables that are normal together; `x` names those to compress, the others are y.

    >>> print(gaussian_bottleneck([[1.0, 0.8], [0.8, 1.0]], 4.0))
    beta 4: I(X;Z) 1.207519, I(Z;Y) 0.529447 bits, 1 of 1 directions
    """
    where = "gaussian_bottleneck"
    factor = scale(unit, where)
    if not 0 < beta < math.inf:
        raise ArgumentError(f"{where}(beta={beta}): beta is a positive number")
    matrix = covariance_matrix(where, "covariance", covariance)
    chosen = [int(x)] if isinstance(x, int | np.integer) else [int(axis) for axis in x]
    others = [k for k in range(len(matrix)) if k not in chosen]
    if (
        not chosen
        or not others
        or not set(chosen) <= set(range(len(matrix)))
        or len(set(chosen)) < len(chosen)
    ):
        raise ArgumentError(
            f"{where}(x={x}): names some of the variables 0 to {len(matrix) - 1}, and leaves some for y"
        )
    s_x, s_xy = matrix[np.ix_(chosen, chosen)], matrix[np.ix_(chosen, others)]
    given = s_x - s_xy @ np.linalg.solve(matrix[np.ix_(others, others)], s_xy.T)
    # Left eigenvectors of S_(x given y) S_x⁻¹, through the symmetric form that has the same eigenvalues.
    root = np.linalg.cholesky(s_x)
    eigenvalues, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, given).T))
    eigenvalues = np.clip(eigenvalues, 1e-300, 1.0)
    left = np.linalg.solve(root.T, vectors).T
    with np.errstate(divide="ignore"):
        critical = np.where(eigenvalues < 1 - 1e-12, 1 / (1 - eigenvalues), np.inf)
    on = critical < beta
    kept = eigenvalues[on]
    relevance = np.log((1 - 1 / beta) / kept).sum() / 2
    # One more than the ratio of signal to noise that the projection gives each direction.
    signal = (beta - 1) * (1 - kept) / kept
    rate = np.log(signal).sum() / 2
    length = np.sqrt(np.maximum(signal - 1, 0.0))
    return GaussianBottleneck(
        float(beta),
        float(rate) * factor,
        float(relevance) * factor,
        unit,
        eigenvalues,
        critical,
        length[:, None] * left[on],
    )


__all__ = ["GaussianBottleneck", "gaussian_bottleneck"]
