"""Rows of a split by number, as probes are asked for them: 0:64, 7, or 3,5,8."""

import re

import numpy as np

from chainrule.core.errors import ArgumentError

_PATTERN = re.compile(r"\d+:\d+|\d+(,\d+)*")


def chosen_rows(rows: str, count: int) -> np.ndarray:
    """The numbers of the rows that are meant; a range ends with the last row there is.

    >>> chosen_rows("2:5", 100).tolist(), chosen_rows("3,8", 100).tolist(), chosen_rows("0:64", 3).tolist()
    ([2, 3, 4], [3, 8], [0, 1, 2])
    >>> chosen_rows("5:5", 100)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: rows=5:5: no row is meant
           from the first to the one after the last, as in 0:64, or single rows: 3,5,8; there are 100
    """
    text = rows.replace(" ", "")
    remedy = (
        f"from the first to the one after the last, as in 0:64, or single rows: 3,5,8; there are {count:,}"
    )
    if not _PATTERN.fullmatch(text):
        raise ArgumentError(f"rows={rows}: no numbers of rows", remedy=remedy)
    if ":" in text:
        first, last = map(int, text.split(":"))
        found = np.arange(first, min(last, count))
    else:
        found = np.array([int(one) for one in text.split(",")])
    if not found.size:
        raise ArgumentError(f"rows={rows}: no row is meant", remedy=remedy)
    if found.max() >= count:
        raise ArgumentError(f"rows={rows}: there is no row {found.max()}", remedy=remedy)
    return found


__all__ = ["chosen_rows"]
