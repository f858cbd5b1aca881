"""The training examples that a machine on a kernel keeps: all of them, or some drawn at random."""

from typing import Literal

import jax
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.types import Key
from chainrule.data.batches import Batch


def room(points: int | Literal["auto"]) -> int:
    """How many examples a model has room for; settings that no data were asked about yet have one."""
    return 1 if points == "auto" else points


def drawn(key: Key, there: int, kept: int) -> Int[np.ndarray, " kept"]:
    """The numbers of the examples that are kept, in order.

    >>> drawn(jax.random.key(0), 3, 5).tolist(), len(drawn(jax.random.key(0), 10, 5))
    ([0, 1, 2], 5)
    """
    if there <= kept:
        return np.arange(there)
    return np.sort(np.asarray(jax.random.permutation(key, there))[:kept])


def part(examples: Batch, key: Key, kept: int) -> Batch:
    """The examples that are kept, as arrays of the host; those of weight zero are not among them."""
    there = np.arange(len(examples.x))
    if examples.weights is not None:
        there = there[np.asarray(examples.weights) > 0]
    some = there[drawn(key, len(there), kept)]
    chosen: Batch = jax.tree.map(lambda a: np.asarray(a)[some], examples)
    return chosen


def filled(found: Float[np.ndarray, "rows ..."], room: int) -> Float[np.ndarray, "room ..."]:
    """Rows of a model, and zeros where it has room for more.

    >>> filled(np.ones((1, 2)), 2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    return np.concatenate([found, np.zeros((room - len(found), *found.shape[1:]))])


def spread(there: int, most: int) -> Int[np.ndarray, " some"]:
    """Numbers of examples spread evenly over all of them, at most so many.

    >>> spread(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.linspace(0, there - 1, min(most, there)).astype(int)


__all__ = ["drawn", "filled", "part", "room", "spread"]
