"""Graphs to colour: vertices with the nets they belong to, or vertices with their neighbours.

Column colouring sees columns as vertices and rows as nets: two columns that meet in a row need different colours.
The graph of all such pairs is never built, since a row of d entries would add d squared edges to it.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse

from chainrule.core.errors import ArgumentError
from chainrule.derive.sparse.patterns import Pattern


@final
@dataclass(frozen=True)
class Nets:
    """Vertices and the nets that hold them, as compressed rows both ways."""

    ptr: np.ndarray
    idx: np.ndarray
    """`idx[ptr[v] : ptr[v + 1]]` are the nets of vertex v."""
    net_ptr: np.ndarray
    net_idx: np.ndarray
    """Likewise the vertices of each net."""

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return len(self.ptr) - 1

    @property
    def nets(self) -> int:
        """Number of nets."""
        return len(self.net_ptr) - 1

    def swapped(self) -> "Nets":
        """Nets as vertices."""
        return Nets(self.net_ptr, self.net_idx, self.ptr, self.idx)


@final
@dataclass(frozen=True)
class AdjacencyGraph:
    """Vertices and their neighbours, without loops."""

    ptr: np.ndarray
    idx: np.ndarray

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return len(self.ptr) - 1

    @property
    def edges(self) -> int:
        """Number of edges, each counted once."""
        return len(self.idx) // 2

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each vertex."""
        return np.diff(self.ptr)


def columns(pattern: Pattern) -> Nets:
    """Columns as vertices, rows as nets."""
    ptr, idx = _transposed(pattern)
    return Nets(ptr, idx, pattern.indptr, pattern.cols)


def rows(pattern: Pattern) -> Nets:
    """Rows as vertices, columns as nets."""
    return columns(pattern).swapped()


def adjacency(where: str, pattern: Pattern) -> AdjacencyGraph:
    """The graph of a symmetric pattern; the diagonal plays no part."""
    if pattern.shape[0] != pattern.shape[1]:
        raise ArgumentError(
            f"{where}: a pattern of shape {pattern.shape} is not symmetric",
            remedy='use method="column", "row" or "bidirectional"',
        )
    missing = _unmatched(pattern)
    if missing is not None:
        i, j = missing
        raise ArgumentError(
            f"{where}: the pattern is not symmetric: it holds ({i}, {j}) but not ({j}, {i})",
            remedy='add the missing entry, or use method="column", "row" or "bidirectional"',
        )
    off = pattern.rows != pattern.cols
    ptr = np.concatenate([[0], np.cumsum(np.bincount(pattern.rows[off], minlength=pattern.shape[0]))])
    return AdjacencyGraph(ptr.astype(np.int64), pattern.cols[off])


def bipartite(pattern: Pattern) -> AdjacencyGraph:
    """Rows first and then columns as vertices, an edge for every entry."""
    m = pattern.shape[0]
    both = columns(pattern)
    ptr = np.concatenate([pattern.indptr, pattern.indptr[-1] + both.ptr[1:]])
    return AdjacencyGraph(ptr, np.concatenate([pattern.cols + np.int32(m), both.idx]))


def _transposed(pattern: Pattern) -> tuple[np.ndarray, np.ndarray]:
    marks = np.ones(pattern.nnz, dtype=np.int8)
    turned = scipy.sparse.csr_array((marks, pattern.cols, pattern.indptr), shape=pattern.shape).tocsc()
    return turned.indptr.astype(np.int64), turned.indices.astype(np.int32)


def _unmatched(pattern: Pattern) -> tuple[int, int] | None:
    """As `Pattern.unmatched`, in linear time when nothing is missing."""
    ptr, idx = _transposed(pattern)
    if np.array_equal(ptr, pattern.indptr) and np.array_equal(idx, pattern.cols):
        return None
    return pattern.unmatched()


__all__ = ["AdjacencyGraph", "Nets", "adjacency", "bipartite", "columns", "rows"]
