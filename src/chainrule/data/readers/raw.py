"""Tables as they are written: rows of cells under names, before anything is known about what the cells mean.

CSV is divided at commas, semicolons or tabs, whichever fits the first line, or at bars or spaces. The first row holds
names if none of its cells is a number; numbers are names only if they count up from column to column, as years do, and
no other row does.
"""

import csv
import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from chainrule.core.quoting import shell_word
from chainrule.data.columns.number import decimal_of, is_number
from chainrule.data.loading.problems import Problem, Refused

_DELIMITERS = (",", ";", "\t")
_RARE_DELIMITERS = ("|", " ")
"""What divides cells where nothing else does and every line has as many of them."""
_DIGITS = 9
"""The longest number that is taken for a name."""
_HEAD = 20
"""Lines by which it is decided how a table is written."""

Row: TypeAlias = tuple[int, list[str]]
"""The number of the line a row starts on, and its cells."""
Numbered: TypeAlias = tuple[int, list[str] | Problem]
"""The same, or what is wrong with the row."""


class RowSource(NamedTuple):
    """The rows of a file one after the other, each with its number, its cells, or what is wrong with it."""

    rows: Iterator[Numbered]
    notes: list[Problem]
    unit: str = "line"
    """What the numbers of rows count."""
    named: bool | None = None
    """Whether the first row holds names, where the format says so."""
    unreadable: Mapping[str, str] = MappingProxyType({})
    """What columns hold whose cells cannot be written as text, by name."""


class RawTable(NamedTuple):
    """The cells of a table, or of some rows of one."""

    where: str
    names: list[str]
    header: bool
    """Whether the names stand in the table."""
    rows: list[Row]
    problems: dict[int, Problem]
    """What is wrong with rows that are not among them, by their numbers."""
    notes: list[Problem]
    unit: str = "line"
    """What the numbers of rows count."""
    unreadable: Mapping[str, str] = MappingProxyType({})
    """What columns hold whose cells are no text, by name."""

    def location(self, number: int) -> str:
        """A row as a person would look for it."""
        return f"{self.where} {self.unit} {number}"

    def without(self, name: str) -> str:
        """The setting that leaves a column out, as it is typed; by number where the name reads as another value."""
        by_name = "," not in name and not is_number(name) and name not in ("none", "true", "false")
        return f"data.drop={shell_word(name) if by_name else self.names.index(name)}"


def delimited(
    lines: Iterator[str], unreadable: Mapping[int, Problem], where: str, plain: bool
) -> Iterator[Numbered]:
    """The rows of CSV from its lines; what is not UTF-8 or not as long as the first row is a problem.

    Where most of the first rows agree on another length than the very first, which may be a title, it is theirs.
    `unreadable` may fill up while lines are read.
    """
    head = list(islice(lines, _HEAD))
    delimiter = _delimiter(head, plain)
    reader = csv.reader(chain(head, lines), delimiter=delimiter, skipinitialspace=True)
    rows = _numbered(reader, unreadable, where)
    ahead = list(islice(rows, 1 if plain else _HEAD))
    lengths = [len(cells) for _, cells in ahead if not isinstance(cells, Problem)]
    common = Counter(lengths).most_common(1)
    width = 0 if not lengths else common[0][0] if 2 * common[0][1] > len(lengths) else lengths[0]
    for line, cells in chain(ahead, rows):
        if isinstance(cells, Problem):
            yield line, cells
        elif width and len(cells) != width:
            yield (
                line,
                Problem("ragged row", f"{where} line {line}", f"{len(cells)} cells instead of {width}"),
            )
        else:
            width = len(cells)
            yield line, [cell.strip() for cell in cells]


def _numbered(reader: Any, unreadable: Mapping[int, Problem], where: str) -> Iterator[Numbered]:
    """What a reader of CSV finds, with the numbers of lines; empty lines are left out."""
    end = 0
    try:
        for cells in reader:
            line, end = end + 1, reader.line_num
            bad = [unreadable[n] for n in range(line, end + 1) if n in unreadable] if unreadable else []
            if bad or cells:
                yield line, bad[0] if bad else cells
    except csv.Error as error:
        raise Refused("not CSV", f"{where} line {reader.line_num}", str(error)) from None


def cell_text(value: object) -> str:
    """A value of a typed table as CSV would hold it.

    >>> cell_text(2.5), cell_text(True), cell_text(None), cell_text(datetime.datetime(2024, 3, 31))
    ('2.5', 'true', '', '2024-03-31')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time() and not value.tzinfo
        return f"{value:%Y-%m-%d}" if midnight else value.isoformat(" ")
    return value.strip() if isinstance(value, str) else str(value)


def collect(numbered: Iterable[Numbered]) -> tuple[list[Row], dict[int, Problem]]:
    """Rows, and the problems of the others by their numbers."""
    rows: list[Row] = []
    problems: dict[int, Problem] = {}
    for number, found in numbered:
        if isinstance(found, Problem):
            problems[number] = found
        else:
            rows.append((number, found))
    return rows, problems


def _delimiter(head: Sequence[str], plain: bool) -> str:
    """What divides the cells of lines.

    >>> _delimiter(["0,5;1,25;red"], plain=False), _delimiter(["a b", "1.5  2"], plain=False)
    (';', ' ')
    """
    first = head[0] if head else ""
    if plain or any(one in first for one in _DELIMITERS):
        line = first
    else:
        line = next((line for line in head if any(one in line for one in _DELIMITERS)), "")
    cells = [cell.strip() for cell in line.split(";")]
    if not plain and len(cells) > 1 and all(decimal_of([cell]) == "comma" for cell in cells if "," in cell):
        return ";"
    if line or plain:
        return max(_DELIMITERS, key=line.count)
    for one in _RARE_DELIMITERS:
        counts = {len(list(filter(None, line.strip().split(one)))) for line in head if line.strip()}
        if len(counts) == 1 and counts != {1}:
            return one
    return _DELIMITERS[0]


def names_of(
    rows: Sequence[Row], header: bool | None, plain: bool, where: str
) -> tuple[list[str], bool, bool]:
    """Names of the columns, whether they stand in the first row, and whether that is worth a remark."""
    first, others = rows[0][1], [cells for _, cells in rows[1:]]
    odd = False
    if header is None:
        # A word that comes again further down its column is a value, not a name.
        words = {j: cell for j, cell in enumerate(first) if cell and not is_number(cell)}
        again = any(cell == cells[j] for j, cell in words.items() for cells in others)
        named = not any(map(is_number, first))
        odd = not named and not plain and not again and _numbers_name(first, others)
        header = any(first) and not again and (named or odd)
    if not header:
        return [f"column {j}" for j in range(len(first))], False, False
    names = [cell or f"column {j}" for j, cell in enumerate(first)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        remedy = "rename one of them"
        raise Refused("same name twice", where, f"two columns are called {twice[0]!r}", remedy)
    return names, True, odd


def _numbers_name(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a first row with numbers in it holds names.

    >>> _numbers_name(["2019", "2020", "2021"], [["3.5", "4", "1"], ["2", "7", "9"]])
    True
    >>> _numbers_name(["1", "2", "3"], [["2", "3", "4"], ["3", "4", "5"]])
    False
    """
    words = [j for j, cell in enumerate(first) if any(map(str.isalpha, cell)) and not is_number(cell)]
    above = any(others and all(is_number(cells[j]) for cells in others) for j in words)
    if above and 2 * len(words) >= len(first):
        return True  # words above columns that hold nothing but numbers are names, a single one may be a slip
    numbers = [j for j, cell in enumerate(first) if is_number(cell)]
    if words and len(numbers) == 1 and _is_year(first[numbers[0]]):
        return not any(_is_year(cells[numbers[0]]) for cells in others)
    enough = 2 if words else 3
    return _counts_up(first, enough) and not any(_counts_up(cells, enough) for cells in others)


def _is_year(cell: str) -> bool:
    return len(cell) == 4 and cell.isdecimal() and 1900 <= int(cell) <= 2100


def _counts_up(cells: Sequence[str], enough: int) -> bool:
    """Whether the numbers in a row are whole and go up by one."""
    numbers = [cell for cell in cells if is_number(cell)]
    if len(numbers) < enough or not all(cell.isdecimal() and len(cell) <= _DIGITS for cell in numbers):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(numbers))


__all__ = ["Numbered", "RawTable", "Row", "RowSource", "cell_text", "collect", "delimited", "names_of"]
