"""Rates layer by layer: smaller ones further down, and layers that begin to learn one after another from the top.

What lies below has learned what many tasks share, what lies on top is of the task at hand: fine-tuning moves the first
less, or later (Howard and Ruder, Universal language model fine-tuning, 2018, arXiv:1801.06146). Both multiply updates,
weight decay included: a layer whose time has not come stays as it is bit for bit, its running averages too. It is in
training mode all the same: it normalises by the batch and drops entries (`freeze` keeps layers in inference mode).
"""

import re
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule import models
from chainrule.core import tree
from chainrule.core.types import Array, Tree
from chainrule.models.protocol import Model
from chainrule.train.config import TrainConfig

LayerRates: TypeAlias = Callable[[Array], Tree]
"""From a step to a factor for each floating array of the model."""


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: its path up to the last number, or its first part.

    >>> layer_of("stages.0.1.conv.weight"), layer_of("stem.conv.weight"), layer_of("head.bias")
    ('stages.0.1', 'stem', 'head')
    """
    found = re.match(r".*\.\d+(?=\.|$)", name)
    return found.group() if found else name.split(".")[0]


def layers(model: Model) -> list[str]:
    """The layers with parameters, from the input to the output: in the order of the model, its head last."""
    names = tree.names(eqx.filter(model, eqx.is_inexact_array))
    found = models.entry_of(model)
    head = "head" if found is None else found.head
    order = dict.fromkeys(map(layer_of, names))
    last = {layer_of(name) for name in names if tree.matches(name, head)}
    return [*(layer for layer in order if layer not in last), *(layer for layer in order if layer in last)]


def layer_rates(model: Model, config: TrainConfig, steps_per_epoch: float) -> LayerRates | None:
    """The factor of each array's rate at a step; nothing where all learn alike."""
    if config.layer_decay == 1.0 and not config.unfreeze:
        return None
    order = layers(model)
    every = config.unfreeze * steps_per_epoch

    def rates(step: Array) -> Tree:
        def rate(path: tuple[jax.tree_util.KeyEntry, ...], leaf: object) -> Array | None:
            if not eqx.is_inexact_array(leaf):
                return None
            below = len(order) - 1 - order.index(layer_of(tree.path_name(path)))
            return jnp.where(step >= below * every, config.layer_decay**below, 0.0)

        return jax.tree_util.tree_map_with_path(rate, model)

    return rates


def waiting(before: Tree, moved: Tree, rates: Tree) -> Tree:
    """What training moves by rule, such as running averages, as it was in layers whose time has not come."""

    def held(new: object, old: object, rate: Array | None) -> object:
        return new if rate is None else jnp.where(rate > 0, new, old)  # type: ignore[call-overload]  # an array

    return jax.tree.map(held, moved, before, rates, is_leaf=lambda leaf: leaf is None)


__all__ = ["LayerRates", "layer_of", "layer_rates", "layers", "waiting"]
