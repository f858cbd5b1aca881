"""Host callbacks of compiled programs, with numbers that arrive and return bit for bit.

JAX hands arrays to host functions on threads of its own, where `with jax.enable_x64(True)` of the user's thread is not
in force: double precision would be cut to single on the way, or refused on the way back. So numbers of eight bytes
travel as pairs of four.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from chainrule.core.types import Array, Tree

_EIGHT = 8


def call(function: Callable[..., Any], shapes: Tree, *arrays: Array) -> Any:
    """`function(*arrays)` with NumPy arrays on the host; under `vmap` with leading axes, of length 1 if not mapped.

    `shapes` are those of the results without leading axes.
    """
    kinds = [array.dtype for array in arrays]

    def run(*packed: Any) -> Any:
        given = [_unpacked(np.asarray(p), kind) for p, kind in zip(packed, kinds, strict=True)]
        return jax.tree.map(_packed, function(*given))

    wide = jax.tree.map(lambda shape: jax.eval_shape(_pack, shape), shapes)
    found = jax.pure_callback(run, wide, *(_pack(array) for array in arrays), vmap_method="expand_dims")
    return jax.tree.map(lambda shape, result: _unpack(result, shape.dtype), shapes, found)


def _pack(array: Array) -> Array:
    return jax.lax.bitcast_convert_type(array, np.uint32) if array.dtype.itemsize == _EIGHT else array


def _unpack(array: Array, kind: Any) -> Array:
    return jax.lax.bitcast_convert_type(array, kind) if np.dtype(kind).itemsize == _EIGHT else array


def _packed(array: np.ndarray) -> np.ndarray:
    if array.dtype.itemsize != _EIGHT:
        return array
    return np.asarray(array, order="C")[..., None].view(np.uint32)


def _unpacked(array: np.ndarray, kind: Any) -> np.ndarray:
    return np.asarray(array, order="C").view(kind)[..., 0] if np.dtype(kind).itemsize == _EIGHT else array


__all__ = ["call"]
