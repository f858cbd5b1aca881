"""Rows as people keep them: samples written as a CSV file with the columns of the table, and rows with gaps read."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data.column import is_missing
from chainrule.data.reading import TableReading
from chainrule.data.schema import Schema
from chainrule.data.target import Cells


def row_cells(schema: Schema, x: np.ndarray, reading: TableReading | None) -> Cells:
    """Examples in original units as cells under the names of their columns; words are words again.

    >>> row_cells(Schema("table", (2,), columns=("height", "weight")), np.array([[1.5, 60.0]]), None)
    Cells(heads=['height', 'weight'], rows=[[1.5, 60.0]])
    """
    if reading is not None and reading.features == schema.columns:
        heads, columns = reading.restored(x)
        return Cells(heads, [list(row) for row in zip(*columns, strict=True)])
    return Cells(_heads(schema), [[float(f"{value:.6g}") for value in row] for row in x.tolist()])


def write_rows(
    file: Path,
    schema: Schema,
    x: np.ndarray,
    reading: TableReading | None,
    asked: Sequence[str] = (),
) -> Path:
    """Examples in original units as a CSV file; `asked` says what each was asked to be, in a last column."""
    heads, rows = row_cells(schema, x, reading)
    name = reading.targets[0] if reading and len(reading.targets) == 1 else "target"
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*heads, *([name] if asked else [])])
        for number, row in enumerate(rows):
            writer.writerow([*row, *([asked[number]] if asked else [])])
    return file


class GivenRow(NamedTuple):
    """A row of which something is known, in original units."""

    values: np.ndarray
    """0 where nothing is known."""
    known: np.ndarray


def read_row(file: Path, schema: Schema, reading: TableReading | None) -> GivenRow:
    """What is known of one row: a CSV file of a header and a row, whose empty cells are what is missing.

    Columns may be left out altogether.
    """
    try:
        with file.expanduser().open(encoding="utf-8", newline="") as lines:
            table = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ArgumentError(f"{file}: {error}", remedy="give a CSV file with a header and one row") from None
    if len(table) != 2 or len(table[0]) != len(table[1]):
        raise ArgumentError(
            f"{file}: {len(table)} lines", remedy="a header and one row of as many cells, empty where missing"
        )
    given = {name.strip(): cell.strip() for name, cell in zip(*table, strict=True)}
    read = reading if reading is not None and reading.features == schema.columns else None
    heads = read.restored(np.zeros((0, schema.dimensions)))[0] if read else _heads(schema)
    for name, cell in given.items():
        if name not in heads and (read is None or cell or name not in read.targets):
            raise ArgumentError(
                f"{file}: unknown column {name!r}{suggest(name, heads)}",
                remedy=f"columns: {', '.join(heads[:20])}",
            )
    filled = {name: cell for name, cell in given.items() if not is_missing(cell)}
    if read is not None:
        return GivenRow(*read.encode_known(filled))
    values, known = np.zeros(schema.shape), np.zeros(schema.shape, bool)
    for name, cell in filled.items():
        try:
            values[heads.index(name)], known[heads.index(name)] = float(cell), True
        except ValueError:
            raise ArgumentError(f"{file}: {cell!r} in column {name!r} is not a number") from None
    return GivenRow(values, known)


def _heads(schema: Schema) -> list[str]:
    return list(schema.columns or (f"x{number}" for number in range(schema.dimensions)))


__all__ = ["GivenRow", "read_row", "row_cells", "write_rows"]
