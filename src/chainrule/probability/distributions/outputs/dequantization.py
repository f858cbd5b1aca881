"""Levels as continuous numbers: uniform noise fills the gaps between them, so that a density is a likelihood of them.

Level `k` of `n` becomes `(k + u) / n` with `u` uniform on [0, 1). The mean log-density of that is at most the logarithm
of the probability which the density gives to the cells, so bits per dimension from it are an upper bound (Theis et al.,
2016).
"""

import math

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key


def dequantized(x: Float[Array, "*entries"], levels: int, key: Key) -> Float[Array, "*entries"]:
    """Levels that lie evenly between 0 and 1, each somewhere within its cell of [0, 1)."""
    noise = jax.random.uniform(key, x.shape, x.dtype)
    return (jnp.rint(x * (levels - 1)) + noise) / levels


def quantized(x: Float[Array, "*entries"], levels: int) -> Float[Array, "*entries"]:
    """The level in whose cell each number lies; the inverse of `dequantized`.

    >>> quantized(jnp.array([-0.2, 0.1, 0.4, 0.99]), levels=3).tolist()
    [0.0, 0.0, 0.5, 1.0]
    """
    return jnp.clip(jnp.floor(x * levels), 0, levels - 1) / (levels - 1)


def log_cell_ratio(levels: int) -> float:
    """What to add, for each entry, to a log-density of dequantised levels to state it in the units of the levels.

    Cells are `1 / n` wide, levels `1 / (n - 1)` apart; other likelihoods of levels are stated per distance of levels.

    >>> log_density = 0.0 + log_cell_ratio(256)  # of a uniform density: 8 bits, whatever the units
    >>> round((math.log(255) - log_density) / math.log(2), 9)
    8.0
    """
    return math.log((levels - 1) / levels)


__all__ = ["dequantized", "log_cell_ratio", "quantized"]
