"""Normal distributions with the same variance in every direction, one for each example of a batch."""

from typing import Any

import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.probability.distributions import normal


def log_density(x: Float[Array, "batch ..."], mean: Any, std: Any) -> Float[Array, " batch"]:
    """Logarithm of the density of N(mean, std² I) for each example; `std` is one number, or one for each.

    >>> round(float(log_density(jnp.zeros((1, 1)), 0.0, 1.0)[0]), 4)
    -0.9189
    """
    return normal.log_density(x, mean, _beside(std, x)).sum(axis=tuple(range(1, x.ndim)))


def kl_from_centred(mean: Float[Array, "batch ..."], std: Any, prior_std: Any) -> Float[Array, " batch"]:
    """KL(N(mean, std² I) || N(0, prior_std² I)) for each example, in nats.

    >>> kl_from_centred(jnp.zeros((1, 3)), 1.0, 1.0).tolist()
    [0.0]
    """
    each = normal.kl(mean, _beside(std, mean), 0.0, _beside(prior_std, mean))
    return each.sum(axis=tuple(range(1, mean.ndim)))


def _beside(std: Any, x: Array) -> Array:
    """One number, or one for each example with axes for its entries."""
    deviation = jnp.asarray(std)
    return deviation if deviation.ndim == 0 else deviation.reshape(-1, *(1,) * (x.ndim - 1))


__all__ = ["kl_from_centred", "log_density"]
