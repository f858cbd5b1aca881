"""PyTorch's layouts for models that none of its libraries has."""

from collections.abc import Collection

import equinox as eqx
import jax

from chainrule.core import tree
from chainrule.core.errors import CapabilityError
from chainrule.models.protocol import Model, Name


def own_names(model: Model, layers: Collection[type]) -> dict[str, Name]:
    """Every layer under the name it has here; `layers` are the classes that PyTorch has too."""
    names: dict[str, Name] = {}
    nodes = jax.tree_util.tree_leaves_with_path(
        eqx.filter(model, eqx.is_array), is_leaf=lambda node: type(node) in layers
    )
    for keys, node in nodes:
        path = tree.path_name(keys)
        if type(node) not in layers:
            known = ", ".join(sorted(kind.__name__ for kind in layers))
            raise CapabilityError(
                f"{type(model).__name__} cannot be laid out for PyTorch: {path} belongs to no layer that both have",
                remedy=f"use layout=chainrule; layers that can be exchanged are {known}",
            )
        names[path] = path
    return names


__all__ = ["own_names"]
