"""Losses from logits and values, computed in float32 or wider; each returns one number per example."""

import math

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int


def cross_entropy(
    logits: Float[Array, "*batch classes"], labels: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """Minus the log-probability of the labelled class, without overflow for any logits.

    >>> float(cross_entropy(jnp.array([[1000.0, 0.0]]), jnp.array([1]))[0])
    1000.0
    """
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    chosen = jnp.take_along_axis(wide, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(wide, axis=-1) - chosen


def squared_error(
    predicted: Float[Array, "batch *shape"], target: Float[Array, "batch *shape"]
) -> Float[Array, " batch"]:
    """Squared differences averaged over the entries of each example."""
    wide = predicted.astype(jnp.promote_types(predicted.dtype, jnp.float32))
    return jnp.square(wide - target).reshape(wide.shape[0], math.prod(wide.shape[1:])).mean(axis=-1)


__all__ = ["cross_entropy", "squared_error"]
