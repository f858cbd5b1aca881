"""Samples for the pictures of a report: every class in turn, held-out captions, or without a condition."""

import numpy as np

from chainrule.data import kinds, targets
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.models.protocol import CanSample
from chainrule.train import Run


def classes_to_show(model: CanSample, schema: Schema, n: int) -> np.ndarray | None:
    """The class of each of about `n` samples, all in turn; nothing for a model that takes no class."""
    if not schema.classes or not model.conditional:
        return None
    count = len(schema.classes)
    return np.resize(np.arange(count, dtype=np.int32), max(1, n // count) * count if count <= n else n)


def captions_to_show(schema: Schema, part: Split, n: int) -> list[str]:
    """Captions of `n` examples to draw for, where the data are images with captions."""
    target = targets.of(schema)
    if not kinds.of(schema).spatial or not target.has_tokens:
        return []
    return target.captions(schema, part.batch(np.linspace(0, len(part) - 1, n).astype(int)).y)


def values_to_show(run: Run, part: Split, n: int) -> np.ndarray | None:
    """Targets of `n` examples in the units of the data, for a model that draws nothing without one."""
    if not (isinstance(run.model, CanSample) and run.model.needs_condition):
        return None
    y = np.asarray(part.batch(np.linspace(0, len(part) - 1, n).astype(int)).y)
    return y if run.target_scaling is None else np.asarray(run.target_scaling.inverse(y))


__all__ = ["captions_to_show", "classes_to_show", "values_to_show"]
