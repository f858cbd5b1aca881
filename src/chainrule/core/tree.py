"""Arithmetic on PyTrees of arrays, and names for their leaves.

Sums, scalings and inner products treat a whole tree as one vector. Leaves that are not inexact arrays (integers,
functions, `None`) are left out of norms and inner products.
"""

import fnmatch
import math
import re
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Inexact

from chainrule.core.types import Array, Scalar, Tree

_RANGE = re.compile(r"(?<=[^.])\[(\d+|\d*(?=:))(:?)(\d*)\]")
_NUMBERS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)


def add(a: Tree, b: Tree) -> Tree:
    """Leaf by leaf sum."""
    return jax.tree.map(jnp.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    """Leaf by leaf difference."""
    return jax.tree.map(jnp.subtract, a, b)


def scale(factor: float | Array, a: Tree) -> Tree:
    """Every leaf times a factor."""
    return jax.tree.map(lambda leaf: factor * leaf, a)


def dot(a: Tree, b: Tree) -> Inexact[Array, ""]:
    """Inner product of two trees seen as vectors; complex leaves of the first are conjugated.

    >>> float(dot({"w": jnp.ones(3)}, {"w": 2 * jnp.ones(3)}))
    6.0
    """
    products = jax.tree.map(lambda x, y: jnp.vdot(x, y), _inexact(a), _inexact(b))
    return jnp.asarray(sum(jax.tree.leaves(products), start=jnp.zeros(())))


def norm(a: Tree) -> Scalar:
    """Euclidean norm of a tree seen as one vector.

    >>> float(norm([jnp.array([3.0]), jnp.array([4.0])]))
    5.0
    """
    squares = [jnp.sum(jnp.square(jnp.abs(leaf))) for leaf in jax.tree.leaves(_inexact(a))]
    return jnp.sqrt(sum(squares, start=jnp.zeros(())))


def size(a: Tree) -> int:
    """Number of array entries.

    >>> size({"w": jnp.ones((3, 4)), "b": jnp.ones(4)})
    16
    """
    return sum(int(np.size(leaf)) for _, leaf in named_leaves(a))


def nbytes(a: Tree) -> int:
    """Bytes of all arrays; also for the shape structs of an abstract evaluation."""
    return sum(
        int(np.prod(leaf.shape)) * _itemsize(leaf.dtype)
        for leaf in jax.tree.leaves(a)
        if hasattr(leaf, "dtype")
    )


def cast(a: Tree, dtype: Any) -> Tree:
    """Floating leaves in another floating type; everything else as it is."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, a)


def lowered(a: Tree, dtype: Any = jnp.bfloat16) -> Tree:
    """Single-precision matrices in half precision; vectors (biases, scales) keep their digits.

    >>> {name: leaf.dtype.name for name, leaf in lowered({"w": jnp.ones((2, 2)), "b": jnp.ones(2)}).items()}
    {'b': 'float32', 'w': 'bfloat16'}
    """
    return jax.tree.map(
        lambda x: (
            x.astype(dtype) if eqx.is_inexact_array(x) and x.ndim >= 2 and x.dtype == jnp.float32 else x
        ),
        a,
    )


def names(a: Tree) -> list[str]:
    """A dotted name for every array leaf, in flattening order.

    >>> names({"layers": [{"weight": jnp.ones(2)}, {"weight": jnp.ones(2)}]})
    ['layers.0.weight', 'layers.1.weight']
    """
    return [name for name, _ in named_leaves(a)]


def named_leaves(a: Tree) -> list[tuple[str, Any]]:
    """Array leaves (or the shape structs of an abstract evaluation) with their dotted names, in flattening order."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(a, _has_shape))
    return [(path_name(path) or "value", leaf) for path, leaf in leaves]


def path_name(path: Sequence[Any]) -> str:
    """The dotted name of a node in a tree, from the path that JAX gives it."""
    return ".".join(_step(part) for part in path)


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern means a leaf of this name, or a layer that it belongs to.

    `*` stands for anything, `blocks[:5]` for the first five of several layers, `blocks[2]` for the third.

    >>> matches("blocks.0.linear.weight", "blocks.0"), matches("head.bias", "*.bias"), matches("head.bias", "he")
    (True, True, False)
    >>> matches("blocks.4.bias", "blocks[:5]"), matches("blocks.5.bias", "blocks[:5]"), matches("a.2.b", "a[2].b")
    (True, False, True)
    """
    found = _RANGE.search(pattern)
    if found is None:
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")
    before, after = pattern[: found.start()], pattern[found.end() :]
    first, colon, last = found.groups()
    low = int(first or 0)
    high = (int(last) if last else math.inf) if colon else low + 1
    numbers = {word for word in name.split(".") if word.isdigit() and low <= int(word) < high}
    return any(matches(name, f"{before}.{number}{after}") for number in numbers)


def first_nonfinite(a: Tree) -> str | None:
    """The name of the first leaf that holds a NaN or an infinity, if any.

    >>> first_nonfinite({"a": jnp.ones(2), "b": jnp.array([1.0, jnp.nan])})
    'b'
    """
    for name, leaf in named_leaves(_inexact(a)):
        if not bool(jnp.isfinite(leaf).all()):
            return name
    return None


def _has_shape(leaf: Any) -> bool:
    return bool(eqx.is_array_like(leaf)) or isinstance(leaf, jax.ShapeDtypeStruct)


def _inexact(a: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf if _is_inexact(leaf) else None, a)


def _is_inexact(leaf: Any) -> bool:
    # Equinox has this test too, but its version fails on the tracers of jax.grad.
    return isinstance(leaf, _NUMBERS) and jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)


def _itemsize(dtype: Any) -> int:
    # Extended types (random keys) know their size through their own attribute.
    return int(dtype.itemsize)


def _step(part: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(part, attribute):
            return str(getattr(part, attribute))
    return str(part)


__all__ = [
    "add",
    "cast",
    "dot",
    "first_nonfinite",
    "lowered",
    "matches",
    "named_leaves",
    "names",
    "nbytes",
    "norm",
    "path_name",
    "scale",
    "size",
    "subtract",
]
