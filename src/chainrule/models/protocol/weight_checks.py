"""Checks of weights that come from files: what a file claims is not believed, and what cannot be weights is refused.

A model is sized by the names and shapes in a file. Nothing is allocated for it before it is known that the file has
the numbers, so that reading takes time and memory in proportion to the file and to nothing it says.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import tree
from chainrule.core.errors import DataError
from chainrule.models.protocol.model import Model

M = TypeVar("M", bound=Model)
_SLACK = 10**6
"""Numbers that a network may have beyond those of a file: a last layer that begins afresh, statistics of pixels."""


def check_values(name: str, array: np.ndarray) -> None:
    """Refuse an array that cannot be weights: not of floating-point numbers, empty, or not finite."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise DataError(f"{name} holds {array.dtype} instead of floating-point numbers")
    if not array.size:
        raise DataError(f"{name} has the shape {array.shape} and holds nothing")
    finite = np.isfinite(np.asarray(array, np.float32))
    if not finite.all():
        bad = int(finite.size - finite.sum())
        raise DataError(
            f"{name} holds {bad:,} of {finite.size:,} values that are not finite",
            remedy="such a file comes from a training that diverged, or is damaged: use another one",
        )


def check_held(path: Path, held: Mapping[str, tuple[int, ...]], model: Model) -> None:
    """Refuse a file whose names describe a far larger network than it has numbers for; `model` holds shapes."""
    needed = tree.size(eqx.filter(model, _is_shape))
    numbers = sum(math.prod(shape) for shape in held.values())
    if needed > 2 * numbers + _SLACK:
        raise DataError(
            f"{path.name} holds {numbers:,} numbers; the network that its names describe has {needed:,}",
            remedy="the file is cut short, or made for something else",
        )


def filled(model: M) -> M:
    """A model of shapes with weights from a file in their places; an array that files do not hold is zero."""
    whole: M = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if _is_shape(leaf) else leaf, model
    )
    return whole


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


__all__ = ["check_held", "check_values", "filled"]
