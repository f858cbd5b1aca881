"""Evaluation of a compiled function on every example of a split, with progress."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np

from chainrule.core import progress, random
from chainrule.core.compiling import compiled
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.splits import Split
from chainrule.models.protocol import Metrics, Model

BATCH = 512


class EvaluationBatch(NamedTuple):
    """A batch, and how many of its examples are meant; what follows them only fills it up."""

    batch: Batch
    ours: int


Loss: TypeAlias = Callable[[Any, Batch, Key], tuple[Scalar, Metrics]]
"""From a model, a batch and a key to the mean loss and its metrics."""


def own_loss(model: Model, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
    """The loss of the model."""
    return model.loss(batch, key)


def batches(
    split: Split, most: int | None = None, *, filled: bool = False, size: int = BATCH
) -> Iterator[EvaluationBatch]:
    """The first `most` examples of a split, or all, in order, `size` at a time.

    The last batch is shorter than the others, or `filled` with examples from the start: then one program serves them
    all, and may treat every example by itself only.
    """
    count = min(len(split), most or len(split))
    size = min(size, count)
    for first in range(0, count, size):
        here = min(size, count - first)
        numbers = np.arange(first, first + (size if filled else here)) % count
        yield EvaluationBatch(jax.tree.map(jax.numpy.asarray, split.batch(numbers)), here)


def mean_loss(
    model: Model, split: Split, key: Key, *, most: int | None = None, loss: Loss = own_loss
) -> tuple[dict[str, float], int]:
    """Mean loss and metrics over (the first `most` examples of) a split, and how many examples that was.

    `loss` is the model's own, unless training minimises another.
    """
    totals: dict[str, float] = {}
    count, weight = 0, 0
    for number, (batch, _) in enumerate(batches(split, most)):
        for name, value in _loss_of(loss, model, batch, random.at(key, number)).items():
            totals[name] = totals.get(name, 0.0) + float(value) * batch.weight
        count += len(batch.x)
        weight += batch.weight
    return {name: total / weight for name, total in totals.items()}, count


def over(
    what: str, function: Callable[[Any, Batch, Key], Tree], model: Model, split: Split, key: Key
) -> Tree:
    """`function(model, batch, key)` over a whole split: arrays with a row for each example, judged by itself.

    `what` is the name under which progress is reported.
    """
    parts, done = [], 0
    progress.update(what, 0, len(split))
    for number, (batch, count) in enumerate(batches(split, filled=True)):
        found = _call(function, model, batch, random.at(key, number))
        arrays, rest = eqx.partition(found, eqx.is_array)
        parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf[:count]), arrays))
        done += count
        progress.update(what, done, len(split))
    return eqx.combine(jax.tree.map(lambda *rows: np.concatenate(rows), *parts), rest)


@compiled
def _loss_of(loss: Loss, model: Model, batch: Batch, key: Key) -> dict[str, Array]:
    value, metrics = loss(model, batch, key)
    return {"loss": value, **metrics}


@compiled
def _call(function: Callable[[Any, Batch, Key], Tree], model: Model, batch: Batch, key: Key) -> Tree:
    return function(model, batch, key)


__all__ = ["BATCH", "EvaluationBatch", "Loss", "batches", "mean_loss", "over", "own_loss"]
