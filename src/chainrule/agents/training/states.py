"""States of learners as checkpoints hold them: arrays of plain types, random keys as the numbers they are made of."""

from typing import Any

import equinox as eqx
import jax

from chainrule.core.types import Tree


def storable(state: Tree) -> Tree:
    """The arrays of a state, random keys as numbers."""
    arrays = eqx.filter(state, eqx.is_array)
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, arrays)


def storable_shapes(state: Tree) -> Tree:
    """What `storable` gives of a state of which only shapes are known."""
    return eqx.filter_eval_shape(storable, state)


def restored(arrays: Tree, like: Tree) -> Tree:
    """The state that was stored: `like` has its structure, and tells keys from numbers."""
    dynamic, static = eqx.partition(like, _has_shape)
    found = jax.tree.map(
        lambda leaf, array: jax.random.wrap_key_data(array) if _is_key(leaf) else array, dynamic, arrays
    )
    return eqx.combine(found, static)


def _is_key(leaf: Any) -> bool:
    return _has_shape(leaf) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _has_shape(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


__all__ = ["restored", "storable", "storable_shapes"]
