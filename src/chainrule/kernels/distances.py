"""Squared distances of all pairs as one matrix product, where differences would be slow.

`|x - y|² = |x|² + |y|² - 2 x·y` loses digits where points lie close together and far from the origin, so both are
shifted to the mean of the second first, squares that are rounding alone are zero, and points of few coordinates are
subtracted after all. Derivatives are those of the exact expression, at equal points too.
"""

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.probability.distances import squared_distances

_FEW = 4
"""Coordinates up to which differences are not slower."""


def pairwise_squares(
    x: Float[Array, "rows features"], y: Float[Array, "columns features"]
) -> Float[Array, "rows columns"]:
    """`|x_i - y_j|²` of every pair, never negative.

    >>> pairwise_squares(jnp.array([[0.0], [1.0]]), jnp.array([[3.0]])).tolist()
    [[9.0], [4.0]]
    """
    if x.shape[1] <= _FEW:
        return squared_distances(x, y)
    middle = jax.lax.stop_gradient(y.mean(axis=0, keepdims=True))
    x, y = x - middle, y - middle
    own = jnp.square(x).sum(axis=1)[:, None] + jnp.square(y).sum(axis=1)[None, :]
    squares = own - 2 * jnp.matmul(x, y.T, precision="highest")
    rounding = 16 * jnp.finfo(squares.dtype).eps * own
    return squares - jax.lax.stop_gradient(jnp.where(squares > rounding, 0.0, squares))


def root(squares: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Distances; the derivative at distance zero is zero instead of infinite."""
    apart = squares > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0)


__all__ = ["pairwise_squares", "root"]
