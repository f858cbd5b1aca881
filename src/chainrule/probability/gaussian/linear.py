"""Bayes' rule for normal variables observed through a linear map with normal noise."""

import jax.numpy as jnp

from chainrule.core.types import Array, Float


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


__all__ = ["linear_posterior"]
