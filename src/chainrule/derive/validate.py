"""Checks at the public edge: what goes into a derivative must be floating, and directions must match what they move."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree


def point(where: str, x: Tree, *, holomorphic: bool = False, name: str = "x") -> Tree:
    """The point as JAX arrays; every leaf must be a floating number or array.

    >>> point("gradient", {"count": 3})
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: gradient: x['count'] has type int32 and shape (); derivatives need floats
           cast it (jnp.asarray(value, float)) or choose other inputs with argnums
    """

    def check(path: Any, leaf: Any) -> Any:
        label = name + jax.tree_util.keystr(path)
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | float | int | complex | bool):
            raise ArgumentError(
                f"{where}: {label} is {type(leaf).__name__}, not a number or array",
                remedy="pass numbers, arrays, or PyTrees of them; close over everything else",
            )
        array = jnp.asarray(leaf)
        if jnp.issubdtype(array.dtype, jnp.complexfloating):
            if not holomorphic:
                raise ArgumentError(
                    f"{where}: {label} is complex ({array.dtype})",
                    remedy="pass holomorphic=True if the function is, or differentiate its real and imaginary parts",
                )
        elif not jnp.issubdtype(array.dtype, jnp.floating):
            raise ArgumentError(
                f"{where}: {label} has type {array.dtype} and shape {array.shape}; derivatives need floats",
                remedy="cast it (jnp.asarray(value, float)) or choose other inputs with argnums",
            )
        return array

    return jax.tree_util.tree_map_with_path(check, x)


def direction(where: str, name: str, v: Tree, like: Tree, like_name: str = "x") -> Tree:
    """A tangent or cotangent: the same structure and shapes as `like`, in its types."""
    found, wanted = jax.tree.structure(v), jax.tree.structure(like)
    if found != wanted:  # type: ignore[operator]  # JAX leaves the type of tree structures open
        raise ArgumentError(f"{where}: {name} has structure {found}, {like_name} has {wanted}")

    def check(path: Any, leaf: Any, other: Any) -> Any:
        array = jnp.asarray(leaf)
        if array.shape != other.shape:
            at = jax.tree_util.keystr(path)
            raise ArgumentError(
                f"{where}: {name}{at} has shape {array.shape}, {like_name}{at} has shape {other.shape}",
                remedy="directions have the shape of what they move",
            )
        return array.astype(other.dtype)

    return jax.tree_util.tree_map_with_path(check, v, like)


def argument(where: str, args: tuple[Any, ...], argnums: int) -> Any:
    """The argument a derivative is taken in."""
    if not -len(args) <= argnums < len(args):
        raise ArgumentError(f"{where}(argnums={argnums}): the function was called with {len(args)} arguments")
    return args[argnums]


def fix(f: Callable[..., Any], args: tuple[Any, ...], argnums: int) -> Callable[[Any], Any]:
    """`f` as a function of one argument, the others held."""
    place = argnums % len(args)
    return lambda x: f(*args[:place], x, *args[place + 1 :])


def scalar_output(where: str, y: Any) -> None:
    """Raise unless `y` is one real number."""
    leaves = jax.tree.leaves(y)
    shapes = [jnp.shape(leaf) for leaf in leaves]
    if len(leaves) != 1 or shapes[0] != ():
        found = f"shape {shapes[0]}" if len(leaves) == 1 else f"{len(leaves)} outputs of shapes {shapes}"
        raise ArgumentError(
            f"{where}: the function returns {found}, not one number",
            remedy="use derive.jacobian for several outputs, or reduce them (e.g. jnp.sum)",
        )
    dtype = jnp.result_type(leaves[0])
    if not jnp.issubdtype(dtype, jnp.inexact):
        raise ArgumentError(
            f"{where}: the function returns type {dtype}; its derivative is zero or undefined"
        )


__all__ = ["argument", "direction", "fix", "point", "scalar_output"]
