"""Attention in the machine's own instructions, for single precision on processors with vector registers.

XLA runs attention over short texts as many small matrix products with tables of scores written and read between them: a
quarter of the time of a training step. Here a head is worked off block by block while everything is in a core's cache,
hidden halves of causal tables are left out, and the backward pass computes weights again from two numbers a query
instead of reading a table (Dao et al., 2022). The programs are in `chainrule.nn.kernels.heads`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.attention.masks import Causal, Mask
from chainrule.nn.attention.softmax import softmax
from chainrule.nn.kernels import heads, native
from chainrule.nn.kernels.heads import Heads
from chainrule.nn.kernels.operations import operation


def attend(query: Array, key: Array, value: Array, mask: Mask | None, scale: float) -> Array:
    """See `chainrule.nn.attention.attend`; for what `fast` says yes to."""
    operands = (x.swapaxes(1, 2) for x in (query, key, value))
    return _attention(*operands, causal=mask is not None, scale=scale).swapaxes(1, 2)


def fast(query: Array, key: Array, value: Array, mask: Mask | None, bias: object | None) -> bool:
    """Whether there is a program for this attention on this machine."""
    machine = native.machine() if jax.default_backend() == "cpu" else None
    return (
        machine is not None
        and query.ndim == 4
        and key.shape == value.shape
        and query.shape[1] == key.shape[1]
        and query.dtype == key.dtype == value.dtype == jnp.float32
        and bias is None
        and (mask is None or isinstance(mask, Causal))
        and heads.fits(_heads(query.swapaxes(1, 2), key.swapaxes(1, 2), mask is not None, 1.0), machine)
    )


def _heads(query: Any, key: Any, causal: bool, scale: float) -> Heads:
    batch, queries, count, size = query.shape
    return Heads(batch, count, queries, key.shape[1], size, causal, scale)


# ---------------------------------------------------------------------- the definition, of (batch, time, heads, size)


def _weights(query: Array, key: Array, causal: bool, scale: float) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", query * jnp.asarray(scale, query.dtype), key)
    queries, keys = scores.shape[-2:]
    return softmax(scores, where=jnp.tri(queries, keys, dtype=bool) if causal else None)


def _gathered(query: Array, key: Array, value: Array, *, causal: bool, scale: float) -> Array:
    return jnp.einsum("bhqk,bkhd->bqhd", _weights(query, key, causal, scale), value)


# ---------------------------------------------------------------------- programs


def _level(query: Any, key: Any, value: Any, **how: Any) -> tuple[int, ...]:
    """The largest score of each query and one over the sum of powers."""
    del key, value, how
    batch, queries, count, _ = query.shape
    return batch, count, 2, queries


@functools.cache
def _program(kind: str, given: Heads) -> str:
    """The name under which XLA knows the program."""
    machine = native.machine()
    assert machine is not None
    write = {"attention": heads.attention, "gradients": heads.gradients}[kind]
    return native.register(f"chainrule_{kind}_{given.name}", write(given, machine, native.THREADS - 1))


def _run(query: Array, key: Array, value: Array, *, causal: bool, scale: float) -> list[Array]:
    given = _heads(query, key, causal, scale)
    shapes = (query.shape, _level(query, key, value))
    results = [jax.ShapeDtypeStruct(shape, query.dtype) for shape in shapes]
    return list(jax.ffi.ffi_call(_program("attention", given), results)(query, key, value))


def _run_gradients(
    query: Array, key: Array, value: Array, *others: Array, causal: bool, scale: float
) -> list[Array]:
    given = _heads(query, key, causal, scale)
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (query, key, value)]
    return list(jax.ffi.ffi_call(_program("gradients", given), results)(query, key, value, *others))


_attention = operation("attention", _gathered, _level, _run, _run_gradients, ("causal", "scale"))

__all__ = ["attend", "fast"]
