"""Rows of the Gram matrix, computed when they are first needed and kept while there is room.

A solver asks for the rows of a few examples again and again. They are computed many at a time as one matrix product;
the ones not asked for longest make room for others. The whole matrix is held only where it fits.
"""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int
from chainrule.kernels.kernel import Kernel, Points

CHUNK = 64
"""Rows that are computed at once."""
TOGETHER = 8
"""Rows that are added to a gradient in one pass over it."""


@final
class KernelRows(NamedTuple):
    """The rows that are kept."""

    kept: Float[Array, "slots rows"]
    slot: Int[Array, " rows"]
    """Where the row of an example is kept; -1 where it is not."""
    owner: Int[Array, " slots"]
    """Whose row a slot holds; -1 for none."""
    used: Int[Array, " slots"]
    """When it was last asked for."""


def empty(points: Points, slots: int) -> KernelRows:
    """Room for rows, none of them there yet; in the precision of the points."""
    rows = len(points)
    return KernelRows(
        jnp.zeros((slots, rows), points.dtype),
        jnp.full(rows, -1, jnp.int32),
        jnp.full(slots, -1, jnp.int32),
        jnp.full(slots, -1, jnp.int32),
    )


def fetched(
    kernel: Kernel,
    points: Points,
    rows: KernelRows,
    wanted: Int[Array, " wanted"],
    real: Bool[Array, " wanted"],
    now: Array,
) -> KernelRows:
    """With the rows of the wanted examples among those kept; entries that are not real are passed over."""
    held = rows.slot[wanted]
    used = rows.used.at[jnp.where(held >= 0, held, len(rows.used))].set(now, mode="drop")
    missing = real & (held < 0)
    count = missing.sum()
    (order,) = jnp.nonzero(missing, size=_up(len(wanted)), fill_value=0)
    new = wanted[order]
    # Rows that are wanted now were marked as used, so that none of them makes room for another.
    slots = jax.lax.top_k(-used, min(len(order), len(used)))[1]
    slots = jnp.pad(slots, (0, len(order) - len(slots)))
    live = jnp.arange(len(order)) < count
    before = rows.owner[slots]
    slot = rows.slot.at[jnp.where(live & (before >= 0), before, len(points))].set(-1, mode="drop")
    slot = slot.at[jnp.where(live, new, len(points))].set(slots.astype(jnp.int32), mode="drop")
    at = jnp.where(live, slots, len(used))
    owner = rows.owner.at[at].set(new.astype(jnp.int32), mode="drop")

    def compute(chunk: Array, kept: Array) -> Array:
        first = chunk * CHUNK
        mine = jax.lax.dynamic_slice_in_dim(new, first, CHUNK)
        tile = kernel.tile(points[mine], points).astype(kept.dtype)

        def put(i: Array, kept: Array) -> Array:
            return jax.lax.dynamic_update_slice(
                kept, tile[i][None, :], (slots[first + i], jnp.zeros_like(slots[0]))
            )

        return jax.lax.fori_loop(0, jnp.minimum(CHUNK, count - first), put, kept)

    kept = jax.lax.fori_loop(0, -(-count // CHUNK), compute, rows.kept)
    return KernelRows(kept, slot, owner, used.at[at].set(now, mode="drop"))


def added(
    rows: KernelRows,
    gradient: Float[Array, " rows"],
    wanted: Int[Array, " wanted"],
    by: Float[Array, " wanted"],
) -> Array:
    """The gradient with the wanted rows added, each so many times; those of zero times are not read."""
    size = -(-len(wanted) // TOGETHER) * TOGETHER
    (order,) = jnp.nonzero(by, size=size, fill_value=len(by))
    times = jnp.append(by, jnp.zeros(1, by.dtype))[order]
    slots = jnp.append(rows.slot[wanted], jnp.zeros(1, jnp.int32))[order]

    def add(part: Array, gradient: Array) -> Array:
        for i in range(TOGETHER):
            one = jax.lax.dynamic_index_in_dim(rows.kept, slots[part * TOGETHER + i], keepdims=False)
            gradient = gradient + times[part * TOGETHER + i] * one.astype(gradient.dtype)
        return gradient

    return jax.lax.fori_loop(0, -(-(by != 0).sum() // TOGETHER), add, gradient)


def _up(size: int) -> int:
    return -(-size // CHUNK) * CHUNK


__all__ = ["KernelRows", "added", "empty", "fetched"]
