"""CSV tables: columns of numbers are features as they are, columns of words become one feature per word.

A column with at least one number in it is a column of numbers; a word in such a column is a bad cell, not a reason to
read the whole column differently. A row with a bad cell is a bad row.
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data.loading import bounded
from chainrule.data.loading.options import (
    BINARIZE,
    MAX_RATIO,
    NO_COLUMN,
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
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.readers import targets
from chainrule.data.readers.text import decode, lines
from chainrule.data.target import ReadTargets

MOST_WORDS = 64
"""A feature with more different words than this is refused."""

_MISSING = frozenset({"", "na", "n/a", "null"})
_DELIMITERS = (",", ";", "\t")
_COMMAS = re.compile(r"[-+]?[\d.]*\d,\d[\d.,]*")
_LARGEST = float(np.finfo(np.float32).max)

Row: TypeAlias = tuple[int, list[str]]
"""The number of the line a row starts on, and its cells."""


@final
@dataclass(frozen=True, eq=False)
class _Column:
    """One column, its cells read as numbers where they are numbers."""

    name: str
    cells: list[str]
    values: np.ndarray
    """The number in each cell; NaN where there is none."""
    words: bool
    """Whether the cells are taken as words."""

    def fault(self, row: int) -> tuple[str, str] | None:
        """What is wrong with a cell, if anything."""
        cell, value = self.cells[row], self.values[row]
        if cell.lower() in _MISSING:
            return "missing value", f"column {self.name!r}"
        if math.isfinite(value):
            return None
        if _number(cell) is not None:
            return "NaN or infinite", f"{cell[:40]} in column {self.name!r}"
        return None if self.words else ("non-numeric cell", f"{cell[:40]!r} in column {self.name!r}")


def _scan(request: ReadRequest) -> Scan:
    where, options = request.path.name, request.options
    data = bounded.read(request.path, where, options["max_bytes"], options["max_ratio"])
    text, unreadable, notes = decode(data, where)
    rows, problems = read_rows(text, unreadable, where)
    names, taken = _names(rows, options["header"], where)
    rows = rows[taken:]
    total = len(rows) + len(problems)
    wanted = NO_COLUMN if options["series"] and options["target"] == -1 else options["target"]
    used, target = _choose(names, wanted, options["drop"])
    table = {}
    for index in used:
        as_words = target == [index] and targets.wants_words(options["target_as"])
        table[index] = _column(names[index], [cells[index] for _, cells in rows], as_words, where)
    good, faults = _good(rows, table, where)
    problems |= faults
    found = [problems[line] for line in sorted(problems)]
    try:
        contents = _contents(table, good, target, options, where)
    except Refused as refused:
        return Scan(total, len(good), (*found, *notes, refused.problem))
    return Scan(total, len(good), (*found, *notes), contents)


def read_rows(
    text: str, unreadable: Mapping[int, Problem], where: str
) -> tuple[list[Row], dict[int, Problem]]:
    """Rows, and the problem of every row that is not UTF-8 or not as long as the first, by line."""
    delimiter = max(_DELIMITERS, key=next(lines(text), "").count)
    rows: list[Row] = []
    problems: dict[int, Problem] = {}
    reader = csv.reader(lines(text), delimiter=delimiter, skipinitialspace=True)
    end = 0
    try:
        for cells in reader:
            line, end = end + 1, reader.line_num
            bad = [unreadable[n] for n in range(line, end + 1) if n in unreadable]
            if bad:
                problems[line] = bad[0]
            elif cells and rows and len(cells) != len(rows[0][1]):
                detail = f"{len(cells)} cells instead of {len(rows[0][1])}"
                problems[line] = Problem("ragged row", f"{where} line {line}", detail)
            elif cells:
                rows.append((line, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise Refused("not CSV", f"{where} line {reader.line_num}", str(error)) from None
    if not rows:
        raise Refused("no rows", where, "no row can be read")
    return rows, problems


def _names(rows: Sequence[Row], header: bool | None, where: str) -> tuple[list[str], int]:
    """Names of the columns, and how many rows they take up."""
    first = rows[0][1]
    if header is None:
        # A word that comes again further down its column is a value, not a name.
        again = any(cell == cells[j] for j, cell in enumerate(first) if cell for _, cells in rows[1:])
        header = any(first) and not again and all(_number(cell) is None for cell in first)
    if not header:
        return [f"column {j}" for j in range(len(first))], 0
    names = [cell or f"column {j}" for j, cell in enumerate(first)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Refused("same name twice", where, f"two columns are called {twice[0]!r}", "rename one of them")
    return names, 1


def _choose(
    names: list[str], target: str | int | list[str | int], drop: list[str | int]
) -> tuple[list[int], list[int]]:
    """Positions of the columns that are used, and of the targets among them."""
    dropped = [_index(names, "drop", one) for one in drop]
    used = [index for index in range(len(names)) if index not in dropped]
    wanted: list[int] = []
    if target == -1 and used:
        wanted = used[-1:]  # the default: the last of the columns that are left
    elif target != NO_COLUMN or NO_COLUMN in names:
        wanted = [_index(names, "target", one) for one in (target if isinstance(target, list) else [target])]
    for index in wanted:
        if index in dropped:
            raise ArgumentError(f"column {names[index]!r} is the target and dropped as well")
    if not [index for index in used if index not in wanted]:
        raise ArgumentError(
            "no features are left", remedy="the last column is the target; for none: data.target=none"
        )
    return used, wanted


def _index(names: list[str], option: str, wanted: str | int) -> int:
    if isinstance(wanted, str) and wanted in names:
        return names.index(wanted)
    if isinstance(wanted, int) and -len(names) <= wanted < len(names):
        return wanted % len(names)
    hint = suggest(wanted, names) if isinstance(wanted, str) else ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise ArgumentError(f"{option}={wanted!r}: there is no such column{hint}", remedy=f"columns: {shown}")


def _number(cell: str) -> float | None:
    """The number a cell holds, if it does; infinite if it is too large for single precision."""
    try:
        value = float(cell)
    except ValueError:
        return None
    if "_" in cell:  # Python allows 1_000, tables do not
        return None
    return value if abs(value) <= _LARGEST or math.isnan(value) else math.inf


def _column(name: str, cells: list[str], as_words: bool, where: str) -> _Column:
    numbers = [_number(cell) for cell in cells]
    values = np.array([math.nan if value is None else value for value in numbers], dtype=np.float64)
    has_numbers = bool(np.isfinite(values).any())
    has_words = any(
        n is None and cell.lower() not in _MISSING for n, cell in zip(numbers, cells, strict=True)
    )
    if cells and not has_numbers and not has_words:
        raise Refused("empty column", where, f"column {name!r} is empty", f"leave it out: data.drop={name}")
    held = [cell for cell in cells if cell.lower() not in _MISSING]
    if held and not (as_words or has_numbers) and all(map(_COMMAS.fullmatch, held)):
        raise Refused(
            "numbers with commas",
            where,
            f"column {name!r} holds numbers with commas ({held[0]}), which may divide thousands or decimals",
            "write them with a point and without thousands: 1234.5",
        )
    return _Column(name, cells, values, words=as_words or not has_numbers)


def _good(
    rows: Sequence[Row], table: Mapping[int, _Column], where: str
) -> tuple[list[int], dict[int, Problem]]:
    """Numbers of the rows without a bad cell, and the first problem of every other one by line."""
    doubtful = [c for c in table.values() if not np.isfinite(c.values).all()]
    good: list[int] = []
    problems: dict[int, Problem] = {}
    for row, (line, _) in enumerate(rows):
        fault = next(filter(None, (c.fault(row) for c in doubtful)), None)
        if fault is None:
            good.append(row)
        else:
            problems[line] = Problem(fault[0], f"{where} line {line}", fault[1])
    return good, problems


def _contents(
    table: Mapping[int, _Column], good: list[int], target: list[int], options: Mapping[str, Any], where: str
) -> Contents:
    if not good:
        raise Refused("no rows", where, "no row can be used")
    features: list[np.ndarray] = []
    names: list[str] = []
    scaled: list[bool] = []
    for index, one in table.items():
        if index in target:
            continue
        if not one.words:
            features.append(one.values[good])
            names.append(one.name)
            scaled.append(True)
            continue
        words = [one.cells[row] for row in good]
        distinct = sorted(set(words))
        if len(distinct) > MOST_WORDS:
            raise Refused(
                "too many words",
                where,
                f"column {one.name!r} holds {len(distinct):,} different words; at most {MOST_WORDS} become features",
                f"leave it out: data.drop={one.name}",
            )
        features += [np.array([word == other for word in words], np.float64) for other in distinct]
        names += [f"{one.name}={word}" for word in distinct]
        scaled += [False] * len(distinct)
    kind: str = options["kind"] or ("points" if scaled == [True, True] else "table")
    found = (
        _targets([table[index] for index in target], good, options["target_as"], where) if target else None
    )
    return Contents(
        kind,
        np.stack(features, axis=1),
        None if found is None else found.y,
        "none" if found is None else found.target,
        classes=() if found is None else found.classes,
        columns=tuple(names),
        standardise=np.array(scaled),
    )


def _targets(chosen: list[_Column], good: list[int], target_as: str, where: str) -> ReadTargets:
    values = np.stack([one.values[good] for one in chosen], axis=1)
    if np.isfinite(values).all():
        names = [one.name for one in chosen]
        return targets.of_numbers(values if len(chosen) > 1 else values[:, 0], where, target_as, names)
    one = next(one for one in chosen if one.words)
    if len(chosen) > 1:
        detail = f"the target {one.name!r} holds words; several targets must be numbers"
        raise Refused("not values", where, detail, "name one column of words, or several of numbers")
    if targets.wants_numbers(target_as):
        raise Refused("not values", where, f"the target {one.name!r} holds words", "use data.target_as=class")
    return targets.of_words([one.cells[row] for row in good], where)


reader = SourceReader(
    "CSV",
    "rows",
    {
        "target": Option(
            *(-1, targets.several(column)),
            'column to predict, or several: names or numbers, or "none"; the last one by default',
        ),
        "target_as": targets.TARGET_AS,
        "drop": Option([], columns, "columns to leave out: names or numbers"),
        "header": Option(None, optional(flag), "whether the first row holds names; found out by default"),
        "kind": Option(
            None, optional(choice("table", "points")), "points by default if there are two features"
        ),
        "series": SERIES,
        "binarize": BINARIZE,
        "max_bytes": guard(2**30, "largest file, in bytes"),
        "max_ratio": MAX_RATIO,
    },
    _scan,
)

__all__ = ["MOST_WORDS", "read_rows", "reader"]
