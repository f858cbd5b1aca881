"""Running many products of one kind: all at once, or in batches that fit a memory budget."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array


def basis_map(product: Callable[[Array], Array], size: int, dtype: Any, chunk: int) -> Array:
    """`product` of every unit vector of length `size`, stacked along the first axis, `chunk` of them at a time.

    Unit vectors are made inside each batch, so no identity matrix is held when the chunk is smaller than `size`.
    """
    if chunk >= size:
        return jax.vmap(product)(jnp.eye(size, dtype=dtype))
    return index_map(lambda i: product((jnp.arange(size) == i).astype(dtype)), jnp.arange(size), chunk)


def index_map(product: Callable[[Any], Array], indices: Any, chunk: int) -> Array:
    """`product` of every index (or tuple of indices) along the first axis, `chunk` at a time."""
    count = jax.tree.leaves(indices)[0].shape[0]
    if chunk >= count:
        return jax.vmap(product)(indices)
    return jax.lax.map(product, indices, batch_size=chunk)


__all__ = ["basis_map", "index_map"]
