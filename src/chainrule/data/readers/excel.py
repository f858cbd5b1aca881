"""Excel tables (.xlsx), one sheet of a workbook, read by the package openpyxl where it is installed.

Read are the values that Excel computed last, never formulas. Cells become text as CSV would hold it, so that a table
means the same in every format.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

from chainrule.data.loading import bounded
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.readers.raw import Numbered, RowSource, cell_text

_MEMBERS = 10_000
_HEAD = 20
"""Rows among which the first of the table is looked for."""


def open_rows(path: Path, where: str, options: Mapping[str, Any]) -> RowSource:
    """The rows of the sheet that is named, or of the first one."""
    try:
        import openpyxl  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        detail = "Excel is read by the package openpyxl, which is not installed"
        raise Refused("package missing", where, detail, "install it: pip install openpyxl") from None
    for name, data in bounded.members(path, where, options["max_bytes"], options["max_ratio"], _MEMBERS):
        if (
            b"<!DOCTYPE" in data or b"<!ENTITY" in data
        ):  # Excel writes none; they can stand for more than memory holds
            raise Refused("damaged", where, f"{name} declares entities, which no workbook does")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of drawings and rules that are not read anyway
            # From memory: rows may be left unread, and an open file would stay behind.
            book = openpyxl.load_workbook(
                BytesIO(path.read_bytes()), read_only=True, data_only=True, keep_links=False
            )
        sheets = [sheet.title for sheet in book.worksheets]
        sheet = book.worksheets[_chosen(sheets, options["sheet"], where)]
        sheet.reset_dimensions()  # what the file says of its size is not believed
    except Refused:
        raise
    except Exception as error:  # the package raises whatever its parsers do
        raise _damaged(where, error) from None
    others = [name for name in sheets if name != sheet.title]
    detail = f"sheet {sheet.title!r} is read; others, by data.sheet: {', '.join(others[:5])}"
    return RowSource(
        _rows(sheet, where), [Problem("several sheets", where, detail, "note")] if others else [], "row"
    )


def _chosen(sheets: list[str], wanted: str | int | None, where: str) -> int:
    if wanted is None or wanted == 0:
        if not sheets:
            raise Refused("no rows", where, "the workbook has no sheet with cells")
        return 0
    if isinstance(wanted, int) and 0 < wanted < len(sheets):
        return wanted
    if str(wanted) in sheets:
        return sheets.index(str(wanted))
    raise Refused(
        "no such sheet", where, f"there is no sheet {wanted!r}", f"sheets: {', '.join(sheets[:12])}"
    )


def _rows(sheet: Any, where: str) -> Iterator[Numbered]:
    """Rows as wide as the first of more than one cell; single cells above it are a title."""
    rows = _filled(sheet, where)
    ahead = list(islice(rows, _HEAD))
    top = next((number for number, cells in ahead if len(cells) > 1), 0)
    width = len(dict(ahead).get(top, [""]))
    for number, cells in chain(ahead, rows):
        if number < top or len(cells) > width:
            detail = f"{len(cells)} cell{'s' * (len(cells) > 1)} instead of {width}"
            yield number, Problem("ragged row", f"{where} row {number}", detail)
        else:
            yield number, cells + [""] * (width - len(cells))


def _filled(sheet: Any, where: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, without the empty cells at their ends."""
    try:
        for number, row in enumerate(sheet.iter_rows(), start=1):
            cells = [_as_shown(cell) for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                yield number, cells
    except Exception as error:  # the package raises whatever its parsers do
        raise _damaged(where, error) from None


def _as_shown(cell: Any) -> str:
    """A cell as CSV would hold it: of a cell that Excel shows as 12 %, 12% and not the 0.12 that it keeps."""
    value = cell.value
    if isinstance(value, int | float) and not isinstance(value, bool) and "%" in _bare(cell.number_format):
        return f"{cell_text(round(100 * value, 12))}%"
    return cell_text(value)


def _bare(number_format: str | None) -> str:
    """A format without what it quotes: letters to be shown as they are."""
    return re.sub(r'"[^"]*"|\\.', "", number_format or "")


def _damaged(where: str, error: Exception) -> Refused:
    first = (str(error).splitlines() or [""])[0] or type(error).__name__
    return Refused(
        "damaged", where, f"no workbook of Excel, or a damaged one ({first})", "save the file again"
    )


__all__ = ["open_rows"]
