"""The exact numbers of a picture as a table of comma-separated values, for spreadsheets and other programs."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.core.pictures import Bars, Heatmap, Lines, Passage, Picture, Scatter, Swarm, Table, Waterfall
from chainrule.core.quoting import plain
from chainrule.train.files import write_atomic

Rows = list[Sequence[Any]]
_FORMULA = ("=", "+", "-", "@")
"""What spreadsheets take for the beginning of a formula."""


def write_csv(picture: Picture, path: Path) -> Path | None:
    """Write the numbers of a picture, if it has any that a table can hold; gives the path."""
    rows = table_of(picture)
    if rows is None:
        return None
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[_cell(cell) for cell in row] for row in rows])
    write_atomic(path, out.getvalue(), durable=False)
    return path


def table_of(picture: Picture) -> Rows | None:
    """Names of columns and rows of numbers; none for images, films and other pictures that are no tables.

    >>> table_of(Bars("b", "B", "class", "share", ["cat", "dog"], {"a": np.array([0.25, 0.75])}))
    [['class', 'a'], ('cat', 0.25), ('dog', 0.75)]
    """
    match picture:
        case Table():
            return [list(picture.columns), *picture.rows]
        case Bars():
            return _bars(picture)
        case Waterfall():
            return _steps(picture)
        case Swarm():
            return _dots(picture)
        case Heatmap():
            return _matrix(picture)
        case Lines():
            return _curves(picture)
        case Scatter():
            return _points(picture)
        case Passage():
            values = np.asarray(picture.values, float).tolist()
            return [["piece", picture.unit or "value"], *zip(picture.pieces, values, strict=True)]
    return None


def _bars(picture: Bars) -> Rows:
    errors = picture.errors or {}
    heads = [picture.x_label, *picture.series, *(f"standard error of {name}" for name in errors)]
    columns = [np.asarray(one).tolist() for one in (*picture.series.values(), *errors.values())]
    return [heads, *zip(picture.positions, *columns, strict=True)]


def _steps(picture: Waterfall) -> Rows:
    steps = np.asarray(picture.steps, float)
    errors = np.full(steps.shape, np.nan) if picture.errors is None else np.asarray(picture.errors, float)
    return [
        ["name", picture.x_label, "standard error"],
        (picture.ends[0], picture.start, ""),
        *zip(picture.names, steps.tolist(), errors.tolist(), strict=True),
        (picture.ends[1], picture.start + float(steps.sum()), ""),
    ]


def _dots(picture: Swarm) -> Rows:
    values = np.asarray(picture.values, float)
    shades = np.full(values.shape, np.nan) if picture.shades is None else np.asarray(picture.shades, float)
    rows: Rows = [["name", "row", picture.x_label, picture.shade_label or "shade"]]
    for name, own, shade in zip(picture.names, values.tolist(), shades.tolist(), strict=True):
        rows += [(name, *numbered) for numbered in zip(range(len(own)), own, shade, strict=True)]
    return rows


def _matrix(picture: Heatmap) -> Rows:
    values = np.atleast_2d(picture.values)
    names, columns = (
        list(given) or [str(i) for i in range(size)]
        for given, size in zip((picture.rows, picture.columns), values.shape, strict=True)
    )
    return [["", *columns], *([name, *row] for name, row in zip(names, values.tolist(), strict=True))]


def _points(picture: Scatter) -> Rows:
    flat = [(name, *point) for name, some in picture.groups.items() for point in np.asarray(some).tolist()]
    heads = ["group", picture.x_label, picture.y_label]
    if picture.shades is None:
        return [heads, *flat]
    shades = np.asarray(picture.shades[0], float).tolist()
    return [[*heads, picture.shades[1]], *((*row, shade) for row, shade in zip(flat, shades, strict=True))]


def _curves(picture: Lines) -> Rows:
    rows: Rows = [["series", picture.x_label or "x", picture.y_label or "y", "low", "high"]]
    named = {**picture.series}
    if picture.threads is not None:
        x, several = picture.threads
        named |= {f"thread {i}": (np.asarray(x), np.asarray(y)) for i, y in enumerate(several)}
    for label, columns in named.items():
        for values in zip(*(np.asarray(one, float).tolist() for one in columns), strict=True):
            across = picture.names[int(values[0])] if picture.names else values[0]
            rows.append([label, across, *values[1:], *[""] * (4 - len(values))])
    return rows


def _cell(cell: Any) -> Any:
    """Numbers with all their digits; text that a spreadsheet would run is quoted."""
    if isinstance(cell, str):
        text = plain(cell)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return "" if isinstance(cell, float) and np.isnan(cell) else cell


__all__ = ["table_of", "write_csv"]
