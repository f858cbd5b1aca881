"""Distance of generated examples from real ones: the number by which games are judged, because their losses cannot be.

The energy distance `2 E|x - y| - E|x - x'| - E|y - y'|` (Székely and Rizzo, 2013) is zero for equal distributions and
positive for all others. It needs no features, no bandwidth and no second network. Its estimate here is unbiased:
between two samples of one distribution it is zero on average, and now and then a little less.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Scalar

_NEAR = 20
"""Near a real example is within the distance of one in so many of the others."""


def distances(a: Float[Array, "rows size"], b: Float[Array, "columns size"]) -> Float[Array, "rows columns"]:
    """`|a_i - b_j|` of every pair, by inner products; of equal points nearly zero."""
    centre = a.mean(axis=0, keepdims=True)
    a, b = a - centre, b - centre  # little cancels around the middle
    squares = jnp.square(a).sum(axis=1)[:, None] + jnp.square(b).sum(axis=1)[None, :]
    squared = squares - 2 * jnp.matmul(a, b.T, precision=jax.lax.Precision.HIGHEST)
    apart = squared > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)


def rows(x: Float[Array, "n ..."]) -> Float[Array, "n size"]:
    """Examples as vectors, in at least single precision."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32)).reshape(len(x), -1)


def energy_distance(real: Float[Array, "n ..."], fake: Float[Array, "m ..."]) -> Scalar:
    """The unbiased estimate from two samples.

    >>> float(energy_distance(jnp.array([[0.0], [1.0]]), jnp.array([[3.0], [5.0]])))
    4.0
    """
    x, y = rows(real), rows(fake)
    return 2 * distances(x, y).mean() - spread(x) - spread(y)


def spread(x: Float[Array, "n ..."]) -> Scalar:
    """The mean distance between two different examples of a sample."""
    flat = rows(x)
    apart = distances(flat, flat)
    off = 1 - jnp.eye(len(flat), dtype=apart.dtype)  # what rounding leaves of zero distances does not count
    return (off * apart).sum() / max(1, len(flat) * (len(flat) - 1))


def coverage_and_precision(real: Float[Array, "n ..."], fake: Float[Array, "m ..."]) -> tuple[Scalar, Scalar]:
    """Shares of real examples with a generated one near, and of generated ones near a real one (Naeem et al., 2020).

    Near means nearer than all but a twentieth of the real examples are to it, whatever their number, so that the shares
    tell of modes, not of how wide each of them is.
    """
    x, y = rows(real), rows(fake)
    count = min(max(1, len(x) // _NEAR), len(x) - 1)
    if count < 1:
        return jnp.ones((), x.dtype), jnp.ones((), x.dtype)
    # The nearest of all is the example itself.
    radius = -jax.lax.top_k(-distances(x, x), count + 1)[0][:, -1]
    near: Bool[Array, "n m"] = distances(x, y) <= radius[:, None]
    return near.any(axis=1).mean(dtype=x.dtype), near.any(axis=0).mean(dtype=x.dtype)


__all__ = ["coverage_and_precision", "distances", "energy_distance", "rows", "spread"]
