"""Normal distributions of values on a grid: the probability of the bin around each."""

from jaxtyping import Int

from chainrule.core.types import Array, Float
from chainrule.probability.distributions.discretized import bins
from chainrule.probability.distributions.normal import log_interval


def discretized_log_prob(
    mean: Float[Array, "batch ..."],
    std: float,
    index: Int[Array, "batch ..."],
    values: Float[Array, " values"],
) -> Float[Array, " batch"]:
    """Log-probability of each example, whose entries are `values[index]`, under a normal density cut into bins.

    Bins end halfway between two values; the outer ones are open.

    >>> import jax.numpy as jnp
    >>> float(discretized_log_prob(jnp.zeros((1, 1)), 1.0, jnp.array([[0]]), jnp.array([-1.0, 1.0]))[0])
    -0.693147...
    """
    low, high = bins(values, index)
    logs = log_interval((low - mean) / std, (high - mean) / std)
    return logs.sum(axis=tuple(range(1, logs.ndim)))


__all__ = ["discretized_log_prob"]
