"""Training rows in chunks of one size, so that a loop over them is compiled once."""

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Tree


def length(rows: Tree) -> int:
    """How many rows a tree of arrays has."""
    return len(jax.tree.leaves(rows)[0])


def in_chunks(rows: Tree, size: int) -> tuple[Tree, Array]:
    """Rows in chunks of one size, the last filled up from the start, and which rows are meant.

    >>> chunks, ours = in_chunks(np.arange(3), 2)
    >>> chunks.tolist(), ours.tolist()
    ([[0, 1], [2, 0]], [[True, True], [True, False]])
    """
    count = length(rows)
    many = -(-count // size)
    index = np.arange(many * size)
    ours = (index < count).reshape(many, size)
    chunks = jax.tree.map(
        lambda leaf: jnp.asarray(np.asarray(leaf)[index % count].reshape(many, size, *leaf.shape[1:])), rows
    )
    return chunks, jnp.asarray(ours)


__all__ = ["in_chunks", "length"]
