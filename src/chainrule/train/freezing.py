"""Freezing: parameters that training leaves as they are, named by patterns.

What is frozen gets no gradient, no state of an optimiser and no decay. It is also in inference mode: a normaliser whose
weights stand still while its running statistics move, or a layer that drops entries, would not be the one that was
trained before.
"""

from collections.abc import Sequence

import equinox as eqx
import jax

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Tree
from chainrule.models.protocol import Model


def frozen(model: Model, patterns: Sequence[str]) -> Tree:
    """A tree of booleans: true for the floating arrays of the model that the patterns mean."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: eqx.is_inexact_array(leaf) and _chosen(tree.path_name(path), patterns), model
    )


def stilled(model: Model, patterns: Sequence[str]) -> Model:
    """The model with the layers that the patterns mean in inference mode."""
    if not patterns:
        return model

    def switch(path: tuple[jax.tree_util.KeyEntry, ...], leaf: object) -> object:
        name = tree.path_name(path)
        return True if name.rpartition(".")[2] == "inference" and _chosen(name, patterns) else leaf

    still: Model = jax.tree_util.tree_map_with_path(switch, model)
    return still


def check(model: Model, patterns: Sequence[str]) -> None:
    """Raise when a pattern means no parameter, or when all of them are frozen."""
    names = tree.names(eqx.filter(model, eqx.is_inexact_array))
    layers = sorted({".".join(name.split(".")[:n]) for name in names for n in range(1, name.count(".") + 2)})
    for pattern in patterns:
        if not any(tree.matches(name, pattern) for name in names):
            top = [layer for layer in layers if "." not in layer]
            raise ArgumentError(
                f"freeze={pattern}: no parameter has such a name{suggest(pattern, layers)}",
                remedy=f"layers of this model: {', '.join(top)}",
            )
    if patterns and all(_chosen(name, patterns) for name in names):
        raise ArgumentError(
            f"freeze={','.join(patterns)}: nothing is left to train", remedy="leave a layer out of it"
        )


def _chosen(name: str, patterns: Sequence[str]) -> bool:
    return any(tree.matches(name, pattern) for pattern in patterns)


__all__ = ["check", "frozen", "stilled"]
