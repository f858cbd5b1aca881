"""Predictions as a value in Python, and as a CSV file that is written while they are made."""

import csv
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO, final

import numpy as np

from chainrule.core import notebook
from chainrule.train.files import disk_errors, make_folder, sync_folder
from chainrule.train.predicting import Answered, Answering, Unanswered
from chainrule.train.scoring import Metric

FILE, PROBLEMS = "predictions.csv", "problems.csv"
_SHOWN = 5


@final
@dataclass(frozen=True)
class Predictions:
    """What a run predicts for new inputs, in their order."""

    names: tuple[str, ...]
    """Of the inputs: names of files, numbers of rows."""
    columns: Mapping[str, np.ndarray]
    """`prediction`, and probabilities or the ends of intervals; NaN or an empty word where an input cannot be used."""
    problems: tuple[Unanswered, ...]
    """Inputs that cannot be used, with the reason."""
    metrics: Mapping[str, Metric]
    """Scores, where the inputs came with their targets."""
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    @property
    def prediction(self) -> np.ndarray:
        """The likeliest class, the value or the text; of several values, one column each."""
        if "prediction" in self.columns:
            return self.columns["prediction"]
        return np.stack([v for name, v in self.columns.items() if name.startswith("prediction ")], axis=1)

    def _repr_html_(self) -> str:
        shown = [[*row.values()] for row in self.rows[:_SHOWN]]
        rest = f"{len(self):,} predictions" + (f", the first {_SHOWN}" if len(self) > _SHOWN else "")
        return notebook.table(["name", *self.columns], shown, title=rest)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each input."""
        columns = {"name": self.names, **{name: values.tolist() for name, values in self.columns.items()}}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class Written(NamedTuple):
    """A file of predictions, and what there is to say about them."""

    path: Path
    total: int
    """Rows: inputs, or steps of forecasts."""
    heads: list[str]
    first: list[list[str]]
    """The first few rows."""
    problems: list[Unanswered]
    """Of the inputs that cannot be used."""
    problems_path: Path | None
    """The file that lists them, if there are any."""
    metrics: dict[str, Metric]
    notes: list[str]


def collect(answering: Answering) -> Predictions:
    """All predictions in memory."""
    parts = list(answering)
    names = tuple(name for part in parts for name in part.names)
    heads = parts[0].columns if parts else {}
    columns = {head: np.concatenate([part.columns[head] for part in parts]) for head in heads}
    return Predictions(
        names, columns, tuple(answering.problems), answering.metrics(), tuple(answering.remarks())
    )


def write(answering: Answering, out: Path) -> Written:
    """The predictions as `predictions.csv` in a folder, whole or not at all; inputs without one in `problems.csv`."""
    make_folder(out)
    answering.into(out)
    path, problems_path = out / FILE, out / PROBLEMS
    first: list[list[str]] = []
    heads: list[str] = []
    with _replaced(path) as file:
        table = csv.writer(file)
        for part in answering:
            rows = cells(part)
            if not heads:
                heads = ["name", *part.columns]
                table.writerow(heads)
                first = rows[:_SHOWN]
            table.writerows(rows)
    bad = answering.problems
    if bad:
        with _replaced(problems_path) as file:
            csv.writer(file).writerows([["name", "where", "problem"], *bad])
    else:
        problems_path.unlink(missing_ok=True)  # those of predictions that are replaced
    return Written(
        path,
        answering.count,
        heads,
        first,
        bad,
        problems_path if bad else None,
        answering.metrics(),
        answering.remarks(),
    )


def cells(part: Answered) -> list[list[str]]:
    """Rows of a table of predictions."""
    columns = [part.names, *(_written(column) for column in part.columns.values())]
    return [list(row) for row in zip(*columns, strict=True)]


def _written(column: np.ndarray) -> list[str]:
    if column.dtype.kind == "U":
        found: list[str] = column.tolist()
        return found
    return ["" if value != value else f"{value:.7g}" for value in column.tolist()]


@contextmanager
def _replaced(path: Path) -> Iterator[TextIO]:
    """A text file to write to that takes the position of the former one when all is written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        try:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


__all__ = ["FILE", "PROBLEMS", "Predictions", "Written", "cells", "collect", "write"]
