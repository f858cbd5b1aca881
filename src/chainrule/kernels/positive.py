"""Solving with Gram matrices: one factorisation, with as little added to the diagonal as it needs, and said.

A Gram matrix is positive semi-definite, yet rounding may leave it with eigenvalues a little below zero. `factored`
tries the matrix as it is and then with 1e-10, 1e-8, 1e-6 and 1e-4 of its mean diagonal added; a matrix that needs more
is no Gram matrix, and the error names its smallest eigenvalue. Inside compiled code the same is done, and a matrix that
cannot be factored gives NaN.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.precision import in_double, traced
from chainrule.probability.distributions.parameters import finite, floating

JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
"""What is added to the diagonal, in units of its mean, until a matrix can be factored."""
_BAND = 512
"""Rows of a matrix that are compared with its columns at a time."""

Matrix = Float[Array, "size size"]


class Factored(NamedTuple):
    """A positive definite matrix by its lower triangular factor."""

    lower: Matrix
    jitter: Scalar
    """What was added to the diagonal."""

    def solve(self, b: Array) -> Array:
        """`(L L')^-1 b` for a vector or the columns of a matrix."""
        return jax.scipy.linalg.cho_solve((jnp.asarray(self.lower), True), jnp.asarray(b))

    def whiten(self, b: Array) -> Array:
        """`L^-1 b`, whose square is `b' (L L')^-1 b`."""
        return jax.scipy.linalg.solve_triangular(jnp.asarray(self.lower), jnp.asarray(b), lower=True)

    @property
    def log_det(self) -> Scalar:
        """The logarithm of the determinant."""
        return 2 * jnp.log(jnp.diagonal(self.lower)).sum()


def factored(matrix: Matrix, name: str = "K") -> Factored:
    """The lower factor of a positive semi-definite matrix, with the least jitter of the ladder that it needs.

    Precision is that of the matrix. Derivatives pass through the factor; the choice of the jitter has none.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentError(f"factored({name}): a square matrix is needed, not shape {matrix.shape}")
    known = not traced(matrix)
    if known:
        finite("factored", name, matrix)
        for jitter in JITTERS:
            lower = jnp.linalg.cholesky(_raised(matrix, jnp.asarray(jitter, matrix.dtype)))
            if bool(jnp.isfinite(lower).all()):
                return Factored(lower, jitter * jnp.diagonal(matrix).mean())
        raise not_positive(matrix, name)
    return Factored(*_laddered(matrix))


def _raised(matrix: Matrix, jitter: Array) -> Matrix:
    """With so many times its mean added to the diagonal."""
    return matrix + jitter * jnp.diagonal(matrix).mean() * jnp.eye(len(matrix), dtype=matrix.dtype)


@jax.custom_jvp
def _laddered(matrix: Matrix) -> tuple[Matrix, Scalar]:
    """Factor and jitter in traced code; a matrix that needs no jitter is factorised once."""
    ladder = jnp.asarray(JITTERS, matrix.dtype)

    def fails(state: tuple[Array, Array]) -> Array:
        rung, lower = state
        return ~jnp.isfinite(lower).all() & (rung < len(JITTERS) - 1)

    def attempt(rung: Array) -> tuple[Array, Array]:
        return rung, jnp.linalg.cholesky(_raised(matrix, ladder[rung]))

    rung, lower = jax.lax.while_loop(
        fails, lambda state: attempt(state[0] + 1), attempt(jnp.zeros((), jnp.int32))
    )
    return lower, ladder[rung] * jnp.diagonal(matrix).mean()


@_laddered.defjvp
def _(primals: tuple[Matrix], tangents: tuple[Matrix]) -> tuple[Any, Any]:
    """By the factor at hand (Murray, Differentiation of the Cholesky decomposition, 2016)."""
    ((matrix,), (moved,)) = primals, tangents
    lower, jitter = _laddered(matrix)
    share = jax.lax.stop_gradient(jitter / jnp.diagonal(matrix).mean())
    change = _raised((moved + moved.T) / 2, share)
    half = jax.scipy.linalg.solve_triangular(lower, change, lower=True)
    white = jax.scipy.linalg.solve_triangular(lower, half.T, lower=True)
    below = jnp.tril(white) - jnp.diag(jnp.diagonal(white)) / 2
    slope = jnp.matmul(lower, below, precision="highest")
    return (lower, jitter), (slope, share * jnp.diagonal(moved).mean())


def not_positive(matrix: Any, name: str) -> ArgumentError:
    """The error for a matrix that is no Gram matrix."""
    exact = np.asarray(matrix, np.float64)
    smallest = np.linalg.eigvalsh((exact + exact.T) / 2)[0]
    return ArgumentError(
        f"kernel matrix is not positive semi-definite: smallest eigenvalue {smallest:.3g} (argument {name})",
        remedy=f"use nearest_psd({name}), check the kernel with kernels.check, "
        f"or add {1.1 * abs(smallest):.2g} to the diagonal",
    )


class PSDSolution(NamedTuple):
    """What `psd_solve` found."""

    x: Float[np.ndarray, " size *columns"]
    jitter: float
    """What had to be added to the diagonal."""


def psd_solve(K: Any, b: Any) -> PSDSolution:
    """`K^-1 b` for a positive semi-definite matrix, in double precision, with the jitter that was needed.

    >>> psd_solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    PSDSolution(x=array([0.5 , 0.25]), jitter=0.0)
    >>> psd_solve([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]], [1.0, 0.0, 0.0])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: kernel matrix is not positive semi-definite: smallest eigenvalue -0.8 (...)
           use nearest_psd(K), check the kernel with kernels.check, or add 0.88 to the diagonal
    """
    matrix, right = symmetric("psd_solve", "K", K), np.asarray(b, np.float64)
    if right.ndim not in (1, 2) or len(right) != len(matrix):
        raise ArgumentError(f"psd_solve: b of shape {right.shape} does not fit K of shape {matrix.shape}")
    x, jitter = _solved(matrix, right)
    return PSDSolution(np.asarray(x), float(jitter))


@in_double
def _solved(matrix: Array, right: Array) -> tuple[Array, Array]:
    found = factored(matrix)
    return found.solve(right), found.jitter


def symmetric(where: str, name: str, matrix: Any) -> Float[np.ndarray, "size size"]:
    """A square matrix of finite numbers in double precision that is symmetric up to rounding.

    >>> symmetric("embed", "K", [[1.0, 2.0], [3.0, 1.0]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: embed(K): not symmetric: K[0, 1] is 2 and ...
           a kernel has k(x, y) = k(y, x); symmetrise with (K + K.T) / 2 if that is meant
    """
    exact = np.asarray(finite(where, name, floating(matrix)) if traced(matrix) else matrix, np.float64)
    if exact.ndim != 2 or exact.shape[0] != exact.shape[1]:
        raise ArgumentError(f"{where}({name}): needs a square matrix, not shape {exact.shape}")
    refuse_asymmetry(where, name, exact)
    symmetrised: np.ndarray = (exact + exact.T) / 2
    return symmetrised


def refuse_asymmetry(where: str, name: str, matrix: Float[np.ndarray, "size size"]) -> None:
    """Raise where an entry is not finite, or is not its mirror image up to rounding; in parts, without a copy."""
    worst, at, largest = 0.0, (0, 0), 1e-300
    for start in range(0, len(matrix), _BAND):
        band, mirror = matrix[start : start + _BAND, start:], matrix[start:, start : start + _BAND].T
        wrong = np.argwhere(~(np.isfinite(band) & np.isfinite(mirror)))
        if len(wrong):
            i, j = (int(k) + start for k in wrong[0])
            i, j = (i, j) if not np.isfinite(matrix[i, j]) else (j, i)
            raise ArgumentError(
                f"{where}({name}): {name}[{i}, {j}] is {matrix[i, j]:g}; entries must be finite"
            )
        apart = np.abs(band - mirror)
        largest = max(largest, float(np.abs(band).max()))
        if apart.max() > worst:
            row, column = np.unravel_index(np.argmax(apart), apart.shape)
            worst, at = float(apart.max()), (int(row) + start, int(column) + start)
    if worst > 1e-6 * largest:
        i, j = at
        raise ArgumentError(
            f"{where}({name}): not symmetric: {name}[{i}, {j}] is {matrix[i, j]:.6g} and {name}[{j}, {i}] is "
            f"{matrix[j, i]:.6g}, the largest difference {worst:.3g}",
            remedy=f"a kernel has k(x, y) = k(y, x); symmetrise with ({name} + {name}.T) / 2 if that is meant",
        )


def nearest_psd(K: Any) -> Float[np.ndarray, "size size"]:
    """The positive semi-definite matrix closest to K: the symmetric part, negative eigenvalues set to zero.

    Closest in the Frobenius norm (Higham, Computing a nearest symmetric positive semidefinite matrix, 1988).

    >>> nearest_psd([[1.0, 0.0], [0.0, -2.0]]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    exact = np.asarray(K, np.float64)
    if exact.ndim != 2 or exact.shape[0] != exact.shape[1]:
        raise ArgumentError(f"nearest_psd(K): needs a square matrix, not shape {exact.shape}")
    if not np.isfinite(exact).all():
        raise ArgumentError("nearest_psd(K): entries must be finite")
    values, vectors = np.linalg.eigh((exact + exact.T) / 2)
    cut: np.ndarray = (vectors * np.maximum(values, 0)[None]) @ vectors.T
    return (cut + cut.T) / 2


__all__ = [
    "JITTERS",
    "Factored",
    "PSDSolution",
    "factored",
    "nearest_psd",
    "not_positive",
    "psd_solve",
    "refuse_asymmetry",
    "symmetric",
]
