"""Sizes of models, known before anything is allocated: one that this machine cannot hold is refused by name."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import pydantic

from chainrule.core import machine, tree
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import count, memory_size
from chainrule.data.schema import Schema
from chainrule.models.protocol import Model

_LARGE = 2**15
_SPACIOUS = 2**16


def check_size(name: str, make: Callable[[], Model], config: pydantic.BaseModel, schema: Schema) -> None:
    """Refuse a model whose arrays alone take more than the memory of this machine.

    Shapes are worked out without computing anything. That still takes as long as a trace, so that it is left out where
    settings and data are so small that no model of them is large.
    """
    if not _may_be_large(config, schema):
        return
    shapes = eqx.filter(eqx.filter_eval_shape(make), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    needed, there = tree.nbytes(shapes), machine.memory()
    if needed > there:
        raise ArgumentError(
            f"{name} with these settings has {count(tree.size(shapes))} parameters, {memory_size(needed)}; "
            f"there are {memory_size(there)} of memory",
            remedy=f"make it smaller; its largest setting is {_largest(config)}",
        )


def _may_be_large(config: pydantic.BaseModel, schema: Schema) -> bool:
    sizes = sorted((abs(size) for _, size in _sizes(config)), reverse=True)
    read = max(
        math.prod(schema.shape), math.prod(schema.target_shape), len(schema.tokens), len(schema.classes)
    )
    return math.prod(max(size, 1.0) for size in sizes[:2]) >= _LARGE or read >= _SPACIOUS


def _largest(config: pydantic.BaseModel) -> str:
    found = max(_sizes(config), key=lambda pair: pair[1], default=("", 0.0))
    return f"{found[0]}={found[1]:g}"


def _sizes(config: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number among the settings, nested ones with dots."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, pydantic.BaseModel):
            yield from _sizes(value, f"{prefix}{name}.")
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int | float) and not isinstance(one, bool):
                yield f"{prefix}{name}", float(one)


__all__ = ["check_size"]
