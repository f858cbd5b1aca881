"""Intervals around predicted values, from how far predictions were from validation examples.

Split conformal prediction (Lei et al., Distribution-free predictive inference for regression, 2018): an interval that
reaches as far as the k-th smallest of n residuals, k = ⌈(n + 1) level⌉, holds a new value of the same distribution with
at least that probability, whatever the model. Validation examples also chose the checkpoint, so intervals may be a
little narrow.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.train.scoring import Evaluation, predictions

if TYPE_CHECKING:
    from chainrule.train.run import Run


class HalfWidths(NamedTuple):
    """How far intervals reach to either side of a prediction."""

    half: np.ndarray | None
    """One for each output, in the units of the data; nothing where they are not known."""
    note: str
    """What they are, or why there are none."""


def check_level(level: float) -> None:
    """Raise unless an interval can hold values with this probability."""
    if not 0 < level < 1:
        raise ArgumentError(
            f"level={level:g}: an interval holds a value with a probability between 0 and 1",
            remedy="for example level=0.9",
        )


def half_widths(run: "Run", level: float) -> HalfWidths:
    """Half the width of intervals that hold a new value with probability `level`, by a run's validation examples."""
    try:
        data = run.data
    except ChainruleError as error:
        return HalfWidths(None, f"no intervals: they need the validation examples ({error.message})")
    if not len(data.val):
        return HalfWidths(None, "no intervals: there are no validation examples")
    evaluation = Evaluation(run.model, data, data.val, len(data.val), random.key(0, "score"))
    predicted, y = predictions(evaluation).astype(np.float64), np.asarray(data.val.y, np.float64)
    if data.target_scaling is not None:
        predicted, y = data.target_scaling.inverse(predicted), data.target_scaling.inverse(y)
    n = len(y)
    half = conformal(np.abs(predicted - y).reshape(n, -1), level)
    if half is None:
        enough = math.ceil(level / (1 - level) - 1e-9)
        return HalfWidths(
            None, f"no intervals: {n} validation examples are too few for level={level:g} (needed: {enough})"
        )
    return HalfWidths(
        half,
        f"intervals of level {level:g}: by how far {n:,} validation examples were from their predictions",
    )


def conformal(residuals: np.ndarray, level: float) -> np.ndarray | None:
    """The ⌈(n + 1) level⌉-th smallest of n residuals in each column; nothing where there are too few.

    >>> conformal(np.arange(1.0, 10.0)[:, None], 0.9), conformal(np.arange(8.0)[:, None], 0.9)
    (array([9.]), None)
    """
    k = math.ceil((len(residuals) + 1) * level - 1e-9)  # 0.9 of 10 is 9, whatever the last bit says
    return None if k > len(residuals) else np.sort(residuals, axis=0)[k - 1]


__all__ = ["HalfWidths", "check_level", "conformal", "half_widths"]
