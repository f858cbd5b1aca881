"""Matrices of multivariate distributions: what may be a covariance, and products with batches of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import floating

_NEGATIVE = 1e-8
"""How negative an eigenvalue may be, over the largest, to count as a zero that was rounded."""


def checked_covariance(where: str, name: str, values: Any) -> Array:
    """A covariance matrix, or a batch of them: square, finite, symmetric, no eigenvalue below -1e-8 of the largest.

    >>> checked_covariance("condition", "covariance", [[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: condition(covariance): smallest eigenvalue -1; a covariance has none below 0
           the nearest covariance sets negative eigenvalues to zero (numpy.linalg.eigh)
    """
    array = floating(values)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ArgumentError(
            f"{where}({name}): a {name} is a square matrix, not an array of shape {array.shape}",
            remedy=f"for one variable of variance v: {name}=[[v]]" if array.size == 1 else "",
        )
    if not array.size:
        return array
    slack = rounding(array)
    if isinstance(array, jax.core.Tracer):
        largest = jnp.abs(array).max(axis=(-2, -1), keepdims=True)
        return eqx.error_if(
            array,
            ~(jnp.abs(array - array.mT) <= slack * largest),
            f"{where}: {name} must be symmetric and finite",
        )
    for matrix in np.asarray(array, np.float64).reshape(-1, *array.shape[-2:]):
        _check_one(where, name, matrix, slack)
    return array


def _check_one(where: str, name: str, matrix: np.ndarray, slack: float) -> None:
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ArgumentError(
            f"{where}({name}): entry [{row}, {column}] is {matrix[row, column]:g}, not finite"
        )
    skew = np.abs(matrix - matrix.T)
    found = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    if skew.max() > slack * np.abs(matrix).max():
        row, column = np.unravel_index(skew.argmax(), skew.shape)
        raise ArgumentError(
            f"{where}({name}): entry [{row}, {column}] is {matrix[row, column]:.6g} and entry [{column}, {row}] is "
            f"{matrix[column, row]:.6g}; a {name} is symmetric",
            remedy=f"take ({name} + {name}.T) / 2, whose smallest eigenvalue is {found[0]:.6g}",
        )
    if found[0] < -max(_NEGATIVE, slack) * max(found[-1], 0.0):
        raise ArgumentError(
            f"{where}({name}): smallest eigenvalue {found[0]:.6g}; a {name} has none below 0",
            remedy="the nearest covariance sets negative eigenvalues to zero (numpy.linalg.eigh)",
        )


def rounding(matrix: Array) -> float:
    """How large rounding may make what should be zero, in parts of the largest eigenvalue."""
    return 10 * max(matrix.shape[-1], 1) * float(jnp.finfo(matrix.dtype).eps)


def apply(matrix: Float[Array, "*batch m n"], vectors: Float[Array, "... n"]) -> Float[Array, "... m"]:
    """A matrix, or a batch of them, times vectors with further leading axes."""
    return jnp.einsum("...mn,...n->...m", matrix, vectors)


def solve_lower(lower: Array, vectors: Array) -> Array:
    """`lower^-1 vectors`, with all vectors of one matrix as the columns of one system."""
    batch = lower.shape[:-2]
    lead = vectors.shape[: vectors.ndim - 1 - len(batch)]
    columns = jnp.moveaxis(vectors.reshape(-1, *batch, vectors.shape[-1]), 0, -1)
    solved = jax.scipy.linalg.solve_triangular(lower, columns, lower=True)
    return jnp.moveaxis(solved, -1, 0).reshape(*lead, *batch, vectors.shape[-1])


def diagonal_matrix(values: Float[Array, "*batch d"]) -> Float[Array, "*batch d d"]:
    """The matrix with these values on its diagonal."""
    size = values.shape[-1]
    eye = jnp.eye(size, dtype=values.dtype)
    return values[..., None] * jnp.broadcast_to(eye, (*values.shape, size))


__all__ = ["apply", "checked_covariance", "diagonal_matrix", "rounding", "solve_lower"]
