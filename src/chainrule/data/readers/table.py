"""CSV tables: columns of numbers are features as they are, columns of words become one feature per word."""

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from chainrule.core.errors import DataError
from chainrule.data.loading import bounded
from chainrule.data.loading.options import (
    BINARIZE,
    MAX_RATIO,
    SERIES,
    Option,
    choice,
    column,
    columns,
    flag,
    guard,
    optional,
    resolve,
)
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers import plan, targets
from chainrule.data.readers.raw import Numbered, RawTable, RowSource, collect, delimited, names_of
from chainrule.data.readers.text import decode
from chainrule.data.reading import TableReading

_PIECE = 50_000
"""Rows of a new table that are in memory at a time."""


def _scan(request: ReadRequest) -> Scan:
    where, options = request.path.name, request.options
    plain = options["notation"] == "plain"
    source = _open_csv(request.path, where, options)
    rows, problems = collect(source.rows)
    if not rows:
        raise Refused("no rows", where, "no row can be read")
    names, header, odd = names_of(rows, options["header"], plain, where)
    notes = list(source.notes)
    if odd:
        detail = f"the first row is taken for names: {', '.join(names[:6])}; if it is data: data.header=false"
        notes.append(Problem("numbers as names", where, detail, "note"))
    return plan.scan(RawTable(where, names, header, rows[header:], problems, notes, source.unit), options)


def new_rows(path: Path, reading: TableReading, **options: Any) -> Iterator[RawTable]:
    """The rows of another table for `reading.encode`, some at a time; problems are those of rows left out of them.

    Names are in the table or, where the training table had none, follow from the positions. `options` are `notation`
    and limits (`max_bytes`, `max_ratio`).
    """
    where = path.name
    known = {name: option for name, option in OPTIONS.items() if option.guard or name == "notation"}
    try:
        source = _open_csv(path, where, resolve("table", known, options))
        ahead: list[Numbered] = []
        for number, found in source.rows:
            ahead.append((number, found))
            if not isinstance(found, Problem):
                names, taken = reading.names(found)
                break
        else:
            raise Refused("no rows", where, "no row can be read")
        rows = chain(ahead[: len(ahead) - taken], source.rows)
        while piece := list(islice(rows, _PIECE)):
            yield RawTable(where, names, bool(taken), *collect(piece), source.notes, source.unit)
    except Refused as refused:
        problem = refused.problem
        raise DataError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None


def _open_csv(path: Path, where: str, options: Mapping[str, Any]) -> RowSource:
    data = bounded.read(path, where, options["max_bytes"], options["max_ratio"])
    text, unreadable, notes = decode(data, where)
    return RowSource(delimited(text, unreadable, where, options["notation"] == "plain"), notes)


OPTIONS = {
    "target": Option(
        *(-1, targets.several(column)),
        'column to predict, or several: names or numbers, or "none"; the last one by default',
    ),
    "target_as": targets.TARGET_AS,
    "drop": Option([], columns, "columns to leave out: names or numbers"),
    "missing": Option(
        "drop",
        choice("drop", *plan.FILLED, "error"),
        "missing cells: drop the row as a bad one, fill in the median or mean of the training rows with a further "
        "feature that says so, or error",
    ),
    "kind": Option(None, optional(choice("table", "points")), "points by default if there are two features"),
    "notation": Option(
        "auto",
        choice("auto", "plain"),
        "plain: numbers are written 1234.5, and percent, currencies, decimal commas and dates are words",
    ),
    "decimal": Option(
        "auto", choice("auto", "point", "comma"), "decimal mark: point (1,234.5) or comma (1.234,5)"
    ),
    "dates": Option(
        "auto", choice("auto", "day-first", "month-first"), "what dates like 03/04/2024 begin with"
    ),
    "series": SERIES,
    "binarize": BINARIZE,
    "max_bytes": guard(2**30, "largest file, in bytes"),
    "max_ratio": MAX_RATIO,
}
"""Options of tables of any format."""

reader = SourceReader(
    "CSV",
    "rows",
    {
        **OPTIONS,
        "header": Option(None, optional(flag), "whether the first row holds names; found out by default"),
    },
    _scan,
)

__all__ = ["OPTIONS", "new_rows", "reader"]
