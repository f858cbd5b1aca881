"""Balanced colouring: vertices leave crowded colours for emptier ones; the number of colours stays.

Products of equal size suit hardware that runs them side by side. Every move makes the sum of squared class sizes
smaller, so the moves end.
"""

from typing import Any

import numpy as np

from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.graphs import Nets


def balanced(graph: Nets, colors: np.ndarray, count: int) -> np.ndarray:
    """Colours with no more classes, none of which can give a vertex to a class smaller by two or more."""
    found = np.array(colors, dtype=np.int64)
    sizes = np.bincount(found, minlength=count).astype(np.int64)
    widths = np.diff(graph.net_ptr)
    seen = np.full(max(count, 1), -1, dtype=np.int64)
    work = float(widths[graph.idx].sum()) + graph.vertices
    while _move(work, graph.ptr, graph.idx, graph.net_ptr, graph.net_idx, sizes, seen, found):
        seen[:] = -1
    return found


@CompiledLoop
def _move(ptr: Any, idx: Any, net_ptr: Any, net_idx: Any, sizes: Any, seen: Any, colors: Any) -> int:
    """One pass over the vertices; the number that moved."""
    moved = 0
    for v in range(len(colors)):
        mine = colors[v]
        full = 0
        for e in range(ptr[v], ptr[v + 1]):
            if net_ptr[idx[e] + 1] - net_ptr[idx[e]] == len(sizes):
                full = 1  # this net holds every colour already
        if full:
            continue
        for e in range(ptr[v], ptr[v + 1]):
            for other in range(net_ptr[idx[e]], net_ptr[idx[e] + 1]):
                seen[colors[net_idx[other]]] = v
        best = mine
        for c in range(len(sizes)):
            if seen[c] != v and sizes[c] + 1 < sizes[mine] and (best == mine or sizes[c] < sizes[best]):
                best = c
        if best != mine:
            sizes[mine] -= 1
            sizes[best] += 1
            colors[v] = best
            moved += 1
    return moved


__all__ = ["balanced"]
