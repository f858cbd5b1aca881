"""Data movement in NumPy: operations that only move elements, applied to index arrays and masks.

Each function takes the equation's parameters and the operands and returns the results.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Move: TypeAlias = Callable[..., list[np.ndarray]]


def _broadcast(params: Mapping[str, Any], a: np.ndarray, *_: Any) -> list[np.ndarray]:
    shape, where = params["shape"], params["broadcast_dimensions"]
    full = [1] * len(shape)
    for axis, size in zip(where, a.shape, strict=True):
        full[axis] = size
    return [np.broadcast_to(a.reshape(full), shape)]


def _reshape(params: Mapping[str, Any], a: np.ndarray, *_: Any) -> list[np.ndarray]:
    if params["dimensions"] is not None:
        a = a.transpose(params["dimensions"])
    return [a.reshape(params["new_sizes"])]


def _slice(params: Mapping[str, Any], a: np.ndarray) -> list[np.ndarray]:
    starts, stops, strides = params["start_indices"], params["limit_indices"], params["strides"]
    strides = strides or (1,) * a.ndim
    return [a[tuple(slice(*one) for one in zip(starts, stops, strides, strict=True))]]


def _pad(params: Mapping[str, Any], a: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
    config = params["padding_config"]
    for axis, (_, _, interior) in enumerate(config):
        if interior and a.shape[axis] > 1:
            shape = list(a.shape)
            shape[axis] += (a.shape[axis] - 1) * interior
            wide = np.full(shape, value, dtype=a.dtype)
            wide[(slice(None),) * axis + (slice(None, None, interior + 1),)] = a
            a = wide
    cut = tuple(
        slice(max(-low, 0), max(size - max(-high, 0), max(-low, 0)))
        for (low, high, _), size in zip(config, a.shape, strict=True)
    )
    a = a[cut]
    if all(low <= 0 and high <= 0 for low, high, _ in config):
        return [a]
    shape = [max(low, 0) + size + max(high, 0) for (low, high, _), size in zip(config, a.shape, strict=True)]
    out = np.full(shape, value, dtype=a.dtype)
    out[
        tuple(slice(max(low, 0), max(low, 0) + s) for (low, _, _), s in zip(config, a.shape, strict=True))
    ] = a
    return [out]


def _split(params: Mapping[str, Any], a: np.ndarray) -> list[np.ndarray]:
    return np.split(a, np.cumsum(params["sizes"])[:-1], axis=params["axis"])


def _unstack(params: Mapping[str, Any], a: np.ndarray) -> list[np.ndarray]:
    return list(np.moveaxis(a, params["axis"], 0))


def _rev(params: Mapping[str, Any], a: np.ndarray) -> list[np.ndarray]:
    return [np.flip(a, params["dimensions"])]


def _squeeze(params: Mapping[str, Any], a: np.ndarray) -> list[np.ndarray]:
    return [a.reshape([size for axis, size in enumerate(a.shape) if axis not in params["dimensions"]])]


MOVES: dict[str, Move] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda params, *parts: [np.concatenate(parts, axis=params["dimension"])],
    "pad": _pad,
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "split": _split,
    "squeeze": _squeeze,
    "stack": lambda params, *parts: [np.stack(parts, axis=params["axis"])],
    "tile": lambda params, a: [np.tile(a, params["reps"])],
    "transpose": lambda params, a: [a.transpose(params["permutation"])],
    "unstack": _unstack,
}


__all__ = ["MOVES", "Move"]
