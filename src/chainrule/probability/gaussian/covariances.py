"""Covariance matrices: what may be one, a factor of any of them, and densities of normals that are flat.

A covariance may be singular: the normal distribution then lives on the affine space mean + range(covariance), and
N(m, 0) is the point mass at m. Such a distribution has no density in the whole space, but one on its support.

Reference: Rao, Linear Statistical Inference and Its Applications, 2nd edition, 1973, section 8a.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import floating

Vector = Float[Array, " size"]
Matrix = Float[Array, "size size"]


def checked_covariance(where: str, name: str, values: Any) -> Matrix:
    """A covariance matrix as an array: square, finite, symmetric, no eigenvalue below -1e-8 of the largest.

    Inside compiled code, where there are no numbers to look at, the shape alone is checked.

    >>> checked_covariance("condition", "covariance", [[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: condition(covariance): smallest eigenvalue -1; a covariance has none below 0
           the nearest covariance sets negative eigenvalues to zero (numpy.linalg.eigh)
    """
    array = floating(values)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ArgumentError(
            f"{where}({name}): a {name} is a square matrix, not an array of shape {array.shape}",
            remedy=f"for one variable of variance v: {name}=[[v]]" if array.size == 1 else "",
        )
    if isinstance(array, jax.core.Tracer) or not array.size:
        return array
    exact = np.asarray(array, dtype=np.float64)
    if not np.isfinite(exact).all():
        row, column = np.argwhere(~np.isfinite(exact))[0]
        raise ArgumentError(f"{where}({name}): entry [{row}, {column}] is {exact[row, column]:g}, not finite")
    skew = np.abs(exact - exact.T)
    largest = np.abs(exact).max()
    if skew.max() > rounding(array) * largest:
        row, column = np.unravel_index(skew.argmax(), skew.shape)
        raise ArgumentError(
            f"{where}({name}): entry [{row}, {column}] is {exact[row, column]:.6g} and entry [{column}, {row}] is "
            f"{exact[column, row]:.6g}; a {name} is symmetric",
            remedy=f"take ({name} + {name}.T) / 2",
        )
    found = np.linalg.eigvalsh(exact)
    if found[0] < -max(1e-8, rounding(array)) * max(found[-1], 0.0):
        raise ArgumentError(
            f"{where}({name}): smallest eigenvalue {found[0]:.6g}; a {name} has none below 0",
            remedy="the nearest covariance sets negative eigenvalues to zero (numpy.linalg.eigh)",
        )
    return array


def checked_normal(
    where: str, mean: Any, covariance: Any, names: tuple[str, str] = ("mean", "covariance")
) -> tuple[Vector, Matrix]:
    """Mean and covariance, or shift and precision, as arrays of one type that fit each other."""
    matrix = checked_covariance(where, names[1], covariance)
    vector = floating(mean)
    if vector.shape != matrix.shape[:1]:
        raise ArgumentError(
            f"{where}({names[0]}): shape {vector.shape} does not fit a {names[1]} of shape {matrix.shape}",
            remedy=f"give a {names[0]} of shape {matrix.shape[:1]}",
        )
    if not isinstance(vector, jax.core.Tracer) and not np.isfinite(np.asarray(vector)).all():
        index = int(np.argwhere(~np.isfinite(np.asarray(vector)))[0, 0])
        raise ArgumentError(f"{where}({names[0]}): entry {index} is {float(vector[index]):g}, not finite")
    dtype = jnp.promote_types(vector.dtype, matrix.dtype)
    return vector.astype(dtype), matrix.astype(dtype)


def rounding(matrix: Array) -> float:
    """How large rounding may make what should be zero, in parts of the largest eigenvalue."""
    return 10 * max(matrix.shape[-1], 1) * float(jnp.finfo(matrix.dtype).eps)


class EigenFactor(NamedTuple):
    """A covariance as `vectors diag(variances) vectorsᵀ`; variances that are zero up to rounding are exactly zero."""

    variances: Vector
    """In increasing order."""
    vectors: Matrix
    """Orthonormal, in columns."""

    @property
    def factor(self) -> Matrix:
        """F with F Fᵀ the covariance: `mean + F z` of standard normal z has it, singular or not."""
        return self.vectors * jnp.sqrt(self.variances)[None]

    @property
    def rank(self) -> Array:
        """Dimension of the support."""
        return (self.variances > 0).sum()


def eigen_factor(covariance: Any) -> EigenFactor:
    """The eigenvectors and eigenvalues of any covariance, singular ones included.

    >>> found = eigen_factor([[1.0, 1.0], [1.0, 1.0]])
    >>> int(found.rank), jnp.round(found.factor @ found.factor.T, 5).tolist()
    (1, [[1.0, 1.0], [1.0, 1.0]])
    """
    matrix = checked_covariance("eigen_factor", "covariance", covariance)
    values, vectors = jnp.linalg.eigh(matrix)
    least = rounding(matrix) * jnp.abs(values).max(initial=0.0)
    return EigenFactor(jnp.where(values > least, values, 0.0), vectors)


def log_prob_on_support(x: Any, mean: Any, covariance: Any) -> Scalar:
    """Log-density of a normal on its own support, by pseudo-inverse and pseudo-determinant; -inf off the support.

    Of a regular covariance it is the ordinary log-density, of N(m, 0) it is 0 at m. A point counts as on the support
    if it is no further from it than the square root of the precision, times the size of the numbers.

    >>> flat = [[1.0, 1.0], [1.0, 1.0]]
    >>> round(float(log_prob_on_support([1.0, 1.0], [0.0, 0.0], flat)), 4)
    -1.7655
    >>> float(log_prob_on_support([1.0, 0.0], [0.0, 0.0], flat))
    -inf
    """
    centre, matrix = checked_normal("log_prob_on_support", mean, covariance)
    point = floating(x)
    if point.shape != centre.shape:
        raise ArgumentError(
            f"log_prob_on_support(x): shape {point.shape} does not fit a mean of shape {centre.shape}",
            remedy="for several points: jax.vmap over x",
        )
    factor = eigen_factor(matrix)
    along = factor.vectors.T @ (point - centre)
    inside = factor.variances > 0
    safe = jnp.where(inside, factor.variances, 1.0)
    log_density = -0.5 * jnp.where(
        inside, jnp.square(along) / safe + jnp.log(safe) + math.log(2 * math.pi), 0.0
    )
    scale = jnp.maximum(
        jnp.maximum(jnp.abs(point).max(initial=0.0), jnp.abs(centre).max(initial=0.0)),
        jnp.sqrt(factor.variances.max(initial=0.0)),
    )
    away = jnp.where(inside, 0.0, jnp.abs(along)).max(initial=0.0)
    near = away <= math.sqrt(jnp.finfo(centre.dtype).eps) * scale
    return jnp.where(near, log_density.sum(), -jnp.inf)


__all__ = [
    "EigenFactor",
    "checked_covariance",
    "checked_normal",
    "eigen_factor",
    "log_prob_on_support",
    "rounding",
]
