"""Sets of inputs, one per row, in compressed form.

Everything is NumPy on whole arrays. Rows that hold few entries are sorted all at once, column against column, by a
sorting network; long ones by one sort of all (row, column) pairs, or by marking a bit map where the rows are dense.
Sets can also be rows of bits, which makes many unions of the same rows cheap.
"""

import contextvars
import functools
from collections.abc import Iterator
from typing import final

import numpy as np
import scipy.sparse

_FEW = 16
"""Entries per row up to which a sorting network beats `np.sort`."""
_MARK = 8
"""Positions of a bit map that are marked and read in the time one pair takes to be sorted."""
_BYTES = 24
"""Peak bytes per entry while sets are being united: a key, its sorted copy and the result."""

_SPELLED = 1 << 24
"""Bits that are bytes for a moment, on the way from and to rows of bits."""

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
class InputSets:
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
    def uniform(self) -> int | None:
        """The length of all rows, if they have one length and it is not zero."""
        lengths = self.lengths
        return int(lengths[0]) if len(lengths) and lengths[0] and (lengths == lengths[0]).all() else None

    @property
    def nnz(self) -> int:
        """Entries in all rows."""
        return len(self.indices)

    def take(self, rows: np.ndarray) -> "InputSets":
        """The chosen rows in the given order; row -1 is empty."""
        length = self.uniform
        if length is not None and len(rows) and rows.min() >= 0:
            reserve(len(rows) * length)
            chosen = self.indices.reshape(-1, length)[rows]
            return InputSets(np.arange(len(rows) + 1, dtype=np.int64) * length, chosen.reshape(-1))
        owners, columns = self.expand(rows)
        return InputSets(_starts(owners, len(rows)), columns)

    def expand(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Every entry of the chosen rows: the position in `rows` it belongs to, and the number."""
        lengths = np.where(rows < 0, 0, self.lengths[rows]) if self.height else np.zeros(len(rows), np.int64)
        total = int(lengths.sum())
        reserve(total)
        owners = np.repeat(np.arange(len(rows)), lengths)
        ends = np.cumsum(lengths)
        inside = np.arange(total) - np.repeat(ends - lengths, lengths)
        return owners, self.indices[self.indptr[rows[owners]] + inside]

    def through(self, other: "InputSets", width: int) -> "InputSets":
        """Rows of numbers that are themselves rows of `other`: the union of those, row by row."""
        if self.nnz == self.height and (self.lengths == 1).all():
            return other.take(self.indices)
        pairs = int(other.lengths[self.indices].sum())
        reserve(min(pairs, self.height * width))
        if (self.height + other.height) * width + self.nnz * words(width) <= _MARK * pairs // 2:
            return from_bits(united_bits(self, to_bits(other, width)), width)
        product = self._matrix(other.height) @ other._matrix(width)
        product.sort_indices()
        return InputSets(product.indptr.astype(np.int64), product.indices.astype(np.int32))

    def _matrix(self, width: int) -> scipy.sparse.csr_array:
        ones = np.ones(self.nnz, dtype=bool)
        return scipy.sparse.csr_array((ones, self.indices, self.indptr), shape=(self.height, width))

    def to_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Every entry as row and number."""
        return np.repeat(np.arange(self.height), self.lengths), self.indices


def from_padded(columns: np.ndarray, width: int) -> InputSets:
    """Rows given as the second axis of a (few, height) or (many, height) array; -1 means nothing."""
    count, height = columns.shape
    reserve(columns.size)
    if count == 1:
        return _from_single(columns[0])
    if count > _FEW and height * width <= _MARK * columns.size:
        owners = np.broadcast_to(np.arange(height), columns.shape)
        present = columns >= 0
        return from_pairs(owners[present], columns[present], height, width)
    few = count <= _FEW
    rows = np.stack(_sorted_columns(list(columns)), axis=1) if few else np.sort(columns.T, axis=1)
    keep = rows >= 0
    keep[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    if keep.all():
        return InputSets(np.arange(0, rows.size + 1, count), rows.ravel())
    counts = keep.sum(axis=1)
    return InputSets(_cumulative(counts), rows[keep])


def from_pairs(rows: np.ndarray, columns: np.ndarray, height: int, width: int) -> InputSets:
    """Rows from (row, number) pairs in any order, repetitions allowed."""
    reserve(len(rows))
    if height * width <= max(_MARK * len(rows), 1 << 12):
        marked = np.zeros(height * width, dtype=bool)
        marked[rows.astype(np.int64) * width + columns] = True
        keys = np.flatnonzero(marked)
    else:
        keys = np.sort(rows.astype(np.int64) * width + columns)
        if len(keys):
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    found = keys // max(width, 1)
    return InputSets(_starts(found, height), (keys - found * width).astype(np.int32))


def unite(tables: list[InputSets], width: int) -> InputSets:
    """Row by row the union of tables of one height."""
    largest, *others = sorted(tables, key=lambda table: -table.nnz)
    if not others:
        return largest
    total = sum(table.nnz for table in tables)
    reserve(total)
    height = largest.height
    if height * width <= _MARK * total:
        marked = np.zeros((height, width), dtype=bool)
        for table in tables:
            marked[table.to_pairs()] = True
        owners, inputs = np.nonzero(marked)
        return InputSets(_starts(owners, height), inputs.astype(np.int32))
    rows, columns = largest.to_pairs()
    keys = rows * width + columns
    for table in others:
        rows, columns = table.to_pairs()
        more = rows * width + columns
        spots = np.searchsorted(keys, more)
        new = keys[np.minimum(spots, len(keys) - 1)] != more if len(keys) else np.ones(len(more), dtype=bool)
        if new.any():
            keys = np.insert(keys, spots[new], more[new])
    if len(keys) == largest.nnz:
        return largest
    found = keys // max(width, 1)
    return InputSets(_starts(found, height), (keys - found * width).astype(np.int32))


def words(width: int) -> int:
    """64-bit words that hold so many bits."""
    return (width + 63) // 64


def to_bits(table: InputSets, width: int) -> np.ndarray:
    """The rows of a table as rows of bits."""
    bits = np.empty((table.height, words(width)), dtype=np.uint64)
    for first, last in _batches(table.height, width):
        marked = np.zeros((last - first, 64 * words(width)), dtype=bool)
        entries = slice(table.indptr[first], table.indptr[last])
        owners = np.repeat(np.arange(last - first), np.diff(table.indptr[first : last + 1]))
        marked[owners, table.indices[entries]] = True
        bits[first:last] = np.packbits(marked, axis=1, bitorder="little").view(np.uint64)
    return bits


def from_bits(bits: np.ndarray, width: int) -> InputSets:
    """Rows of bits as a table."""
    starts = _cumulative(np.bitwise_count(bits).sum(axis=1, dtype=np.int64))
    reserve(int(starts[-1]))
    inputs = np.empty(starts[-1], dtype=np.int32)
    for first, last in _batches(len(bits), width):
        marked = np.unpackbits(bits[first:last].view(np.uint8), axis=1, count=width, bitorder="little")
        inputs[starts[first] : starts[last]] = np.nonzero(marked)[1]
    return InputSets(starts, inputs)


def _batches(height: int, width: int) -> Iterator[tuple[int, int]]:
    """Rows to spell out at a time, one byte for each bit."""
    rows = max(_SPELLED // (64 * max(words(width), 1)), 1)
    for first in range(0, height, rows):
        yield first, min(first + rows, height)


def united_bits(table: InputSets, bits: np.ndarray) -> np.ndarray:
    """For every row of the table the union of the rows of bits it names."""
    found = np.zeros((table.height, bits.shape[1]), dtype=np.uint64)
    some = table.lengths > 0
    if some.any():
        found[some] = np.bitwise_or.reduceat(bits[table.indices], table.indptr[:-1][some], axis=0)
    return found


def _from_single(column: np.ndarray) -> InputSets:
    present = column >= 0
    if present.all():
        return InputSets(np.arange(len(column) + 1), column)
    return InputSets(_cumulative(present), column[present])


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
    pairs: list[tuple[int, int]] = []
    block = 1
    while block < count:
        step = block
        while step >= 1:
            for start in range(step % block, count - step, 2 * step):
                lows = range(start, min(start + step, count - step))
                pairs += [(a, a + step) for a in lows if a // (2 * block) == (a + step) // (2 * block)]
            step //= 2
        block *= 2
    return tuple(pairs)


__all__ = [
    "InputSets",
    "TooLarge",
    "budget",
    "from_bits",
    "from_padded",
    "from_pairs",
    "reserve",
    "to_bits",
    "unite",
    "united_bits",
    "words",
]
