"""Normal distributions with the same variance in every direction, one for each example of a batch."""

import math
from typing import Any

import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.probability.distributions import normal


def log_density(x: Float[Array, "batch ..."], mean: Any, std: Any) -> Float[Array, " batch"]:
    """Logarithm of the density of N(mean, std² I) for each example; `std` is one number, or one for each.

    >>> round(float(log_density(jnp.zeros((1, 1)), 0.0, 1.0)[0]), 4)
    -0.9189
    """
    deviation = jnp.asarray(std)
    wide = deviation if deviation.ndim == 0 else deviation.reshape(-1, *(1,) * (x.ndim - 1))
    return normal.log_density(x, mean, wide).sum(axis=tuple(range(1, x.ndim)))


def kl_from_centred(mean: Float[Array, "batch ..."], std: Any, prior_std: Any) -> Float[Array, " batch"]:
    """KL(N(mean, std² I) || N(0, prior_std² I)) for each example, in nats.

    >>> kl_from_centred(jnp.zeros((1, 3)), 1.0, 1.0).tolist()
    [0.0]
    """
    variance = jnp.square(prior_std)
    ratio = jnp.square(std) / variance
    square = jnp.square(mean).sum(axis=tuple(range(1, mean.ndim))) / variance
    return 0.5 * (square + math.prod(mean.shape[1:]) * (ratio - 1 - jnp.log(ratio)))


__all__ = ["kl_from_centred", "log_density"]
