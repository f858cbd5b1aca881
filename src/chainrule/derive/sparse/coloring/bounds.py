"""Lower bounds of the number of colours, from counting alone."""

from math import ceil

import numpy as np

from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph
from chainrule.derive.sparse.patterns import Pattern

_TRIED_CLIQUES, _TRIED_MEMBERS = 8, 64
_ROUNDS = 16


def columns(pattern: Pattern) -> int:
    """The columns of the fullest row all need different colours."""
    return int(np.diff(pattern.indptr).max(initial=0))


def rows(pattern: Pattern) -> int:
    """The rows of the fullest column all need different colours."""
    return int(np.bincount(pattern.cols, minlength=1).max()) if pattern.nnz else 0


def forests(graph: AdjacencyGraph) -> int:
    """Acyclic and star colourings with k colours allow (k - 1) n - k (k - 1) / 2 edges at most.

    Each pair of colours induces a forest, which has fewer edges than vertices; sum over all pairs. That holds for any
    part of the graph too, and most where edges are dense: vertices with less than half the average of edges are
    left out, again and again.
    """
    starts, ends = np.repeat(np.arange(graph.vertices), graph.degrees), graph.idx
    inside, most = graph.vertices, min(graph.vertices, 1)
    for _ in range(_ROUNDS):
        edges = len(ends) // 2
        while edges > (most - 1) * inside - most * (most - 1) // 2:
            most += 1
        degrees = np.bincount(starts, minlength=graph.vertices)
        kept = degrees * inside > edges
        if not edges or int(kept.sum()) == inside:
            break
        both = kept[starts] & kept[ends]
        starts, ends, inside = starts[both], ends[both], int(kept.sum())
    return most


def proper(graph: AdjacencyGraph) -> int:
    """One colour, or two as soon as there is an edge; a clique grown from the busiest vertices needs its size."""
    if not graph.edges:
        return min(graph.vertices, 1)
    most = 2
    for v in np.argsort(-graph.degrees, kind="stable")[:_TRIED_CLIQUES].tolist():
        size, left = 1, _around(graph, v)[:_TRIED_MEMBERS]
        while len(left):
            size, around = size + 1, _around(graph, int(left[0]))
            found = np.searchsorted(around, left)  # neighbours are sorted
            left = left[around[np.minimum(found, len(around) - 1)] == left]
        most = max(most, size)
    return most


def _around(graph: AdjacencyGraph, v: int) -> np.ndarray:
    return graph.idx[graph.ptr[v] : graph.ptr[v + 1]]


def products(pattern: Pattern) -> int:
    """Forward products yield m numbers each and reverse ones n, and every entry needs a number of its own."""
    return ceil(pattern.nnz / max(*pattern.shape, 1))


__all__ = ["columns", "forests", "products", "proper", "rows"]
