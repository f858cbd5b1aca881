"""Tables of any format: their options, their scan, and the rows of new ones.

A format only says how the cells of a file are found. What they mean is decided in one way for all of them: columns of
numbers are features as they are, columns of words become one feature per word, dates their parts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias, final

from chainrule.core.errors import DataError
from chainrule.data.loading import bounded
from chainrule.data.loading.options import (
    BINARIZE,
    LEVELS,
    MAX_RATIO,
    SERIES,
    Option,
    choice,
    column,
    columns,
    flag,
    guard,
    optional,
)
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers import excel, parquet, plan, targets
from chainrule.data.readers.raw import Numbered, RawTable, RowSource, collect, delimited, names_of
from chainrule.data.readers.text import decode, lines, streamed
from chainrule.data.reading import TableReading

Opener: TypeAlias = Callable[[Path, str, Mapping[str, Any]], RowSource]
"""From a file, its name in messages and the options to the rows in it."""

_PIECE = 50_000
"""Rows of a new table that are in memory at a time."""


def _scan(open_rows: Opener, request: ReadRequest) -> Scan:
    where, options = request.path.name, request.options
    plain = options["notation"] == "plain"
    source = open_rows(request.path, where, options)
    rows, problems = collect(source.rows)
    if not rows:
        raise Refused("no rows", where, "no row can be read")
    names, header, odd = names_of(rows, source.named or options.get("header"), plain, where)
    notes = list(source.notes)
    if odd:
        detail = f"the first row is taken for names: {', '.join(names[:6])}; if it is data: data.header=false"
        notes.append(Problem("numbers as names", where, detail, "note"))
    raw = RawTable(where, names, header, rows[header:], problems, notes, source.unit, source.unreadable)
    return plan.scan(raw, options)


def new_rows(path: Path, reading: TableReading, **options: Any) -> Iterator[RawTable]:
    """The rows of another table for `reading.encode`, some at a time; problems are those of rows left out of them.

    Names are in the table or, where the training table had none, follow from the positions. `options` are `notation`,
    `sheet` (of a workbook) and limits (`max_bytes`, `max_ratio`); others are left aside.
    """
    where, format = path.name, FORMATS.get(suffix_of(path), csv)
    chosen = {name: options.get(name, option.default) for name, option in format.reader.options.items()}
    try:
        source = (format.open_new or format.open_rows)(path, where, chosen)
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


OPTIONS = {
    "target": Option(
        *(-1, targets.several(column)),
        'column to predict, or several: names or numbers, or "none"; the last one by default',
    ),
    "target_as": targets.TARGET_AS,
    "drop": Option([], columns, "columns to leave out: names or numbers"),
    "weight": Option(
        None, optional(column), "column that says what each row counts for in the loss; it is no feature"
    ),
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
    "levels": LEVELS,
    "binarize": BINARIZE,
    "max_bytes": guard(2**30, "largest file, in bytes"),
    "max_ratio": MAX_RATIO,
}
"""Options of tables of any format."""

_HEADER = {"header": Option(None, optional(flag), "whether the first row holds names; found out by default")}
_SHEET = {
    "sheet": Option(None, optional(column), "sheet of the workbook: its name or number; the first by default")
}


@final
@dataclass(frozen=True)
class TableFormat:
    """A format of tables: its reader, and what opens a file of it."""

    reader: SourceReader
    open_rows: Opener
    open_new: Opener | None = None
    """What opens a new table, where that need not be in memory as a whole."""

    @classmethod
    def of(cls, label: str, open_rows: Opener, own: Mapping[str, Option]) -> "TableFormat":
        """A format with options of its own."""
        return cls(SourceReader(label, "rows", {**OPTIONS, **own}, partial(_scan, open_rows)), open_rows)


def _open_csv(path: Path, where: str, options: Mapping[str, Any]) -> RowSource:
    data = bounded.read(path, where, options["max_bytes"], options["max_ratio"])
    text, unreadable, notes = decode(data, where)
    return RowSource(delimited(lines(text), unreadable, where, options["notation"] == "plain"), notes)


def _stream_csv(path: Path, where: str, options: Mapping[str, Any]) -> RowSource:
    """The same for rows that are used one after the other: no more of a file is in memory than is looked at."""
    if suffix_of(path).endswith(".gz"):
        return _open_csv(path, where, options)
    found, unreadable = streamed(path, where)
    return RowSource(delimited(found, unreadable, where, options["notation"] == "plain"), [])


csv = replace(TableFormat.of("CSV", _open_csv, _HEADER), open_new=_stream_csv)
FORMATS = {
    ".csv": csv,
    ".tsv": csv,
    ".csv.gz": csv,
    ".tsv.gz": csv,
    ".parquet": TableFormat.of("Parquet", parquet.open_rows, {}),
    ".xlsx": TableFormat.of("Excel", excel.open_rows, {**_HEADER, **_SHEET}),
}
"""Formats by the ending of a file's name."""


def suffix_of(path: Path) -> str:
    """The ending that tells the format of a file; two where the last says only that it is packed.

    >>> suffix_of(Path("a.b.CSV.gz")), suffix_of(Path("a.csv"))
    ('.csv.gz', '.csv')
    """
    return "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]).lower()


__all__ = ["FORMATS", "OPTIONS", "TableFormat", "new_rows", "suffix_of"]
