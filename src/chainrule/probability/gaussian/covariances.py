"""Means and covariance matrices that fit each other, and densities of normals that are flat.

A covariance may be singular: the normal distribution then lives on the affine space mean + range(covariance), and
N(m, 0) is the point mass at m. Such a distribution has no density in the whole space, but one on its support.

Reference: Rao, Linear Statistical Inference and Its Applications, 2nd edition, 1973, section 8a.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.covariances import Eigen
from chainrule.probability.distributions.matrices import checked_covariance
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.parameters import floating

Vector = Float[Array, " size"]
Matrix = Float[Array, "size size"]


def checked_matrix(where: str, name: str, values: Any) -> Matrix:
    """One covariance matrix as an array."""
    matrix = checked_covariance(where, name, values)
    if matrix.ndim != 2:
        raise ArgumentError(
            f"{where}({name}): a {name} is a square matrix, not an array of shape {matrix.shape}",
            remedy="for several: jax.vmap",
        )
    return matrix


def checked_normal(
    where: str, mean: Any, covariance: Any, names: tuple[str, str] = ("mean", "covariance")
) -> tuple[Vector, Matrix]:
    """Mean and covariance, or shift and precision, as arrays of one type that fit each other."""
    matrix = checked_matrix(where, names[1], covariance)
    vector = floating(mean)
    if vector.shape != matrix.shape[:1]:
        raise ArgumentError(
            f"{where}({names[0]}): shape {vector.shape} does not fit a {names[1]} of shape {matrix.shape}",
            remedy=f"give a {names[0]} of shape {matrix.shape[:1]}",
        )
    if not isinstance(vector, jax.core.Tracer) and not np.isfinite(np.asarray(vector)).all():
        index = int(np.argwhere(~np.isfinite(np.asarray(vector)))[0, 0])
        raise ArgumentError(
            f"{where}({names[0]}): entry {index} is {np.asarray(vector)[index]:g}, not finite"
        )
    dtype = jnp.promote_types(vector.dtype, matrix.dtype)
    return vector.astype(dtype), matrix.astype(dtype)


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
    return MultivariateNormal(centre, Eigen.of(matrix)).log_prob_on_support(point)


__all__ = ["checked_matrix", "checked_normal", "log_prob_on_support"]
