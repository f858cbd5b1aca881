"""Several labels for each example, each there or not."""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.target import Answers, Cells, Link, ReadTargets, Target, column_names

THRESHOLD = 0.5
"""The probability from which on a label is said to be there, unless it has a threshold of its own."""


@final
class LabelsTarget(Target):
    """`y` holds 0 or 1 for each label; `Schema.classes` names them."""

    has_labels: ClassVar[bool] = True
    link: ClassVar[Link] = "sigmoid"
    loss_unit: ClassVar[str] = "nats"
    of_numbers: ClassVar[bool] = True

    def __init__(self, thresholds: np.ndarray | None = None) -> None:
        """`thresholds` has the probability from which on each label is said to be there; one half unless given."""
        self._thresholds = THRESHOLD if thresholds is None else thresholds

    def claims(self, values: np.ndarray) -> bool:
        """Several numbers for each example, all of them 0 or 1.

        >>> target.claims(np.array([[0, 1], [1, 1], [0, 0]]))
        True
        """
        return values.ndim == 2 and bool(np.isin(values, (0, 1)).all())

    def from_numbers(self, values: np.ndarray, where: str, names: Sequence[str] = ()) -> ReadTargets:
        """Zeros and ones; a label that never changes cannot be learnt and is refused."""
        if not self.claims(values):
            detail = "several numbers for each example" if values.ndim != 2 else "every number to be 0 or 1"
            raise Refused("not labels", where, f"labels need {detail}", "use data.target_as=value or class")
        names = names or [f"label {index}" for index in range(values.shape[1])]
        for name, column in zip(names, values.T, strict=True):
            if np.all(column == column[0]):
                detail = f"label {name!r} is {int(column[0])} for every example"
                raise Refused("one class only", where, detail, "leave it out: it cannot be learnt")
        return ReadTargets("labels", values.astype(np.uint8), tuple(names))

    def problems(self, contents: Contents, where: str, remedy: str) -> list[Problem]:
        """Labels that a single example has, or a single one lacks, are noted."""
        del remedy
        assert contents.y is not None, "labels are there"
        ones = contents.y.sum(axis=0, dtype=np.int64)
        said = [("has", ones), ("lacks", len(contents.y) - ones)]
        return [
            Problem("fewer than two examples", where, f"a single example {word} label {name!r}", "note")
            for word, counts in said
            for name, count in zip(contents.classes, counts, strict=True)
            if count < 2
        ]

    def check_training(self, contents: Contents, train: Positions) -> None:
        """Every label must be there for some examples and not for others."""
        assert contents.y is not None, "labels are there"
        for name, column in zip(contents.classes, contents.y[train].T, strict=True):
            if np.ptp(column) == 0:
                raise DataError(
                    f"label {name!r} is {column[0]} for every training example",
                    remedy="try another data.seed, give training a larger share, or leave the label out",
                )

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Those of the labels."""
        del columns
        return schema.classes

    def describe(self, schema: Schema) -> str:
        """How many labels."""
        return f", {len(schema.classes)} labels"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Their names."""
        return [("labels", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Zeros and ones in the order of the labels."""
        y = np.zeros((len(values), len(schema.classes)), np.uint8)
        known = np.zeros(len(values), bool)
        for row, value in enumerate(values):
            found = np.asarray(value) if value is not None else np.zeros(0)
            if found.shape == y.shape[1:] and bool(np.isin(found, (0, 1)).all()):
                y[row], known[row] = found, True
        return y, known

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """Zeros and ones for the schema's labels by their names; one that does not occur is 0."""
        assert contents.y is not None, "there are labels"
        for name in contents.classes:
            if name not in schema.classes:
                raise DataError(
                    f"label {name!r} is not known to the run",
                    remedy=f"it knows: {', '.join(schema.classes[:12])}",
                )
        found = np.zeros((len(rows), len(schema.classes)), np.uint8)
        found[:, [schema.classes.index(name) for name in contents.classes]] = contents.y[rows]
        return found

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """The labels with a probability of at least their threshold, and the probability of each."""
        del half
        chosen = np.array(self.captions(schema, predicted >= self._thresholds), np.str_)
        each = dict(zip(column_names(names), predicted.T, strict=True))
        return {"prediction": chosen, **each}

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The names of the labels that are there."""
        return [", ".join(np.array(schema.classes)[ones > 0]) for ones in y]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column for each label."""
        return Cells(schema.classes, [[int(one) for one in ones] for ones in y])


target = LabelsTarget()

__all__ = ["THRESHOLD", "LabelsTarget", "target"]
