"""Double precision where numbers are solved for, whatever the default of the program around it.

Gram matrices of smooth kernels are close to singular: in single precision their factorisations fail or lie. So machines
on kernels convert what they are given, compute in double precision and hand out NumPy arrays. What is traced (inside
`jax.jit` or a derivative) cannot change its precision and is computed in the one it has.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

R = TypeVar("R")


def traced(*values: Any) -> bool:
    """Whether any array among these is known only while a program is traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def widened(tree: Any) -> Any:
    """The tree with floating-point arrays in double precision; call it where double precision is on."""
    return jax.tree.map(_wide, tree)


def _wide(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.floating):
        return jnp.asarray(np.asarray(leaf), jnp.float64)
    return leaf


def in_double(function: Callable[..., R]) -> Callable[..., R]:
    """The function with arguments and arithmetic in double precision; arrays of its result are NumPy's.

    >>> in_double(lambda x: x / 3)(np.float32([1.0]))
    array([0.33333333])
    """

    @functools.wraps(function)
    def precise(*args: Any, **kwargs: Any) -> R:
        if traced(args, kwargs):
            return function(*args, **kwargs)
        with jax.enable_x64(True):
            found = function(*widened(args), **widened(kwargs))
            plain: R = jax.tree.map(lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, found)
            return plain

    return precise


__all__ = ["in_double", "traced", "widened"]
