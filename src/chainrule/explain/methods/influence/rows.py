"""Training rows in chunks of one size, so that a loop over them is compiled once."""

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree


def length(rows: Tree) -> int:
    """How many rows a tree of arrays has."""
    return len(jax.tree.leaves(rows)[0])


def check_rows(where: str, train: Tree, test: Tree) -> None:
    """Raise unless the arrays of either have one row for each other's, and rows of both are of one shape.

    >>> check_rows("influence", (np.zeros((3, 2)), np.zeros(2)), (np.zeros((1, 2)), np.zeros(1)))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: influence(train): arrays of 3 and 2 rows
           give every array of a row: inputs and targets of one length
    """
    shapes = []
    for name, rows in (("train", train), ("test", test)):
        found = [np.shape(leaf) for leaf in jax.tree.leaves(rows)]
        counts = list(dict.fromkeys(shape[0] if shape else 0 for shape in found))
        if len(counts) != 1:
            raise ArgumentError(
                f"{where}({name}): arrays of {' and '.join(map(str, counts)) or 'no'} rows",
                remedy="give every array of a row: inputs and targets of one length",
            )
        shapes.append([shape[1:] for shape in found])
    if shapes[0] != shapes[1]:
        raise ArgumentError(
            f"{where}: rows of train have the shapes {shapes[0]}, those of test {shapes[1]}",
            remedy="give rows of one kind",
        )


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


__all__ = ["check_rows", "in_chunks", "length"]
