"""Bayes' rule for normal variables observed through a linear map with normal noise, by precisions or by covariances."""

from typing import Any

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.gaussian.algebra import Moments
from chainrule.probability.gaussian.conditioning import solve_covariance
from chainrule.probability.gaussian.covariances import checked_matrix, checked_normal


def linear_posterior(
    mean: Float[Array, " hidden"],
    precision: Float[Array, "hidden hidden"],
    matrix: Float[Array, "seen hidden"],
    shift: Float[Array, " seen"],
    noise_precision: Float[Array, "seen seen"],
    y: Float[Array, " seen"],
) -> tuple[Float[Array, " hidden"], Float[Array, "hidden hidden"]]:
    """The posterior of x, where x ~ N(mean, precision⁻¹), y|x ~ N(matrix x + shift, noise_precision⁻¹).

    Returns mean and covariance of x given y (Bishop, 2006, section 2.3.3).
    """
    weighted = matrix.T @ noise_precision
    covariance = jnp.linalg.inv(precision + weighted @ matrix)
    return covariance @ (weighted @ (y - shift) + precision @ mean), covariance


def low_rank_update(mean: Any, covariance: Any, matrix: Any, noise_covariance: Any, y: Any) -> Moments:
    """N(mean, covariance) given y = matrix x + noise, where few things are seen of many hidden variables.

    The same posterior as `linear_posterior`, at the price of a solve with as many unknowns as there are
    observations: the covariance changes by a matrix of their rank (Woodbury's identity; the update of a Kalman
    filter). Noise may have covariance zero.

    >>> found = low_rank_update([0.0, 0.0], jnp.eye(2), [[1.0, 0.0]], [[1.0]], [2.0])
    >>> found.mean.round(3).tolist(), found.covariance.round(3).tolist()
    ([1.0, 0.0], [[0.5, 0.0], [0.0, 1.0]])
    """
    centre, spread = checked_normal("low_rank_update", mean, covariance)
    noise = checked_matrix("low_rank_update", "noise_covariance", noise_covariance)
    seen, values = floating(matrix), floating(y)
    if seen.shape != (len(noise), len(centre)) or values.shape != noise.shape[:1]:
        raise ArgumentError(
            f"low_rank_update: matrix of shape {seen.shape}, noise_covariance of shape {noise.shape} and y of "
            f"shape {values.shape} do not fit {len(centre)} hidden variables",
            remedy="with k observations: matrix (k, hidden), noise_covariance (k, k), y (k,)",
        )
    across = seen @ spread
    solved = solve_covariance(
        "low_rank_update", across @ seen.T + noise, jnp.column_stack([across, values - seen @ centre])
    )
    return Moments(centre + across.T @ solved[:, -1], spread - across.T @ solved[:, :-1])


__all__ = ["linear_posterior", "low_rank_update"]
