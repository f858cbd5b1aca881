"""Counts of k-mers as sparse tables: only those that occur are ever written down.

A k-mer gets its number from its letters, as digits; where so many digits do not fit a machine word, the numbers so far
are replaced by their ranks. So numbers never collide, however long k-mers are.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from chainrule.core.types import Int
from chainrule.kernels.sequences.encoding import EncodedSequences

_MOST = 2**62
_TILE = 2**21
"""Entries that are dense at once."""
_FILLED = 0.1
"""The share of entries from which on dense products are faster."""


class Occurrences(NamedTuple):
    """Every k-mer of every sequence where it stands."""

    numbers: Int[np.ndarray, " occurrences"]
    """Equal for equal k-mers."""
    positions: Int[np.ndarray, " occurrences"]
    """Where it begins in the letters of all sequences."""


def occurrences(sequences: EncodedSequences, k: int) -> Occurrences:
    """All k-mers, by number and position; none crosses from one sequence to the next."""
    letters, size = sequences.letters, max(1, len(sequences.alphabet))
    if len(letters) < k:
        return Occurrences(np.zeros(0, np.int64), np.zeros(0, np.int64))
    numbers, most = letters, size
    for step in range(1, k):
        if most > _MOST // size:
            numbers = np.unique(numbers, return_inverse=True)[1]
            most = int(numbers.max()) + 1
        numbers = numbers[:-1] * size + letters[step:]
        most *= size
    positions = np.flatnonzero(sequences.owner[: len(numbers)] == sequences.owner[k - 1 :])
    return Occurrences(numbers[positions], positions)


class CountTable(NamedTuple):
    """Features of sequences, one a row, and what each column counts."""

    values: Any
    """A sparse matrix."""
    kmer: Callable[[int], str]
    """The k-mer of a column."""
    first: Int[np.ndarray, " columns"]
    """Where the k-mer of each column stands for the first time, in the letters of all sequences."""


def counted(sequences: EncodedSequences, k: int, *, at: bool = False) -> CountTable:
    """How often each k-mer occurs in each sequence; with `at`, each position in its sequence counts for itself."""
    found = occurrences(sequences, k)
    numbers = found.numbers
    owner = sequences.owner[found.positions]
    if at:
        inside = found.positions - sequences.starts[owner]
        ranks = np.unique(numbers, return_inverse=True)[1]
        numbers = ranks * (int(inside.max(initial=0)) + 1) + inside
    _, first, columns = np.unique(numbers, return_index=True, return_inverse=True)
    table = scipy.sparse.csr_array(
        (np.ones(len(columns)), (owner, columns)), shape=(sequences.size, len(first))
    )
    table.sum_duplicates()
    begins = found.positions[first]
    return CountTable(table, lambda column: sequences.text(int(begins[column]), k), begins)


def side_by_side(tables: list[CountTable]) -> CountTable:
    """Tables of the same sequences as one."""
    ends = np.cumsum([table.values.shape[1] for table in tables])

    def kmer(column: int) -> str:
        which = int(np.searchsorted(ends, column, side="right"))
        return tables[which].kmer(column - int(ends[which - 1] if which else 0))

    return CountTable(
        scipy.sparse.hstack([table.values for table in tables], format="csr"),
        kmer,
        np.concatenate([table.first for table in tables]),
    )


def multiplied(x: Any, y: Any) -> np.ndarray:
    """The products of the rows of two sparse tables, a tile at a time.

    Where mismatches have filled a table, tiles of some columns are multiplied as dense matrices, which is faster.
    """
    out = np.zeros((x.shape[0], y.shape[0]))
    filled = max(table.nnz / max(1, math.prod(table.shape)) for table in (x, y))
    if filled < _FILLED:
        turned = y.T.tocsr()
        rows = max(1, _TILE // max(1, y.shape[0]))
        for start in range(0, x.shape[0], rows):
            out[start : start + rows] = (x[start : start + rows] @ turned).toarray()
        return out
    columns = max(1, _TILE // max(1, x.shape[0] + y.shape[0]))
    first, second = x.tocsc(), y.tocsc()
    for start in range(0, x.shape[1], columns):
        stop = start + columns
        out += first[:, start:stop].toarray() @ second[:, start:stop].toarray().T
    return out


__all__ = ["CountTable", "Occurrences", "counted", "multiplied", "occurrences", "side_by_side"]
