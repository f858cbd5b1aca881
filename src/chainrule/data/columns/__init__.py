"""Column readings: how cells of a table become numbers. One file each, and the file is the registration.

`data/columns/date.py` holds a class `reading` and is thereby known as `date`.
"""

import functools
import importlib
import pkgutil
from collections.abc import Sequence

from chainrule.data.column import ColumnReading, Hints, is_missing
from chainrule.data.columns import date, number, words


@functools.cache
def names() -> tuple[str, ...]:
    """Every way of reading a column.

    >>> names()
    ('date', 'number', 'words')
    """
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def get(name: str) -> type[ColumnReading]:
    """A way of reading a column by name."""
    if name not in names():
        raise ValueError(f"unknown reading of a column: {name!r}")
    found: type[ColumnReading] = importlib.import_module(f"{__name__}.{name}").reading
    return found


def recognise(name: str, cells: Sequence[str], hints: Hints) -> ColumnReading:
    """The reading that fits all the cells of a column: numbers, then dates, then words.

    Numbers that are written in the plain way need not be all: one of them makes a column of numbers, in which a word
    is a bad cell. Every other way of writing has to fit all cells that are not missing, or most of them where they
    would be too many words.

    >>> recognise("share", ["12 %", "7.5 %", ""], Hints("a.csv")).describe()
    'percent'
    """
    held = [cell for cell in cells if not is_missing(cell)]
    found = number.recognise(name, held, hints) or date.recognise(name, held, hints)
    if found is not None:
        return found
    as_words = words.WordsReading.of(held)
    if len(as_words.words) <= words.MOST_WORDS:
        return as_words
    numbers, dates = list(filter(number.is_written, held)), list(filter(date.is_written, held))
    if 2 * max(len(numbers), len(dates)) <= len(held):
        return as_words
    mostly = max(numbers, dates, key=len)
    return number.recognise(name, mostly, hints) or date.recognise(name, mostly, hints) or as_words


__all__ = ["get", "names", "recognise"]
