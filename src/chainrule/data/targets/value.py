"""One or several numbers for each example."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np

from chainrule.data.division import Positions
from chainrule.data.loading.moments import moments, standardising
from chainrule.data.loading.scan import Contents
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.target import Answers, Cells, ReadTargets, Target

_SAME = 1e-3
"""Share by which vectors may differ in length and still be taken for equally long."""


@final
class ValueTarget(Target):
    """`y` holds numbers, standardised by the training examples; vectors of one common length keep their directions."""

    has_values: ClassVar[bool] = True
    of_numbers: ClassVar[bool] = True

    def from_numbers(self, values: np.ndarray, where: str, names: Sequence[str] = ()) -> ReadTargets:
        """The numbers as they are.

        >>> target.from_numbers(np.array([0.5, 5.0]), "lengths.csv").target
        'value'
        """
        del where, names
        return ReadTargets("value", values.astype(np.float64))

    def prepared(
        self, contents: Contents, schema: Schema, train: Positions
    ) -> tuple[Contents, Schema, Scaling | None]:
        """The scaling to mean 0 and variance 1, or that of vectors of one length to the usual one."""
        if contents.y is None:
            return contents, schema, None
        length = _common_length(contents.y)
        scaling = (
            Scaling(0.0, math.sqrt(contents.y.shape[1]) / length)
            if length
            else standardising(*_moments(contents.y, train))
        )
        return contents, replace(schema, target_length=length), scaling

    def describe(self, schema: Schema) -> str:
        """Nothing: numbers have no names."""
        del schema
        return ""

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers, where they are finite."""
        y = np.zeros((len(values), *schema.target_shape))
        known = np.zeros(len(values), bool)
        for row, value in enumerate(values):
            found = _numbers(value)
            if found is not None and found.shape == y.shape[1:]:
                y[row], known[row] = found, True
        return y, known

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """The value and the ends of its interval; of several values, each under its name."""
        del schema
        # Not -1: where no row could be read, nothing says how many columns there are.
        flat = predicted.reshape(len(predicted), len(names))
        reach = np.full(flat.shape[1], np.nan) if half is None else half.reshape(-1, flat.shape[1])
        reach = np.broadcast_to(reach, flat.shape)
        columns: dict[str, np.ndarray] = {}
        for index, name in enumerate(names):
            suffix = f" {name}" if len(names) > 1 else ""
            columns[f"prediction{suffix}"] = flat[:, index]
            columns[f"low{suffix}"] = flat[:, index] - reach[:, index]
            columns[f"high{suffix}"] = flat[:, index] + reach[:, index]
        return columns

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the number, where there is one."""
        del schema
        if y.ndim != 1:
            return Cells([], [[] for _ in range(len(y))])
        return Cells(["value"], [[float(f"{value:.6g}")] for value in y])


def _moments(y: np.ndarray, train: Positions) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation; in rows of vectors, without those that are padding."""
    if y.ndim != 3:
        return moments(y, train)
    vectors = y[train].reshape(-1, y.shape[2])
    return moments(vectors, np.flatnonzero(~np.isnan(vectors).any(axis=1)))


def _numbers(value: Any) -> np.ndarray | None:
    """Finite numbers, if that is what stands there."""
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None
    padding = np.isnan(found).all(axis=-1, keepdims=True) if found.ndim == 2 else False
    return found if (np.isfinite(found) | padding).all() else None


def _common_length(y: np.ndarray) -> float:
    """The length of vectors that all have the same, as embeddings do; 0 for anything else.

    >>> _common_length(np.array([[0.6, 0.8], [1.0, 0.0]])), _common_length(np.array([[1.0, 1.0], [2.0, 2.0]]))
    (1.0, 0.0)
    """
    if y.ndim != 2 or y.shape[1] < 2:
        return 0.0
    lengths = np.linalg.norm(y.astype(np.float64), axis=1)
    mean = float(lengths.mean())
    return round(mean, 6) if np.abs(lengths - mean).max() <= _SAME * mean else 0.0


target = ValueTarget()

__all__ = ["ValueTarget", "target"]
