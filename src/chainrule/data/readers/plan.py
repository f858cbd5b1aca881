"""From the cells of a table to features and targets: every column gets a reading, every row is read by it.

A column with at least one plain number in it is a column of numbers; a word in such a column is a bad cell, not a
reason to read the whole column differently. A row with a bad cell is a bad row. A row with a missing cell is one too,
unless missing cells are to be filled in. Where more different words than could become features are mostly numbers or
dates in another notation, the others are bad cells too.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data import columns
from chainrule.data.column import CellFault, ColumnReading, Hints, is_missing
from chainrule.data.columns.number import NumberReading, decimal_of, is_number
from chainrule.data.columns.words import MOST_WORDS, WordsReading
from chainrule.data.loading.levels import counted
from chainrule.data.loading.options import NO_COLUMN
from chainrule.data.loading.problems import Effect, Problem, Refused
from chainrule.data.loading.scan import Contents, Scan
from chainrule.data.readers import targets
from chainrule.data.readers.raw import RawTable
from chainrule.data.reading import ColumnPlan, TableReading
from chainrule.data.target import ReadTargets
from chainrule.data.targets.class_ import MOST_CLASSES

FILLED = ("median", "mean")
"""Values of the option `missing` that fill in what is missing."""

_INDEX_NAMES = re.compile(r"(.*[ _.-])?(id|index|idx|key|nr|no|number|row)|rowid|column 0|unnamed: 0|#")
"""Names of columns that tell rows apart; they are remarked on if their whole numbers go up from row to row."""


@final
@dataclass(frozen=True, eq=False)
class _Column:
    """One column that is used, with its plan and the codes of its cells."""

    plan: ColumnPlan
    cells: list[str]
    codes: np.ndarray


def scan(raw: RawTable, options: Mapping[str, Any]) -> Scan:
    """The scan of a table."""
    total = len(raw.rows) + len(raw.problems)
    wanted = NO_COLUMN if options["series"] and options["target"] == -1 else options["target"]
    weight = None if options["weight"] is None else _index(raw.names, "weight", options["weight"])
    used, target = _choose(raw.names, wanted, [*options["drop"], *([] if weight is None else [weight])])
    table = _columns(raw, used, target, options)
    weights, unweighted = _weights(raw, weight, options)
    good, faults = _good(table, len(raw.rows))
    if unweighted:
        faults = {**unweighted, **faults}
        good = [row for row in good if row not in unweighted]
    problems = dict(raw.problems)
    for row, fault in faults.items():
        number = raw.rows[row][0]
        stops = fault.kind == "missing value" and options["missing"] == "error"
        remedy = "fill them in: data.missing=median" if fault.kind == "missing value" else ""
        effect: Effect = "stop" if stops else "skip"
        problems[number] = Problem(fault.kind, raw.location(number), fault.detail, effect, remedy)
    found = (*(problems[number] for number in sorted(problems)), *raw.notes)
    try:
        contents = _contents(raw, table, good, target, options)
        contents = replace(contents, weights=None if weights is None else weights[good])
    except Refused as refused:
        return Scan(total, len(good), (*found, refused.problem))
    remarks = (*_index_like(raw, table), *_whole_numbers(raw.where, contents, options["target_as"]))
    return Scan(total, len(good), (*found, *remarks), contents)


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
    if str(wanted) in names:  # a name that is a number, as years are
        return names.index(str(wanted))
    hint = suggest(wanted, names) if isinstance(wanted, str) else ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise ArgumentError(f"{option}={wanted!r}: there is no such column{hint}", remedy=f"columns: {shown}")


def _weights(
    raw: RawTable, index: int | None, options: Mapping[str, Any]
) -> tuple[np.ndarray | None, dict[int, CellFault]]:
    """What each row counts for, and the rows of which that cannot be said."""
    if index is None:
        return None, {}
    name = raw.names[index]
    if options["series"]:
        raise ArgumentError(
            f"weight={name!r}: windows of a series have no weights", remedy="leave data.weight out"
        )
    cells = [row[index] for _, row in raw.rows]
    weights = NumberReading().codes(cells)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    detail = "in column {!r} is no weight: a number of at least 0"
    return weights, {
        int(row): CellFault("bad weight", f"{cells[row]!r} {detail.format(name)}") for row in bad
    }


def _columns(
    raw: RawTable, used: Sequence[int], target: Sequence[int], options: Mapping[str, Any]
) -> dict[int, _Column]:
    """The columns that are used by their positions, each with its reading and its codes."""
    cells = {index: [row[index] for _, row in raw.rows] for index in used}
    plain = options["notation"] == "plain"
    hints = Hints(raw.where, plain, options["decimal"], options["dates"])
    if hints.decimal == "auto" and not plain:
        doubtful = (column for column in cells.values() if any("," in cell for cell in column))
        shown = (decimal_of([cell for cell in column if not is_missing(cell)]) for column in doubtful)
        hints = hints._replace(decimal=next((found for found in shown if found != "auto"), "auto"))
    table = {}
    for index, column in cells.items():
        codes = None if hints.decimal == "comma" else NumberReading().codes(column)
        if (
            codes is not None and column and np.isfinite(codes).all()
        ):  # numbers throughout: nothing to find out
            plan = _used(raw.names[index], NumberReading(), index in target, options)
        else:
            plan = _plan(raw, index, column, index in target, hints, options)
            assert plan.reading is not None, "a column that is used is read"
            codes = plan.reading.codes(column)
        table[index] = _Column(plan, column, codes)
    return table


def _plan(
    raw: RawTable,
    index: int,
    cells: Sequence[str],
    is_target: bool,
    hints: Hints,
    options: Mapping[str, Any],
) -> ColumnPlan:
    name = raw.names[index]
    if name in raw.unreadable:
        detail = f"column {name!r} holds {raw.unreadable[name]}; only numbers, words and dates are read"
        raise Refused("cells that are not read", raw.where, detail, f"leave it out: {raw.without(name)}")
    if cells and all(
        is_missing(cell) or (is_number(cell) and not math.isfinite(float(cell))) for cell in cells
    ):
        remedy = f"leave it out: {raw.without(name)}"
        raise Refused("empty column", hints.where, f"column {name!r} is empty", remedy)
    held = [cell for cell in cells if not is_missing(cell)]
    if not is_target:
        return _used(name, columns.recognise(name, held, hints), False, options)
    words = targets.wants_words(options["target_as"]) and not all(map(is_number, held))
    number = None if words else columns.number.recognise(name, held, hints)
    return _used(name, number or WordsReading.of(held), True, options)


def _used(name: str, reading: ColumnReading, is_target: bool, options: Mapping[str, Any]) -> ColumnPlan:
    if is_target or options["missing"] not in FILLED:
        return ColumnPlan(name, reading, target=is_target)
    return ColumnPlan(name, reading, fill=_unknown(reading))


def _unknown(reading: ColumnReading) -> tuple[float, ...]:
    """What features are where cells are missing, as long as nothing is known of the training rows."""
    return tuple(math.nan if one else 0.0 for one in reading.scaled)


def _good(table: Mapping[int, _Column], rows: int) -> tuple[list[int], dict[int, CellFault]]:
    """Numbers of the rows without a bad cell, and the first fault of every other one."""
    faults: dict[int, CellFault] = {}
    for column in table.values():
        faults = {**column.plan.faults(column.cells, column.codes), **faults}
    return [row for row in range(rows) if row not in faults], faults


def _contents(
    raw: RawTable,
    table: Mapping[int, _Column],
    good: list[int],
    target: Sequence[int],
    options: Mapping[str, Any],
) -> Contents:
    if not good:
        raise Refused("no rows", raw.where, "no row can be used")
    final = {index: _settled(column, good, raw) for index, column in table.items()}
    plans = [final[j].plan if j in final else ColumnPlan(name, None) for j, name in enumerate(raw.names)]
    reading = TableReading(tuple(plans), raw.header)
    found = _targets([final[index] for index in target], raw.where, options) if target else None
    scaled, levels = reading.scaled, options["levels"]
    x = np.concatenate([c.plan.encode(c.codes) for c in final.values() if not c.plan.target], axis=1)
    return Contents(
        options["kind"] or ("points" if scaled.tolist() == [True, True] else "table"),
        x if levels is None else counted(x, None, levels, raw.where),
        None if found is None else found.y,
        "none" if found is None else found.target,
        classes=() if found is None else found.classes,
        columns=reading.features,
        levels=levels or 0,
        standardise=scaled if levels is None else None,
        fill=options["missing"] if options["missing"] in FILLED else "",
        reading=replace(reading, classes=() if found is None else found.classes),
    )


def _settled(column: _Column, good: list[int], raw: RawTable) -> _Column:
    """The good rows of a column; its list of words is that of these rows."""
    every = len(good) == len(column.cells)
    cells = column.cells if every else [column.cells[row] for row in good]
    plan, codes = column.plan, column.codes if every else column.codes[good]
    known, reading = np.isfinite(codes), plan.reading
    assert reading is not None, "a column that is used is read"
    if not known.any():
        detail = f"column {plan.name!r} is empty in every row that can be used"
        raise Refused("empty column", raw.where, detail, f"leave it out: {raw.without(plan.name)}")
    if isinstance(reading, WordsReading):
        reading = WordsReading.of(reading.words[int(code)] for code in np.unique(codes[known]))
        codes = reading.codes(cells)
        if len(reading.words) > MOST_WORDS and not plan.target:
            raise Refused(
                "too many words",
                raw.where,
                f"column {plan.name!r} holds {len(reading.words):,} different words; "
                f"at most {MOST_WORDS} become features",
                f"leave it out: {raw.without(plan.name)}",
            )
    gaps = sum(reading.absent(column.cells[row]) for row in np.flatnonzero(np.isnan(column.codes)))
    settled = replace(
        plan,
        reading=reading,
        fill=None if plan.fill is None else _unknown(reading),
        marked=plan.fill is not None and not known.all(),
        missing=gaps,
        shown=reading.shown(codes[known]),
    )
    return _Column(settled, cells, codes)


def _targets(chosen: list[_Column], where: str, options: Mapping[str, Any]) -> ReadTargets:
    target_as, word = options["target_as"], [c for c in chosen if isinstance(c.plan.reading, WordsReading)]
    if not word:
        values = np.stack([column.codes for column in chosen], axis=1)
        names = [column.plan.name for column in chosen]
        return targets.of_numbers(values if len(chosen) > 1 else values[:, 0], where, target_as, names)
    name = word[0].plan.name
    if len(chosen) > 1:
        detail = f"the target {name!r} holds words; several targets must be numbers"
        raise Refused("not values", where, detail, "name one column of words, or several of numbers")
    if targets.wants_numbers(target_as):
        raise Refused("not values", where, f"the target {name!r} holds words", "use data.target_as=class")
    return targets.of_words(word[0].cells, where)


def _whole_numbers(where: str, contents: Contents, target_as: str) -> list[Problem]:
    """A remark on a target of a few whole numbers: what it was taken for, and how to have it otherwise."""
    reading, y = contents.reading, contents.y
    if target_as != targets.AUTO or reading is None or y is None or y.ndim > 1:
        return []
    target = next(plan for plan in reading.columns if plan.target)
    different = len(np.unique(y))
    if not isinstance(target.reading, NumberReading) or not 2 < different <= MOST_CLASSES:
        return []
    numbers = f"target {target.name!r}: {different} different whole numbers in {len(y):,} rows"
    if contents.classes:
        detail = f"{numbers} are taken for classes; for values: data.target_as=value"
        return [Problem("whole numbers as classes", where, detail, "note")]
    if (y == np.rint(y)).all():
        detail = f"{numbers} are taken for values; for classes: data.target_as=class"
        return [Problem("whole numbers as values", where, detail, "note")]
    return []


def _index_like(raw: RawTable, table: Mapping[int, _Column]) -> list[Problem]:
    """A remark on every feature that counts the rows: it says where a row stands, not what it is."""
    found = []
    for column in table.values():
        name = column.plan.name
        if column.plan.target or not isinstance(column.plan.reading, NumberReading):
            continue
        codes = column.codes[np.isfinite(column.codes)]
        steps, rising = np.diff(codes), bool((codes == np.rint(codes)).all() and (np.diff(codes) > 0).all())
        if len(steps) > 1 and rising and ((steps == 1).all() or _INDEX_NAMES.fullmatch(name.lower())):
            detail = f"column {name!r} counts the rows; leave it out: {raw.without(name)}"
            found.append(Problem("index column", raw.where, detail, "note"))
    return found


__all__ = ["FILLED", "scan"]
