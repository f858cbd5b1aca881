"""Freezing: parameters that training leaves as they are, named by patterns or because adapters learn in their place.

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
from chainrule.models.protocol import Model, parts_of
from chainrule.nn import lora
from chainrule.train.adapters import attached
from chainrule.train.config import TrainConfig
from chainrule.train.layer_rates import layer_of


def frozen(model: Model, config: TrainConfig) -> Tree:
    """A tree of booleans: true for the floating arrays of the model that stay as they are."""

    def held(path: tuple[jax.tree_util.KeyEntry, ...], leaf: object, adapter: bool) -> bool:
        name = tree.path_name(path)
        return eqx.is_inexact_array(leaf) and (
            _chosen(name, config.freeze) or (not adapter and _behind(name, config))
        )

    return jax.tree_util.tree_map_with_path(held, model, lora.marks(model))


def stilled(model: Model, config: TrainConfig) -> Model:
    """The model with the layers that stay as they are in inference mode."""
    if not config.freeze and not config.lora.rank:
        return model

    def switch(path: tuple[jax.tree_util.KeyEntry, ...], leaf: object) -> object:
        name = tree.path_name(path)
        still = _chosen(name, config.freeze) or _behind(name, config)
        return True if name.rpartition(".")[2] == "inference" and still else leaf

    still: Model = jax.tree_util.tree_map_with_path(switch, model)
    return still


def learning(model: Model, config: TrainConfig) -> list[tuple[str, int, int]]:
    """For each layer how many parameters learn and how many stay as they are; empty where nothing is frozen."""
    model = attached(model, config)
    marks = [frozen(model, config), *(part.moved_by_rule(model) for part in parts_of(model))]
    leaves = jax.tree_util.tree_leaves_with_path(model)
    rows: dict[str, list[int]] = {}
    for (path, leaf), still, *moved in zip(leaves, *map(jax.tree.leaves, marks), strict=True):
        if eqx.is_inexact_array(leaf) and not any(moved):
            rows.setdefault(layer_of(tree.path_name(path)), [0, 0])[bool(still)] += leaf.size
    found = [(name, learn, stay) for name, (learn, stay) in rows.items()]
    return found if any(stay for _, _, stay in found) else []


def check(model: Model, config: TrainConfig) -> None:
    """Raise when a pattern means no parameter, or when all of them are frozen."""
    names = tree.names(eqx.filter(model, eqx.is_inexact_array))
    layers = sorted({".".join(name.split(".")[:n]) for name in names for n in range(1, name.count(".") + 2)})
    for setting, patterns in (("freeze", config.freeze), ("lora.whole", config.lora.whole)):
        for pattern in patterns:
            if not any(tree.matches(name, pattern) for name in names):
                top = [layer for layer in layers if "." not in layer]
                raise ArgumentError(
                    f"{setting}={pattern}: no parameter has such a name{suggest(pattern, layers)}",
                    remedy=f"layers of this model: {', '.join(top)}",
                )
    if config.freeze and all(_chosen(name, config.freeze) for name in names):
        raise ArgumentError(
            f"freeze={','.join(config.freeze)}: nothing is left to train", remedy="leave a layer out of it"
        )


def _behind(name: str, config: TrainConfig) -> bool:
    """Whether a parameter belongs to what stays as it is because adapters learn."""
    return config.lora.rank > 0 and not _chosen(name, config.lora.whole)


def _chosen(name: str, patterns: Sequence[str]) -> bool:
    return any(tree.matches(name, pattern) for pattern in patterns)


__all__ = ["check", "frozen", "learning", "stilled"]
