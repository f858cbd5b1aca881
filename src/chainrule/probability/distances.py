"""Distances between points."""

import jax.numpy as jnp

from chainrule.core.types import Array, Float


def squared_distances(
    a: Float[Array, "rows size"], b: Float[Array, "columns size"]
) -> Float[Array, "rows columns"]:
    """`|a_i - b_j|²` of every pair; never negative, and zero for equal points.

    >>> squared_distances(jnp.array([[0.0], [1.0]]), jnp.array([[3.0]])).tolist()
    [[9.0], [4.0]]
    """
    return jnp.square(a[:, None, :] - b[None, :, :]).sum(axis=-1)


__all__ = ["squared_distances"]
