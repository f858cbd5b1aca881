"""Acyclic colouring: neighbours differ, and any two colours induce a forest.

Entries of a symmetric matrix then follow from the compressed products by substitution from the leaves of each
two-coloured tree. For a vertex w, all its neighbours of one colour lie in one such tree, so trees are kept as a
union-find structure over pairs (vertex, colour beside it) instead of over edges: a hub with a million neighbours in
ten colours takes part in ten trees.
"""

from typing import Any

import numpy as np

from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph


def acyclic(
    graph: AdjacencyGraph, order: np.ndarray, expected: int, *, two_sided: bool = False
) -> tuple[np.ndarray, int]:
    """First fit under the acyclic condition; with `two_sided`, rows and columns of a bipartite graph count apart."""
    n, ends = graph.vertices, len(graph.idx)
    colors = np.full(n, -1, dtype=np.int64)
    beside, parent, seen = (np.full(ends, -1, dtype=np.int64) for _ in range(3))
    counts = np.zeros(n, dtype=np.int64)
    forbidden = np.full(n + 1, -1, dtype=np.int64)
    given = (graph.ptr, graph.idx, np.asarray(order, dtype=np.int64), int(not two_sided))
    work = 4.0 * ends * max(expected, 4) + n
    count = _acyclic(work, *given, beside, parent, seen, counts, forbidden, colors)
    return colors, count


@CompiledLoop
def _acyclic(
    ptr: Any,
    idx: Any,
    order: Any,
    proper: int,
    beside: Any,
    parent: Any,
    seen: Any,
    counts: Any,
    forbidden: Any,
    colors: Any,
) -> int:
    most = 0
    for v in order:
        for e in range(ptr[v], ptr[v + 1]):
            c = colors[idx[e]]
            if proper and c >= 0:
                forbidden[c] = v
        for e in range(ptr[v], ptr[v + 1]):
            w = idx[e]
            if colors[w] < 0:
                continue
            for s in range(ptr[w], ptr[w] + counts[w]):
                if forbidden[beside[s]] == v:
                    continue
                root = s
                while parent[root] != root:
                    parent[root] = parent[parent[root]]
                    root = parent[root]
                if seen[root] == v:  # v meets this tree twice: its other colour would close a cycle
                    forbidden[beside[s]] = v
                else:
                    seen[root] = v
        mine = 0
        while forbidden[mine] == v:
            mine += 1
        colors[v] = mine
        most = max(most, mine + 1)
        for e in range(ptr[v], ptr[v + 1]):
            w = idx[e]
            s = ptr[w]
            end = ptr[w] + counts[w]
            while s < end and beside[s] != mine:
                s += 1
            if s == end:
                beside[s] = mine
                parent[s] = s
                counts[w] += 1
            if colors[w] >= 0:
                r = ptr[v]
                while beside[r] != colors[w]:
                    r += 1
                while parent[s] != s:
                    parent[s] = parent[parent[s]]
                    s = parent[s]
                while parent[r] != r:
                    parent[r] = parent[parent[r]]
                    r = parent[r]
                parent[r] = s
    return most


__all__ = ["acyclic"]
