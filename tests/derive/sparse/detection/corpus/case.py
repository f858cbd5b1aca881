"""One function of the corpus: what to differentiate, where, and whether its pattern is known to be tight."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np


class Case(NamedTuple):
    name: str
    f: Callable[[Any], Any]
    shapes: Any
    """Shape of the input, or a tree of shapes (as `jax.ShapeDtypeStruct`)."""
    of: str = "jacobian"
    exact: bool = False
    """The pattern must be exactly the positions that are different from zero at some random point."""
    low: float = -2.0
    high: float = 2.0
    mode: str = "reverse"
    """How the dense derivative is taken; custom reverse rules have no forward mode, open-ended loops no reverse one."""

    def points(self, count: int = 5) -> list[Any]:
        draws = np.random.default_rng(0)
        structs = jax.tree.map(_struct, self.shapes, is_leaf=_is_shape)
        return [
            jax.tree.map(lambda s: draws.uniform(self.low, self.high, s.shape).astype(s.dtype), structs)
            for _ in range(count)
        ]


def _is_shape(node: Any) -> bool:
    return isinstance(node, tuple) and all(isinstance(size, int) for size in node)


def _struct(shape: Any) -> jax.ShapeDtypeStruct:
    return shape if isinstance(shape, jax.ShapeDtypeStruct) else jax.ShapeDtypeStruct(shape, np.float64)


def tight(name: str, f: Callable[[Any], Any], shapes: Any, **more: Any) -> Case:
    """A function whose pattern must be found exactly."""
    return Case(name, f, shapes, exact=True, **more)


def sound(name: str, f: Callable[[Any], Any], shapes: Any, **more: Any) -> Case:
    """A function whose pattern may be larger than the truth."""
    return Case(name, f, shapes, **more)


__all__ = ["Case", "sound", "tight"]
