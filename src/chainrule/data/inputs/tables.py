"""New rows of a table: files, data frames and arrays, brought to the features of training by the names of columns.

Cells are read by the plan that the training table was read by, so a word, a date or a percentage means what it meant
there, and what is missing is filled in by the same values.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data.columns.number import NumberReading
from chainrule.data.columns.words import WordsReading
from chainrule.data.inputs import arrays, frames
from chainrule.data.inputs.protocol import (
    Given,
    InputChunk,
    Inputs,
    KnownTargets,
    Preparation,
)
from chainrule.data.loading.problems import Problem
from chainrule.data.readers.table import new_rows
from chainrule.data.reading import ColumnPlan, TableReading
from chainrule.data.schema import Schema

_ARRAYS = (".npy", ".npz")
_BLOCK = 2**20


def inputs(given: Given, prepared: Preparation) -> Inputs:
    """Rows of a file (CSV, or arrays of NumPy), a data frame, or an array, with or without the target."""
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        if path.suffix.lower() in _ARRAYS:
            return arrays.inputs(path, prepared, "rows")
        return _of_file(path, prepared)
    if isinstance(given, frames.Frame):
        plan, note = reading_for(prepared)
        return _of_frame(frames.columns_of(given), plan, prepared, [note])
    reading = prepared.reading
    raw = arrays.as_array(given)
    names = [plan.name for plan in reading.columns if plan.features] if reading is not None else []
    if reading is not None and raw.shape[-1] == len(names) and not _are_features(reading):
        columns = dict(zip(names, raw.reshape(-1, len(names)).T, strict=True))
        return _of_frame(columns, reading, prepared, [])
    return arrays.inputs(raw, prepared, "rows")


def reading_for(prepared: Preparation) -> tuple[TableReading, str]:
    """The plan of the training table, and what to say if the run did not keep it."""
    if prepared.reading is not None:
        return prepared.reading, ""
    again = prepared.reread()
    if again is not None:
        return again, "this run keeps no plan of its columns: its training table was read again"
    return reading_of(prepared.schema), "this run keeps no plan of its columns: they follow from their names"


def reading_of(schema: Schema) -> TableReading:
    """A plan by the names of features alone: numbers, and words where a name is `column=word`.

    >>> plan = reading_of(Schema("table", (3,), columns=("size", "colour=red", "colour=white")))
    >>> plan.encode(["colour", "size"], [["white", "3"]]).x.tolist()
    [[3.0, 0.0, 1.0]]
    """
    count = schema.shape[-1]
    features = schema.columns or tuple(f"column {index}" for index in range(count))
    words: dict[str, list[str]] = {}
    for feature in features:
        name, equals, word = feature.partition("=")
        words.setdefault(name, []).extend([word] if equals else [])
    plans = [
        ColumnPlan(name, WordsReading(tuple(found)) if found else NumberReading())
        for name, found in words.items()
    ]
    return TableReading(tuple(plans), header=features != tuple(f"column {index}" for index in range(count)))


class Piece(NamedTuple):
    """Some rows of a file."""

    columns: list[str]
    locations: list[str]
    """Of each row, as a person would look for it."""
    rows: list[list[str] | Problem]
    """The cells of each, or what is wrong with it."""


def pieces(path: Path, reading: TableReading, prepared: Preparation) -> Iterator[Piece]:
    """The rows of a file in their order, some at a time."""
    if not path.is_file():
        if path.is_dir():
            raise DataError(f"{path} is a folder", remedy="the run was trained on a table: give a file")
        raise DataError(f"{path} is no file" if path.exists() else f"{path} does not exist")
    for piece in new_rows(path, reading, **prepared.options):
        rows: dict[int, list[str] | Problem] = {**dict(piece.rows), **piece.problems}
        numbers = sorted(rows)
        yield Piece(
            piece.names, [piece.location(number) for number in numbers], [rows[number] for number in numbers]
        )


def _of_file(path: Path, prepared: Preparation) -> Inputs:
    reading, note = reading_for(prepared)
    notes = [note]

    def chunks(size: int) -> Iterator[InputChunk]:
        del size  # the reader of the file decides
        count = 0
        for piece in pieces(path, reading, prepared):
            names = [str(count + index) for index in range(1, len(piece.rows) + 1)]
            count += len(piece.rows)
            yield _chunk(piece, names, reading, prepared, notes)

    return Inputs("rows", _lines(path), chunks, notes)


def _of_frame(
    columns: dict[str, np.ndarray], reading: TableReading, prepared: Preparation, notes: list[str]
) -> Inputs:
    written = {name: frames.as_written(name, one, reading.features) for name, one in columns.items()}
    total = min((len(column) for column in columns.values()), default=0)

    def chunks(size: int) -> Iterator[InputChunk]:
        for first in range(0, total, size):
            cells = [frames.cells(column[first : first + size]) for column in written.values()]
            names = [str(index) for index in range(first, first + len(cells[0]))]
            rows: list[list[str] | Problem] = [list(row) for row in zip(*cells, strict=True)]
            piece = Piece(list(columns), [f"row {name}" for name in names], rows)
            yield _chunk(piece, names, reading, prepared, notes)

    return Inputs("rows", total, chunks, notes)


def _chunk(
    piece: Piece, names: Sequence[str], reading: TableReading, prepared: Preparation, notes: list[str]
) -> InputChunk:
    rows = piece.rows
    faults = {index: row for index, row in enumerate(rows) if isinstance(row, Problem)}
    whole = [index for index in range(len(rows)) if index not in faults]
    cells = [row for row in rows if not isinstance(row, Problem)]
    found = reading.encode(piece.columns, cells)
    notes += [note for note in found.notes if note not in notes]
    for row, bad in found.faults.items():
        faults[whole[row]] = Problem(bad.kind, piece.locations[whole[row]], bad.detail)
    good = np.array([row for row in range(len(cells)) if row not in found.faults], np.int64)
    positions = np.array(whole, np.int64)[good]
    known = _targets(piece.columns, cells, good, reading, prepared)
    return InputChunk(names, positions, prepared.examples(found.x[good]), faults, known)


def _targets(
    columns: Sequence[str],
    cells: Sequence[list[str]],
    good: np.ndarray,
    reading: TableReading,
    prepared: Preparation,
) -> KnownTargets | None:
    decoded = reading.decode_target(columns, cells)
    if decoded is None:
        return None
    known = np.array([row not in decoded.faults for row in range(len(cells))], bool)[good]
    unknown = next((decoded.faults[row].reason for row in good.tolist() if row in decoded.faults), "")
    return prepared.scaled(KnownTargets(decoded.y[good], known, unknown)) if known.any() else None


def _are_features(reading: TableReading) -> bool:
    """Whether every column is a number and a feature as it is, so that an array needs no reading."""
    return all(plan.features == (plan.name,) for plan in reading.columns if plan.features)


def _lines(path: Path) -> int:
    """About how many rows a file has; 0 where its bytes do not say."""
    if path.suffix.lower() not in (".csv", ".tsv", ".txt") or not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))


__all__ = ["Piece", "inputs", "pieces", "reading_for", "reading_of"]
