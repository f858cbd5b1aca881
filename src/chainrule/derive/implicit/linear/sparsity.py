"""Sparsity pattern of A, for all values of unknowns and parameters, found once per equations."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.derive.sparse import Pattern, detect


@functools.lru_cache(maxsize=64)
def pattern_of(structure: Any) -> Pattern:
    """The pattern of A, whatever the values of the parameters."""
    equations, n = structure.equations, structure.x.size
    with jax.ensure_compile_time_eval():
        x, values = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), (structure.x, structure.values))
        found = detect(equations.evaluate, x, args=(values,))
    if not equations.is_symmetric:
        return found
    rows, cols = found.rows, found.cols
    return Pattern(np.concatenate([rows, cols]), np.concatenate([cols, rows]), (n, n))


__all__ = ["pattern_of"]
