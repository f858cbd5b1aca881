"""Losses of a trained model row by row, as functions of the parameters that training moved.

Whatever a loss draws at random, it draws alike for every row, so that rows can be compared.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import numpy as np

from chainrule import models
from chainrule.core import random
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.data.batches import Batch
from chainrule.data.splits import Split
from chainrule.models.protocol import HasOwnTraining, HasParts, Model, parts_of
from chainrule.train import Run
from chainrule.train.state import trainable


@final
class ModelLosses(eqx.Module):
    """The loss of every row by itself."""

    rest: Any
    """What of the model is no parameter."""
    key: Key

    def __call__(self, params: Tree, rows: Tree) -> Float[Array, " rows"]:
        """Of rows (x, y) under parameters."""
        model = eqx.combine(params, self.rest)

        def one(row: tuple[Array, Any]) -> Array:
            x, y = jax.tree.map(lambda leaf: leaf[None], row)
            return model.loss(Batch(x, y), self.key)[0]

        return jax.vmap(one)(rows)


class Parted(NamedTuple):
    """A model as losses of rows and parameters."""

    losses: ModelLosses
    params: Tree


def parted(run: Run, model: Model) -> Parted:
    """The losses and the parameters of a run's model at one of its checkpoints."""
    params, rest = eqx.partition(model, trainable(model, parts_of(model), run.settings))
    return Parted(ModelLosses(rest, random.key(0, "influence")), params)


def has_row_losses(model: Model) -> bool:
    """Whether gradients of one loss have moved the model, and a row has one by itself.

    A model that follows another gradient than that of its loss is at no minimum of it, which influences start from.
    """
    entry = models.entry_of(model)
    surrogate = entry is not None and bool(entry.surrogate_gradient)
    return not surrogate and not isinstance(model, HasOwnTraining | HasParts) and model.least_batch == 1


def rows_of(split: Split, which: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Examples and targets of rows, in model units."""
    batch = split.batch(which)
    x, y = np.asarray(batch.x), batch.y
    return x, None if y is None else np.asarray(y)


__all__ = ["ModelLosses", "Parted", "has_row_losses", "parted", "rows_of"]
