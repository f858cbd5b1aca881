"""Intervals around predicted values, from how far predictions were from validation examples.

Split conformal prediction (Lei et al., Distribution-free predictive inference for regression, 2018): an interval that
reaches as far as the k-th smallest of n residuals, k = ⌈(n + 1) level⌉, holds a new value of the same distribution with
at least that probability, whatever the model. Validation examples also chose the checkpoint, so intervals may be a
little narrow. A model that knows the distribution of a new value has its own intervals instead, wider where it knows
less.
"""

import contextlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.special import ndtri

from chainrule.core import random
from chainrule.core.errors import ArgumentError, ChainruleError, DiskError
from chainrule.train.files import read_own, write_json
from chainrule.train.scoring import Evaluation, predictions

if TYPE_CHECKING:
    from chainrule.train.run import Run


FILE = "residuals.json"
_MOST = 5000
"""Residuals that are kept."""


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


def deviations(level: float) -> float:
    """How many standard deviations to either side of its mean a normal variable lies with this probability.

    >>> round(deviations(0.95), 2)
    1.96
    """
    return float(ndtri(0.5 + level / 2))


def half_widths(run: "Run", level: float) -> HalfWidths:
    """Half the width of intervals that hold a new value with probability `level`, by a run's validation examples.

    Their residuals are kept in the folder of the run, so that they are computed once and known without the data.
    """
    found = _kept(run)
    if found is None:
        try:
            found = _computed(run)
        except ChainruleError as error:
            return HalfWidths(None, f"no intervals: they need the validation examples ({error.message})")
        if found.count:
            _keep(run, found)
    if not found.count:
        return HalfWidths(None, "no intervals: there are no validation examples")
    half = found.reach(level)
    if half is None:
        enough = math.ceil(level / (1 - level) - 1e-9)
        few = f"{found.count} validation examples are too few for level={level:g} (needed: {enough})"
        return HalfWidths(None, f"no intervals: {few}")
    seen = f"{found.count:,} validation examples were from their predictions"
    return HalfWidths(half, f"intervals of level {level:g}: by how far {seen}")


@final
@dataclass(frozen=True)
class Residuals:
    """How far validation examples were from their predictions, in the units of the data."""

    count: int
    """Examples."""
    ranks: tuple[int, ...]
    """Which of the residuals, counted from the smallest, are known: all of them, or some of very many."""
    values: np.ndarray
    """These, in ascending order: one row for each rank, one column for each output."""

    @classmethod
    def of(cls, found: np.ndarray) -> "Residuals":
        """From the residuals of all examples, one row each.

        >>> Residuals.of(np.array([[3.0], [1.0], [2.0]])).values[:, 0].tolist()
        [1.0, 2.0, 3.0]
        """
        n = len(found)
        ranks = np.unique(np.ceil(np.linspace(0, n, min(n, _MOST) + 1)[1:]).astype(int))
        return cls(n, tuple(ranks.tolist()), np.sort(found, axis=0)[ranks - 1])

    def reach(self, level: float) -> np.ndarray | None:
        """The ⌈(n + 1) level⌉-th smallest of n residuals of each output; nothing where there are too few.

        Where that one is not kept it is the next larger one.

        >>> Residuals.of(np.arange(1.0, 10.0)[:, None]).reach(0.9), Residuals.of(np.arange(8.0)[:, None]).reach(0.9)
        (array([9.]), None)
        """
        k = math.ceil((self.count + 1) * level - 1e-9)  # 0.9 of 10 is 9, whatever the last bit says
        return None if k > self.count else self.values[np.searchsorted(self.ranks, k)]


def _computed(run: "Run") -> Residuals:
    data = run.data
    if not len(data.val):
        return Residuals(0, (), np.zeros((0, 1)))
    evaluation = Evaluation(run.model, data, data.val, len(data.val), random.key(0, "score"))
    predicted, y = predictions(evaluation).astype(np.float64), np.asarray(data.val.y, np.float64)
    if data.target_scaling is not None:
        predicted, y = data.target_scaling.inverse(predicted), data.target_scaling.inverse(y)
    return Residuals.of(np.abs(predicted - y).reshape(len(y), -1))


def _keep(run: "Run", found: Residuals) -> None:
    kept = {"step": run.step, "count": found.count, "ranks": found.ranks, "residuals": found.values.tolist()}
    with contextlib.suppress(DiskError):  # a run that cannot be written to predicts all the same
        write_json(run.path / FILE, kept)


def _kept(run: "Run") -> Residuals | None:
    """What `_keep` wrote for the checkpoint that predicts."""
    try:
        found = json.loads(read_own(run.path / FILE))
        values = np.asarray(found["residuals"], np.float64)
        residuals = Residuals(int(found["count"]), tuple(int(rank) for rank in found["ranks"]), values)
        whole = (
            values.shape == (len(residuals.ranks), values.shape[1]) and residuals.ranks[-1] == residuals.count
        )
        return residuals if whole and found["step"] == run.step else None
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None  # not there, or not ours: it is made again


__all__ = ["FILE", "HalfWidths", "Residuals", "check_level", "deviations", "half_widths"]
