"""Sparsity patterns: which entries of a matrix may be different from zero."""

import hashlib
from typing import Any, final

import numpy as np
import scipy.sparse

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError


@final
class Pattern:
    """The positions (row, column) of a matrix that may hold something, sorted by row and then column, each once.

    `rows` and `cols` are int32 arrays in that order; `indptr` tells where each row begins, so that
    `cols[indptr[i] : indptr[i + 1]]` are the columns of row `i` (compressed sparse rows). The values of every sparse
    derivative come in the same order.

    >>> pattern = Pattern([0, 1, 1], [2, 0, 1], (2, 3))
    >>> pattern.nnz, pattern.shape
    (3, (2, 3))
    """

    __slots__ = ("cols", "indptr", "rows", "shape")

    rows: np.ndarray
    cols: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    def __init__(self, rows: Any, cols: Any, shape: tuple[int, int]) -> None:
        given_rows, given_cols = np.asarray(rows).ravel(), np.asarray(cols).ravel()
        height, width = int(shape[0]), int(shape[1])
        if height < 0 or width < 0:
            raise ArgumentError(f"Pattern(shape={shape}): sizes must not be negative")
        if len(given_rows) != len(given_cols):
            raise ArgumentError(
                f"Pattern: {len(given_rows)} rows but {len(given_cols)} columns; they come in pairs"
            )
        for name, values, size in (("row", given_rows, height), ("column", given_cols, width)):
            if len(values) and not np.issubdtype(values.dtype, np.integer):
                raise ArgumentError(
                    f"Pattern: {name} numbers have type {values.dtype}; they must be integers"
                )
            if len(values) and (values.min() < 0 or values.max() >= size):
                bad = int(values[(values < 0) | (values >= size)][0])
                raise ArgumentError(f"Pattern: {name} {bad} lies outside a matrix of shape {(height, width)}")
        keys = np.unique(given_rows.astype(np.int64) * max(width, 1) + given_cols.astype(np.int64))
        found_rows, found_cols = np.divmod(keys, max(width, 1))
        self._set(found_rows.astype(np.int32), found_cols.astype(np.int32), (height, width))

    def _set(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> None:
        self.rows, self.cols, self.shape = rows, cols, shape
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(np.int64)

    @classmethod
    def from_csr(cls, indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int]) -> "Pattern":
        """From compressed rows whose columns are already sorted and distinct within each row (not checked)."""
        made = cls.__new__(cls)
        made.shape = (int(shape[0]), int(shape[1]))
        made.indptr = np.asarray(indptr, dtype=np.int64)
        made.cols = np.asarray(indices, dtype=np.int32)
        made.rows = np.repeat(np.arange(made.shape[0], dtype=np.int32), np.diff(made.indptr))
        return made

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Pattern":
        """The positions a SciPy sparse matrix stores, explicit zeros included.

        >>> Pattern.from_scipy(scipy.sparse.eye_array(3)).nnz
        3
        """
        if not scipy.sparse.issparse(matrix):
            raise ArgumentError(f"Pattern.from_scipy: {type(matrix).__name__} is not a SciPy sparse matrix")
        coordinates = matrix.tocoo()
        return cls(coordinates.row, coordinates.col, matrix.shape)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """A SciPy matrix with a one at every position."""
        ones = np.ones(self.nnz)
        return scipy.sparse.csr_array((ones, self.cols, self.indptr), shape=self.shape)

    @property
    def nnz(self) -> int:
        """Number of positions."""
        return len(self.rows)

    @property
    def density(self) -> float:
        """Share of all entries that may be different from zero."""
        return self.nnz / max(self.shape[0] * self.shape[1], 1)

    def transpose(self) -> "Pattern":
        """The pattern of the transposed matrix."""
        order = np.lexsort((self.rows, self.cols))
        made = Pattern.__new__(Pattern)
        made._set(self.cols[order], self.rows[order], (self.shape[1], self.shape[0]))
        return made

    def contains(self, other: "Pattern") -> bool:
        """Whether every entry of the other pattern is one of ours."""
        return self.shape == other.shape and bool(np.isin(other._keys(), self._keys()).all())

    def unmatched(self) -> tuple[int, int] | None:
        """An entry (i, j) whose mirror (j, i) is missing, or `None` for a symmetric pattern."""
        if self.shape[0] != self.shape[1]:
            raise ArgumentError(f"a pattern of shape {self.shape} cannot be symmetric")
        keys = self._keys()
        mirrored = self.cols.astype(np.int64) * self.shape[1] + self.rows
        missing = np.flatnonzero(~np.isin(mirrored, keys))
        return (int(self.rows[missing[0]]), int(self.cols[missing[0]])) if missing.size else None

    def to_svg(self, coloring: Any = None) -> str:
        """A picture of the positions; with a colouring, each in the colour of the product it is read from."""
        from chainrule.derive.sparse.spy import spy

        return spy(self, coloring)

    def fingerprint(self) -> str:
        """SHA-256 of shape and positions."""
        contents = (
            np.asarray(self.shape, dtype=np.int64).tobytes() + self.indptr.tobytes() + self.cols.tobytes()
        )
        return hashlib.sha256(contents).hexdigest()

    def _keys(self) -> np.ndarray:
        return self.rows.astype(np.int64) * max(self.shape[1], 1) + self.cols

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Pattern)
            and self.shape == other.shape
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.cols, other.cols)
        )

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        return f"Pattern({self.shape[0]} x {self.shape[1]}, {self.nnz} entries, density {self.density:.3g})"

    def _repr_html_(self) -> str:
        return notebook.drawing(self.to_svg(), repr(self))


__all__ = ["Pattern"]
