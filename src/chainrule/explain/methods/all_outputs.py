"""Outputs of a function for many inputs: in blocks of one shape, so that it is compiled once and fits in memory."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.compiling import compiled
from chainrule.core.types import Array
from chainrule.explain.methods.functions import Function, HostFunction, check_finite

_BLOCK_BYTES = 16 << 20
_LARGEST_BLOCK = 8192


def all_outputs(f: Function, x: np.ndarray) -> Float[np.ndarray, "rows outputs"]:
    """Every output of `f` for every row, in double precision on the host.

    >>> all_outputs(lambda x: x.sum(axis=1), np.ones((3, 2), np.float32))
    array([[2.],
           [2.],
           [2.]])
    """
    if isinstance(f, HostFunction):
        return _matrix(f(x))
    row = max(x[:1].nbytes, 1)
    size = max(1, min(len(x), _LARGEST_BLOCK, _BLOCK_BYTES // row))
    # Of few sizes, so that sets of similar size share a program.
    size = min(1 << (size - 1).bit_length(), _LARGEST_BLOCK)
    blocks = []
    for first in range(0, len(x), size):
        some = x[first : first + size]
        filled = np.concatenate([some, np.repeat(some[-1:], size - len(some), axis=0)])
        blocks.append(_matrix(_called(f, jnp.asarray(filled)))[: len(some)])
    return np.concatenate(blocks)


def finite_outputs(where: str, f: Function, x: np.ndarray) -> Float[np.ndarray, "rows outputs"]:
    """Every output of `f` for every row; raises where one is not finite.

    >>> finite_outputs("rules", lambda x: jnp.log(x).sum(axis=1), np.zeros((1, 2), np.float32))
    Traceback (most recent call last):
    chainrule.core.errors.DataError: rules: f gives -inf at row 0
           f must be finite for the inputs, the background, and mixtures of both
    """
    out = all_outputs(f, x)
    check_finite(where, out, lambda entry: f"row {entry // out.shape[1]}")
    return out


def _matrix(out: Any) -> np.ndarray:
    found = np.asarray(out, np.float64)
    return found[:, None] if found.ndim == 1 else found


@compiled
def _called(f: Function, x: Array) -> Array:
    return f(x)


__all__ = ["all_outputs", "finite_outputs"]
