"""Masks that make a dense network autoregressive: its outputs for an entry see the entries before it alone.

Every hidden unit has a degree m: it sees entries up to m, and outputs after m see it (Germain et al., 2015). Degrees
run evenly over 1 to D - 1. Entries may be cut into chunks that do not see each other.
"""

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Int


def autoregressive_masks(
    entries: int,
    widths: Sequence[int],
    numbers: int,
    chunk: int | None = None,
    degrees: Sequence[Int[Array, " _"]] | None = None,
) -> list[Bool[Array, "_ _"]]:
    """One for each layer, shaped like its weights: `m >= d` into hidden units, `d > m` out of them.

    `widths` are those of the hidden layers, `numbers` come out for every entry; with `chunk`, entries see only those of
    their own chunk of so many. `degrees` are those of hidden units, where they are not to run evenly; a unit of degree
    0 sees no entry and is seen by all.

    >>> autoregressive_masks(3, [], 1)[0].astype(int)
    Array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]], dtype=int32)
    >>> autoregressive_masks(4, [], 1, chunk=2)[0].astype(int).sum()
    Array(2, dtype=int32)
    """
    inputs = jnp.arange(1, entries + 1)
    if degrees is None:
        degrees = [1 + jnp.arange(width) % max(entries - 1, 1) for width in widths]
    every = [inputs, *degrees]
    outputs = jnp.repeat(inputs, numbers)
    hidden = [
        (a[:, None] <= b[None, :]) & _together(a, b, chunk or entries) for a, b in itertools.pairwise(every)
    ]
    last = every[-1]
    return [*hidden, (last[:, None] < outputs[None, :]) & _together(last, outputs, chunk or entries)]


def _together(a: Array, b: Array, chunk: int) -> Bool[Array, "_ _"]:
    def of(degrees: Array) -> Array:
        return jnp.maximum(degrees - 1, 0) // chunk

    return of(a)[:, None] == of(b)[None, :]


__all__ = ["autoregressive_masks"]
