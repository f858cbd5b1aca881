"""Samples of a model for its judges, in a few batches of one size."""

from typing import Any

import numpy as np

from chainrule.core import progress, random
from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.models.protocol import CanSample, Model
from chainrule.train.generation.features import Examples


def can_be_judged(model: Model, schema: Schema) -> bool:
    """Whether a model draws examples that can be compared with real ones by distances or features."""
    return isinstance(model, CanSample) and kinds.of(schema).comparable


def draw(
    model: CanSample, data: Data, n: int, key: Key, shown: Split, condition: Any = None, **options: Any
) -> np.ndarray:
    """`n` new examples in model units, as users get them: numbers of data with levels are those of a level.

    `condition` holds one for each, or is nothing: a model that cannot do without takes the targets of `shown`, over
    and over. Images come in batches of the size that reports draw, so that both share a program.
    """
    if condition is None and model.needs_condition:
        condition = shown.batch(np.arange(n) % len(shown)).y
    kind = kinds.of(data.schema)
    size = min(n, kind.sample_count) if kind.spatial else n
    found: list[np.ndarray] = []
    for number, first in enumerate(range(0, n, size)):
        rows = np.arange(first, first + size) % n  # the last batch is filled with what is not needed
        given = {} if condition is None else {"condition": np.asarray(condition)[rows]}
        own = key if number == 0 else random.at(key, number)
        found.append(np.asarray(model.sample(own, size, **given, **options)))
        progress.update("samples", min(first + size, n), n)
    drawn = np.concatenate(found)[:n]
    return np.asarray(data.scaling.apply(data.inverse(drawn))) if data.schema.levels else drawn


def as_rows(drawn: np.ndarray) -> Examples:
    """Samples as rows of numbers."""
    return np.asarray(drawn, np.float64).reshape(len(drawn), -1)


__all__ = ["as_rows", "can_be_judged", "draw"]
