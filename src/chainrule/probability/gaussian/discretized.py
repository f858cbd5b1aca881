"""Normal distributions of values on a grid: the probability of the bin around each."""

import jax
import jax.numpy as jnp
from jaxtyping import Int

from chainrule.core.types import Array, Float


def discretized_log_prob(
    mean: Float[Array, "batch ..."],
    std: float,
    index: Int[Array, "batch ..."],
    values: Float[Array, " values"],
) -> Float[Array, " batch"]:
    """Log-probability of each example, whose entries are `values[index]`, under a normal density cut into bins.

    Bins end halfway between two values; the outer ones are open.

    >>> float(discretized_log_prob(jnp.zeros((1, 1)), 1.0, jnp.array([[0]]), jnp.array([-1.0, 1.0]))[0])
    -0.693147...
    """
    edges = (values[1:] + values[:-1]) / 2
    infinite = jnp.full((1,), jnp.inf, values.dtype)
    upper = jnp.concatenate([edges, infinite])[index]
    lower = jnp.concatenate([-infinite, edges])[index]
    high, low = (upper - mean) / std, (lower - mean) / std
    # In the right tail both cumulative probabilities round to one: reflect it to the left.
    flip = low > 0
    high, low = jnp.where(flip, -low, high), jnp.where(flip, -high, low)
    top, bottom = jax.scipy.special.log_ndtr(high), jax.scipy.special.log_ndtr(low)
    logs = top + jnp.log1p(-jnp.exp(jnp.minimum(bottom - top, -1e-30)))
    return logs.sum(axis=tuple(range(1, logs.ndim)))


__all__ = ["discretized_log_prob"]
