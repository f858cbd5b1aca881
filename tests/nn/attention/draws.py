"""Arrays for tests of attention, the same in every process."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def draw(*shape: int, seed: int = 0) -> jax.Array:
    """Standard normal numbers in double precision."""
    return jnp.asarray(np.random.default_rng([seed, *shape]).normal(size=shape))


def randomised(layer: Any, size: float = 0.3) -> Any:
    """The layer with noise on every parameter, so that no bias or scale is trivial."""
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    noisy = [
        jnp.asarray(np.asarray(leaf) + size * np.random.default_rng([i, *leaf.shape]).normal(size=leaf.shape))
        for i, leaf in enumerate(leaves)
    ]
    return eqx.combine(jax.tree.unflatten(tree, noisy), rest)


def distance(a: Any, b: Any) -> float:
    """The largest difference."""
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())
