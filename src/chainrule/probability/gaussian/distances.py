"""Divergences and distances between two normal distributions, in closed form.

Rényi's divergence has one for every order; Bhattacharyya's and Hellinger's distance and chi-square follow from it.
Each function takes mean and covariance of the one, then of the other.

References: Gil, Alajaji and Linder, Rényi divergence measures for commonly used univariate continuous distributions,
Information Sciences 249, 2013; Dowson and Landau, The Fréchet distance between multivariate normal distributions,
Journal of Multivariate Analysis 12, 1982.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.matrices import rounding
from chainrule.probability.gaussian.conditioning import cholesky_factor, solve_covariance
from chainrule.probability.gaussian.covariances import checked_normal


def renyi(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any, alpha: float) -> Scalar:
    """Rényi's divergence log E_q[(p/q)^alpha] / (alpha - 1) in nats, of any finite order but 1, where it is KL.

    Infinite where alpha C' + (1 - alpha) C is no covariance: the tails of q are too light.

    >>> round(float(renyi([0.0], [[1.0]], [3.0], [[1.0]], 0.5)), 6)  # alpha/2 * 9
    2.25
    >>> float(renyi([0.0], [[4.0]], [0.0], [[1.0]], 2.0))
    inf
    """
    if not 0 <= alpha < math.inf or alpha == 1:
        raise ArgumentError(
            f"renyi(alpha={alpha}): normals have this closed form for orders from 0, finite and other than 1",
            remedy="order 1 is the Kullback-Leibler divergence: probability.kl" if alpha == 1 else "",
        )
    m, c, n, d = _two("renyi", mean, covariance, other_mean, other_covariance)
    if alpha == 0:
        return jnp.zeros((), m.dtype)  # both have the whole space for support
    middle = alpha * d + (1 - alpha) * c
    least = jnp.linalg.eigvalsh(middle)[0] if middle.size else jnp.ones((), m.dtype)
    exists = least > rounding(middle) * jnp.abs(jnp.diag(middle)).max(initial=0.0)
    safe = jnp.where(exists, middle, jnp.eye(len(m), dtype=m.dtype))
    square = (m - n) @ solve_covariance("renyi", safe, m - n)
    logs = (
        _log_determinant("renyi", safe)
        - (1 - alpha) * _log_determinant("renyi", c)
        - alpha * _log_determinant("renyi", d)
    )
    return jnp.where(exists, alpha * square / 2 - logs / (2 * (alpha - 1)), jnp.inf)


def bhattacharyya(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any) -> Scalar:
    """-log of the integral of sqrt(p q): half of Rényi's divergence of order 1/2.

    >>> float(bhattacharyya([0.0], [[1.0]], [2.0], [[1.0]]))
    0.5
    """
    return renyi(mean, covariance, other_mean, other_covariance, 0.5) / 2


def hellinger(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any) -> Scalar:
    """sqrt(1 - integral of sqrt(p q)), between 0 and 1.

    >>> round(float(hellinger([0.0], [[1.0]], [2.0], [[1.0]])), 4)
    0.6273
    """
    square = -jnp.expm1(-bhattacharyya(mean, covariance, other_mean, other_covariance))
    positive = square > 0  # the root has no slope at zero, where the distance has its minimum
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def chi_square(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any) -> Scalar:
    """E_q[(p/q - 1)²] (Pearson); infinite where p has more than twice the variance of q in some direction.

    >>> round(float(chi_square([0.0], [[1.0]], [1.0], [[1.0]])), 4)  # e - 1
    1.7183
    """
    return jnp.expm1(renyi(mean, covariance, other_mean, other_covariance, 2.0))


def wasserstein_2(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any) -> Scalar:
    """2-Wasserstein distance: the root of |m - m'|² + tr(C + C' - 2 (C'½ C C'½)½). Covariances may be singular.

    >>> float(wasserstein_2([0.0], [[1.0]], [3.0], [[1.0]]))
    3.0
    """
    m, c, n, d = _two("wasserstein_2", mean, covariance, other_mean, other_covariance)
    square = jnp.square(m - n).sum() + jnp.trace(c) + jnp.trace(d) - 2 * _overlap(c, d)
    # Equal distributions leave rounding of either sign, and the root has no slope there.
    positive = square > rounding(c) * (jnp.trace(c) + jnp.trace(d))
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


@jax.custom_jvp
def _overlap(c: Float[Array, "size size"], d: Float[Array, "size size"]) -> Scalar:
    """tr (d½ c d½)½."""
    root, _ = _roots(d)
    return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(root @ c @ root), 0.0)).sum()


@_overlap.defjvp
def _overlap_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """Half of the optimal maps between the two, one each way: no derivative of eigenvectors, which ties would spoil."""
    c, d = primals
    change = (optimal_matrix(c, d) * tangents[0]).sum() + (optimal_matrix(d, c) * tangents[1]).sum()
    return _overlap(c, d), change / 2


def optimal_matrix(c: Float[Array, "size size"], d: Float[Array, "size size"]) -> Float[Array, "size size"]:
    """The matrix that carries N(0, c) to N(0, d) with least squared distance: c^-½ (c½ d c½)½ c^-½.

    >>> optimal_matrix(jnp.eye(1), 4 * jnp.eye(1)).tolist()
    [[2.0]]
    """
    root, inverse = _roots(c)
    middle, _ = _roots(root @ d @ root)
    return inverse @ middle @ inverse


def _roots(matrix: Array) -> tuple[Array, Array]:
    """Square root of a covariance, and its pseudo-inverse."""
    values, vectors = jnp.linalg.eigh(matrix)
    kept = values > rounding(matrix) * jnp.abs(values).max(initial=0.0)
    root = jnp.sqrt(jnp.where(kept, values, 1.0))
    return (
        (vectors * jnp.where(kept, root, 0.0)[None]) @ vectors.T,
        (vectors * jnp.where(kept, 1 / root, 0.0)[None]) @ vectors.T,
    )


def _log_determinant(where: str, covariance: Array) -> Array:
    return 2 * jnp.log(jnp.diag(cholesky_factor(where, covariance))).sum()


def _two(where: str, mean: Any, covariance: Any, other_mean: Any, other: Any) -> tuple[Array, ...]:
    first = checked_normal(where, mean, covariance)
    second = checked_normal(where, other_mean, other, ("other_mean", "other_covariance"))
    if first[0].shape != second[0].shape:
        raise ArgumentError(
            f"{where}: one normal has {len(first[0])} variables, the other {len(second[0])}",
            remedy="compare distributions of as many variables",
        )
    dtype = jnp.promote_types(first[0].dtype, second[0].dtype)
    return tuple(array.astype(dtype) for array in (*first, *second))


__all__ = ["bhattacharyya", "chi_square", "hellinger", "optimal_matrix", "renyi", "wasserstein_2"]
