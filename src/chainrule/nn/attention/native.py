"""Attention in native code, for single precision on processors with vector registers.

XLA runs attention over short texts as many small matrix products with tables of scores written and read between them: a
quarter of the time of a training step. Here a head is worked off block by block while everything is in a core's cache,
hidden halves of causal tables are left out, and the backward pass computes weights again from two numbers a query
instead of reading a table (Dao et al., 2022). The programs are in `chainrule.nn.native.attention`.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.attention.masks import Causal, Mask
from chainrule.nn.attention.softmax import softmax
from chainrule.nn.native import attention, availability
from chainrule.nn.native.attention import AttentionShape
from chainrule.nn.native.availability import Registers
from chainrule.nn.native.matmul import TILE
from chainrule.nn.native.operations import operation

_MOST_WASTE = 1.5
"""Rows are filled up to whole vectors and tiles if that makes no more than so many times the work."""


def attend(query: Array, key: Array, value: Array, mask: Mask | None, scale: float) -> Array:
    """See `chainrule.nn.attention.attend`; for what `fast` says yes to."""
    registers = availability.registers()
    assert registers is not None
    time, shown = query.shape[2], key.shape[2]
    sizes = _filled(time, shown, mask is not None, registers)

    def laid(x: Array, rows: int) -> Array:
        return jnp.pad(x.swapaxes(1, 2), ((0, 0), (0, rows - x.shape[2]), (0, 0), (0, 0)))

    operands = (laid(x, rows) for x, rows in ((query, sizes[0]), (key, sizes[1]), (value, sizes[1])))
    out = _attention(*operands, causal=mask is not None, scale=scale, shown=shown)
    return out[:, :time].swapaxes(1, 2)


def fast(query: Array, key: Array, value: Array, mask: Mask | None, bias: object | None) -> bool:
    """Whether there is a program for this attention on this machine."""
    registers = availability.registers() if jax.default_backend() == "cpu" else None
    if (
        registers is None
        or query.ndim != 4
        or not query.size
        or not key.size
        or key.shape != value.shape
        or query.shape[1] != key.shape[1]
        or not (query.dtype == key.dtype == value.dtype == jnp.float32)
        or bias is not None
        or not (mask is None or isinstance(mask, Causal))
    ):
        return False
    batch, count, time, size = query.shape
    queries, keys = _filled(time, key.shape[2], mask is not None, registers)
    given = AttentionShape(batch, count, queries, keys, size, mask is not None, 1.0, key.shape[2])
    same = mask is None or time == key.shape[2]
    return same and queries * keys <= _MOST_WASTE * time * key.shape[2] and attention.fits(given, registers)


def _filled(queries: int, keys: int, causal: bool, registers: Registers) -> tuple[int, int]:
    """Queries and keys, filled up to whole vectors and tiles; under a causal mask there are as many of both.

    >>> _filled(196, 196, False, Registers(16, 32)), _filled(50, 50, True, Registers(16, 32))
    ((208, 200), (64, 64))
    """
    step = registers.lanes if causal else TILE[32]
    return -(-queries // registers.lanes) * registers.lanes, -(-keys // step) * step


def _heads(query: Any, key: Any, causal: bool, scale: float, shown: int) -> AttentionShape:
    batch, queries, count, size = query.shape
    return AttentionShape(batch, count, queries, key.shape[1], size, causal, scale, shown)


# ---------------------------------------------------------------------- the definition, of (batch, time, heads, size)


def _gathered(query: Array, key: Array, value: Array, *, causal: bool, scale: float, shown: int) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", query * jnp.asarray(scale, query.dtype), key)
    queries, keys = scores.shape[-2:]
    seen = jnp.tri(queries, keys, dtype=bool) if causal else (jnp.arange(keys) < shown)[None, :]
    return jnp.einsum("bhqk,bkhd->bqhd", softmax(scores, where=seen), value)


# ---------------------------------------------------------------------- programs


def _level(query: Any, key: Any, value: Any, **how: Any) -> tuple[int, ...]:
    """The largest score of each query and one over the sum of powers."""
    del key, value, how
    batch, queries, count, _ = query.shape
    return batch, count, 2, queries


_attention = operation(
    "attention",
    _gathered,
    _level,
    lambda query, key, *others, **how: _heads(query, key, **how),
    (attention.attention, attention.gradients),
    ("causal", "scale", "shown"),
)

__all__ = ["attend", "fast"]
