"""Linear auto-encoders in closed form: x -> V x -> W V x for columns x, with W D x K and V K x D.

For a fixed decoder W the best code is the least-squares one, and what is rebuilt is the projection of x onto the span
of W. The best span is that of the K principal axes U of the second moments S, where WV = U U' and the error is the sum
of the other eigenvalues; W and V themselves are these axes only up to an invertible mix, for W Q and Q^-1 V rebuild the
same (Baldi and Hornik, 1989). With noise on the input the best matrix shrinks every axis instead of dropping some.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError

Matrix = Float[np.ndarray, "features features"]


def projector(w: Float[np.ndarray, "features latent"]) -> Matrix:
    """W (W'W)^-1 W', the projection onto the span of the columns of W.

    >>> projector(np.array([[2.0], [0.0]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    basis = np.asarray(w, np.float64)
    return basis @ np.linalg.pinv(basis)


def best_code(
    w: Float[np.ndarray, "features latent"], x: Float[np.ndarray, "features columns"]
) -> Float[np.ndarray, "latent columns"]:
    """(W'W)^-1 W' x: the codes from which W rebuilds each column best; of several, the shortest.

    >>> best_code(np.array([[2.0], [0.0]]), np.array([[3.0], [5.0]])).tolist()
    [[1.5]]
    """
    return np.linalg.lstsq(np.asarray(w, np.float64), np.asarray(x, np.float64), rcond=None)[0]


def reconstruction_error(w: Any, v: Any, moments: Any) -> Any:
    """E|x - WVx|² = tr((1 - WV) S (1 - WV)') for second moments S = E xx'; of NumPy or JAX arrays, differentiable.

    >>> reconstruction_error(np.eye(2)[:, :1], np.eye(2)[:1], np.diag([4.0, 3.0]))
    3.0
    """
    left = np.eye(len(moments)) - w @ v
    value = ((left @ moments) * left).sum()
    return float(value) if isinstance(value, np.generic) else value


def projection_error(w: Float[np.ndarray, "features latent"], moments: Matrix) -> float:
    """tr S - tr(P S): the error of a decoder W with the best code.

    >>> projection_error(np.array([[1.0], [0.0]]), np.diag([4.0, 3.0]))
    3.0
    """
    return float(np.trace(moments) - np.trace(projector(w) @ moments))


def linear_denoiser(covariance: Matrix, sigma: float) -> Matrix:
    """S (S + sigma² 1)^-1, the matrix that gives E[x | y] of centred Gaussian x seen as y = x + sigma eps.

    Along an axis of variance v it keeps the share v/(v + sigma²); it is also the least-squares one for any other x with
    this covariance.

    >>> linear_denoiser(np.diag([3.0, 0.0]), 1.0).tolist()
    [[0.75, 0.0], [0.0, 0.0]]
    """
    if not sigma > 0:
        raise ArgumentError(f"linear_denoiser(sigma={sigma}): noise has a positive standard deviation")
    s = np.asarray(covariance, np.float64)
    return np.linalg.solve(s + sigma**2 * np.eye(len(s)), s).T


__all__ = ["best_code", "linear_denoiser", "projection_error", "projector", "reconstruction_error"]
