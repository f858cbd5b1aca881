"""The training examples that a machine on a kernel keeps: all of them, or some drawn at random."""

from typing import Literal

import jax
import numpy as np
from jaxtyping import Int

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
    """The examples that are kept, as arrays of the host."""
    some = drawn(key, len(examples.x), kept)
    chosen: Batch = jax.tree.map(lambda a: np.asarray(a)[some], examples)
    return chosen


def spread(there: int, most: int) -> Int[np.ndarray, " some"]:
    """Numbers of examples spread evenly over all of them, at most so many.

    >>> spread(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.linspace(0, there - 1, min(most, there)).astype(int)


__all__ = ["drawn", "part", "room", "spread"]
