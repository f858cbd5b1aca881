"""Attention by `jax.nn.dot_product_attention`, which is cuDNN's fused kernel on a GPU in 16 bits."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int
from chainrule.nn.attention.masks import Causal, Mask

_LARGEST_HEAD = 128
"""Entries of a head that cuDNN's kernel takes on every GPU that has it."""


def attend(
    query: Array,
    key: Array,
    value: Array,
    mask: Mask | None,
    bias: Callable[[Int[Array, " queries"], Int[Array, " keys"]], Array] | None,
    scale: float,
) -> Array:
    """See `chainrule.nn.attention.attend`."""
    if query.shape[-1] != value.shape[-1]:
        raise ArgumentError(
            f'attend(path="fused"): keys of size {query.shape[-1]} but values of size {value.shape[-1]}',
            remedy="use path=plain or path=chunked",
        )
    rows, columns = query.shape[-2], key.shape[-2]
    parts = () if mask is None else mask.parts()
    rest = [part.table(rows, columns) for part in parts if not isinstance(part, Causal)]
    seen = None
    for table in rest:
        whole = _four(table)
        seen = whole if seen is None else jnp.logical_and(*jnp.broadcast_arrays(seen, whole))
    causal = len(rest) < len(parts)
    added = None if bias is None else bias(jnp.arange(rows), jnp.arange(columns))
    out = jax.nn.dot_product_attention(
        _four(query).swapaxes(1, 2),
        _four(key).swapaxes(1, 2),
        _four(value).swapaxes(1, 2),
        bias=None if added is None else _four(added).astype(query.dtype),
        mask=seen,
        scale=scale,
        is_causal=causal,
        implementation="cudnn" if _kernel(query, value) else "xla",
    ).swapaxes(1, 2)
    if seen is not None:
        # Where nothing may be seen the kernels return a mean over everything.
        anything = seen & jnp.tri(rows, columns, dtype=bool)[None, None] if causal else seen
        out = jnp.where(anything.any(axis=-1, keepdims=True), out, jnp.zeros_like(out))
    return out.reshape(*query.shape[:-1], value.shape[-1])


def fast(query: Array, value: Array, mask: Mask | None, bias: object | None) -> bool:
    """Whether this is faster than building the scores: cuDNN's kernel, and nothing of the scores' size to read."""
    parts = () if mask is None else mask.parts()
    return _kernel(query, value) and bias is None and all(isinstance(part, Causal) for part in parts)


def _kernel(query: Array, value: Array) -> bool:
    size = query.shape[-1]
    # For odd lengths the kernel has no derivative.
    even = query.shape[-2] % 2 == 0 and value.shape[-2] % 2 == 0
    return (
        _has_kernel(jax.devices()[0])
        and query.dtype in (jnp.bfloat16, jnp.float16)
        and even
        and size % 8 == 0
        and size <= _LARGEST_HEAD
        and value.shape[-1] == size
    )


def _has_kernel(device: Any) -> bool:
    """Whether it is an NVIDIA GPU of compute capability 8.0 or later; other makers' are not numbers."""
    if device.platform != "gpu":
        return False
    major = str(device.compute_capability).partition(".")[0]
    return major.isdigit() and int(major) >= 8


def _four(x: Array) -> Array:
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


__all__ = ["attend", "fast"]
