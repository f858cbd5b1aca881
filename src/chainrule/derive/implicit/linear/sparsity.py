"""Sparsity pattern of A, for all values of unknowns and parameters, found once per equations."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array
from chainrule.derive.sparse import Pattern, detect


@functools.lru_cache(maxsize=64)
def pattern_of(structure: Any) -> Pattern:
    """The pattern of A.

    Unknowns and parameters are all taken as inputs of unknown value, so that nothing is concluded from a parameter that
    happens to be zero; the columns of the unknowns are kept. Whole numbers enter as floats that are rounded.
    """
    equations = structure.equations
    kinds = [leaf.dtype for leaf in structure.values.still]

    def joint(everything: tuple[Array, tuple[Array, ...], tuple[Array, ...]]) -> Array:
        x, moving, still = everything
        whole = tuple(leaf.astype(kind) for leaf, kind in zip(still, kinds, strict=True))
        return equations.evaluate(x, type(structure.values)(moving, whole))

    n = structure.x.size
    with jax.ensure_compile_time_eval():
        found = detect(joint, jax.tree.map(_ones, (structure.x, *structure.values)))
    own = found.cols < n
    rows, cols = found.rows[own], found.cols[own]
    if equations.is_minimum:
        rows, cols = np.concatenate([rows, cols]), np.concatenate([cols, rows])
    return Pattern(rows, cols, (n, n))


def _ones(shape: Any) -> Array:
    floating = jnp.issubdtype(shape.dtype, jnp.floating)
    return jnp.ones(shape.shape, shape.dtype if floating else jnp.result_type(float))


__all__ = ["pattern_of"]
