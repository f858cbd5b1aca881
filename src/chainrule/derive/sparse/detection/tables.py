"""Sets of input numbers, one per row, and the few operations on them that cost something.

Everything is NumPy on whole arrays. Rows that hold few entries are sorted all at once, column against column, by a
sorting network; long ones by one sort of all (row, column) pairs, or by marking a bit map where the rows are dense.
"""

import contextvars
import functools
from typing import final

import numpy as np

_FEW = 16
"""Entries per row up to which a sorting network beats `np.sort`."""
_SMALL = 1 << 20
"""Entries below which nobody asks about memory."""
_BYTES = 24
"""Peak bytes per entry while sets are being united: a key, its sorted copy and the result."""

budget: contextvars.ContextVar[int | None] = contextvars.ContextVar("budget", default=None)
"""Bytes that sets may take while they are being built; `None` is no limit."""


class TooLarge(Exception):
    """More memory would be needed than the budget allows; detection answers by doing less at once."""


def reserve(entries: int) -> None:
    """Raise `TooLarge` if so many entries do not fit the budget."""
    allowed = budget.get()
    if allowed is not None and entries * _BYTES > allowed:
        raise TooLarge(f"{entries} entries")


@final
class Table:
    """Rows of input numbers in compressed form: each row sorted, each number once."""

    __slots__ = ("indices", "indptr")

    def __init__(self, indptr: np.ndarray, indices: np.ndarray) -> None:
        self.indptr = indptr
        self.indices = indices

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Entries in each row."""
        return np.diff(self.indptr)

    @property
    def nnz(self) -> int:
        """Entries in all rows."""
        return len(self.indices)

    def take(self, rows: np.ndarray) -> "Table":
        """The chosen rows in the given order; row -1 is empty."""
        owners, columns = self.expand(rows)
        return Table(_starts(owners, len(rows)), columns)

    def expand(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Every entry of the chosen rows: the position in `rows` it belongs to, and the number."""
        lengths = np.where(rows < 0, 0, self.lengths[rows]) if self.height else np.zeros(len(rows), np.int64)
        total = int(lengths.sum())
        reserve(total)
        owners = np.repeat(np.arange(len(rows)), lengths)
        ends = np.cumsum(lengths)
        inside = np.arange(total) - np.repeat(ends - lengths, lengths)
        return owners, self.indices[self.indptr[rows[owners]] + inside]

    def through(self, other: "Table", width: int) -> "Table":
        """Rows of numbers that are themselves rows of `other`: the union of those, row by row."""
        if self.nnz == self.height and (self.lengths == 1).all():
            return other.take(self.indices)
        owners, columns = other.expand(self.indices)
        holders = np.repeat(np.arange(self.height), self.lengths)
        return from_pairs(holders[owners], columns, self.height, width)

    def to_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Every entry as row and number."""
        return np.repeat(np.arange(self.height), self.lengths), self.indices


def from_padded(columns: np.ndarray, width: int) -> Table:
    """Rows given as the second axis of a (few, height) or (many, height) array; -1 means nothing."""
    count, height = columns.shape
    reserve(columns.size)
    if count == 1:
        return _from_single(columns[0])
    if count > _FEW and height * width <= 8 * columns.size:
        owners = np.broadcast_to(np.arange(height), columns.shape)
        present = columns >= 0
        return from_pairs(owners[present], columns[present], height, width)
    if count <= _FEW:
        rows = np.stack(_sorted_columns(list(columns)), axis=1)
    else:
        rows = np.sort(columns.T, axis=1)
    keep = rows >= 0
    keep[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    if keep.all():
        return Table(np.arange(0, rows.size + 1, count), rows.ravel())
    counts = keep.sum(axis=1)
    return Table(_cumulative(counts), rows[keep])


def from_pairs(rows: np.ndarray, columns: np.ndarray, height: int, width: int) -> Table:
    """Rows from (row, number) pairs in any order, repetitions allowed."""
    reserve(len(rows))
    if height * width <= max(8 * len(rows), 1 << 12):
        marked = np.zeros(height * width, dtype=bool)
        marked[rows.astype(np.int64) * width + columns] = True
        keys = np.flatnonzero(marked)
    else:
        keys = np.sort(rows.astype(np.int64) * width + columns)
        if len(keys):
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    found = keys // max(width, 1)
    return Table(_starts(found, height), (keys - found * width).astype(np.int32))


def unite(tables: list[Table], width: int) -> Table:
    """Row by row the union of tables of one height."""
    if len(tables) == 1:
        return tables[0]
    pairs = [table.to_pairs() for table in tables]
    rows = np.concatenate([pair[0] for pair in pairs])
    return from_pairs(rows, np.concatenate([pair[1] for pair in pairs]), tables[0].height, width)


def _from_single(column: np.ndarray) -> Table:
    present = column >= 0
    if present.all():
        return Table(np.arange(len(column) + 1), column)
    return Table(_cumulative(present), column[present])


def _starts(sorted_rows: np.ndarray, height: int) -> np.ndarray:
    return _cumulative(np.bincount(sorted_rows, minlength=height))


def _cumulative(counts: np.ndarray) -> np.ndarray:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _sorted_columns(columns: list[np.ndarray]) -> list[np.ndarray]:
    for low, high in _network(len(columns)):
        a, b = columns[low], columns[high]
        columns[low], columns[high] = np.minimum(a, b), np.maximum(a, b)
    return columns


@functools.cache
def _network(count: int) -> tuple[tuple[int, int], ...]:
    """Batcher's odd-even merge sort: the pairs to compare, in order."""
    pairs = []
    block = 1
    while block < count:
        step = block
        while step >= 1:
            for start in range(step % block, count - step, 2 * step):
                for low in range(start, min(start + step, count - step)):
                    if low // (2 * block) == (low + step) // (2 * block):
                        pairs.append((low, low + step))
            step //= 2
        block *= 2
    return tuple(pairs)


__all__ = ["Table", "TooLarge", "budget", "from_padded", "from_pairs", "reserve", "unite"]
