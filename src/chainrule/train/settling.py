"""Averages that training keeps over batches, replaced by what all training examples say before anything is reported.

Batch normalisation in a flow normalises by the moments of a batch while it learns. What is evaluated and saved has the
moments of the whole training set under its weights instead, and averaged weights have those of their own. Training
itself never reads them, so that a run goes on as if nothing had been replaced.
"""

from typing import Any

import equinox as eqx

from chainrule.core.types import Tree
from chainrule.data.splits import Split
from chainrule.models.protocol import HasBatchMoments, Model
from chainrule.nn import lora
from chainrule.train.state import State


def settled(model: Model, state: State, static: Any, split: Split) -> State:
    """The state with moments of all training examples in place of averages over batches; itself for other models.

    `static` is what a model is besides its arrays, as the state's owner keeps it.
    """
    if not (isinstance(model, HasBatchMoments) and model.couples_examples):
        return state

    def over(arrays: Tree) -> Tree:
        trained: Any = eqx.combine(arrays, static)
        return eqx.filter(lora.apart(trained, lora.merged(trained).with_moments_of(split)), eqx.is_array)

    averages = None if state.ema is None else over(state.ema)
    return eqx.tree_at(
        lambda s: (s.model, s.ema), state, (over(state.model), averages), is_leaf=lambda node: node is None
    )


__all__ = ["settled"]
