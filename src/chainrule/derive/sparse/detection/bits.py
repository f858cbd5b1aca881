"""Sets of inputs as rows of bits: the form in which many steps of a loop are cheap."""

import numpy as np

from chainrule.derive.sparse.detection.reach import Reach
from chainrule.derive.sparse.detection.tables import Table


def words(width: int) -> int:
    """64-bit words that hold so many bits."""
    return (width + 63) // 64


def from_reach(reach: Reach | None, count: int, width: int) -> np.ndarray:
    """One row of bits per element."""
    rows = np.zeros((count, words(width)), dtype=np.uint64)
    if reach is None:
        return rows
    elements, inputs = reach.table().to_pairs()
    marked = np.zeros((count, 64 * words(width)), dtype=bool)
    marked[elements, inputs] = True
    return np.packbits(marked, axis=1, bitorder="little").view(np.uint64)


def to_table(rows: np.ndarray, width: int) -> Table:
    """The same sets as a table."""
    marked = np.unpackbits(rows.view(np.uint8), axis=1, count=width, bitorder="little")
    owners, inputs = np.nonzero(marked)
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=len(rows)), out=starts[1:])
    return Table(starts, inputs.astype(np.int32))


def united(table: Table, rows: np.ndarray) -> np.ndarray:
    """For every row of the table the union of the bit rows it names."""
    found = np.zeros((table.height, rows.shape[1]), dtype=np.uint64)
    some = table.lengths > 0
    if some.any():
        found[some] = np.bitwise_or.reduceat(rows[table.indices], table.indptr[:-1][some], axis=0)
    return found


__all__ = ["from_reach", "to_table", "united", "words"]
