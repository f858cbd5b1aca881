"""Tabu search for fewer colours: give up one colour, then repair by moving one vertex at a time.

A few vertices that share a colour with a neighbour are left after a class is dissolved. Again and again the move of
one of them to another colour that leaves the fewest such pairs is made, even if it makes things worse, and is not
taken back for a while. Where first fit stops far from the bound (irregular matrices), this finds up to a quarter fewer
colours. Neighbours have to be listed for it, so it is for graphs of up to some million of them.

Reference: Hertz, de Werra, Using tabu search techniques for graph coloring, Computing 39 (1987).
"""

import time
from typing import Any

import numpy as np
import scipy.sparse

from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph, Nets

_MOST_NEIGHBOURS = 16_000_000
"""As often as they are met."""
_MOST_CELLS = 2_000_000
"""Vertices times colours."""
_SECONDS = 0.5
"""Less time than this is not worth starting with: the search may have to be compiled."""
_MOVES = 1024
"""Moves between two readings of the clock."""
_PATIENCE = 64
"""Such pieces without an end for every thousand vertices, before a number of colours is given up."""


def improved(
    graph: Nets | AdjacencyGraph, colors: np.ndarray, count: int, least: int, deadline: float
) -> tuple[np.ndarray, int] | None:
    """Proper colours fewer than `count`, or `None`."""
    n = graph.vertices
    pairs = int((np.diff(graph.net_ptr) ** 2).sum()) if isinstance(graph, Nets) else len(graph.idx)
    if pairs > _MOST_NEIGHBOURS or n * count > _MOST_CELLS or time.perf_counter() + _SECONDS > deadline:
        return None
    around = _meeting(graph) if isinstance(graph, Nets) else graph
    best = None
    while count > max(least, 2):
        found = _repaired(around, _dissolved(around, colors, count), count - 1, deadline)
        if found is None:
            break
        colors, count = found, count - 1
        best = (colors, count)
    return best


def _meeting(graph: Nets) -> AdjacencyGraph:
    """The vertices that share a net with each vertex, listed."""
    ones = np.ones(len(graph.idx), dtype=np.int32)
    belongs = scipy.sparse.csr_array((ones, graph.idx, graph.ptr), shape=(graph.vertices, graph.nets))
    pairs = (belongs @ belongs.T).tocoo()
    off = pairs.row != pairs.col
    listed = scipy.sparse.csr_array(
        (np.ones(int(off.sum()), np.int8), (pairs.row[off], pairs.col[off])), pairs.shape
    )
    return AdjacencyGraph(listed.indptr.astype(np.int64), listed.indices.astype(np.int64))


def _dissolved(graph: AdjacencyGraph, colors: np.ndarray, count: int) -> np.ndarray:
    """Colours without the smallest class, each vertex of which joins the colour it meets least."""
    made = colors.astype(np.int64).copy()
    gone = int(np.bincount(made, minlength=count).argmin())
    homeless = np.flatnonzero(made == gone)
    made[made == count - 1] = gone
    for v in homeless.tolist():
        met = made[graph.idx[graph.ptr[v] : graph.ptr[v + 1]]]
        made[v] = int(np.bincount(met, minlength=count)[: count - 1].argmin())
    return made


def _repaired(graph: AdjacencyGraph, colors: np.ndarray, count: int, deadline: float) -> np.ndarray | None:
    n = graph.vertices
    met = np.repeat(np.arange(n), graph.degrees) * count + colors[graph.idx]
    beside, barred = np.bincount(met, minlength=n * count), np.zeros(n * count, dtype=np.int64)
    bad = np.flatnonzero(beside[np.arange(n) * count + colors])
    listed, position = (np.full(n, -1, dtype=np.int64) for _ in range(2))
    listed[: len(bad)], position[bad] = bad, np.arange(len(bad))
    conflicts = int(beside[np.arange(n) * count + colors].sum()) // 2
    # Number of vertices listed, conflicts, fewest conflicts so far, moves made, random state.
    state = np.array([len(bad), conflicts, conflicts, 0, 1], dtype=np.int64)
    for _ in range(_PATIENCE * (1 + n // 1000)):
        if state[1] == 0:
            return colors
        if time.perf_counter() > deadline:
            return None
        work = float(_MOVES * (state[0] + 1) * count)
        _search(work, graph.ptr, graph.idx, count, _MOVES, colors, beside, barred, listed, position, state)
    return colors if state[1] == 0 else None


@CompiledLoop
def _search(
    ptr: Any,
    idx: Any,
    count: int,
    moves: int,
    colors: Any,
    beside: Any,
    barred: Any,
    listed: Any,
    position: Any,
    state: Any,
) -> int:
    size, conflicts, fewest, now, random = state[0], state[1], state[2], state[3], state[4]
    for _ in range(moves):
        if conflicts == 0:
            break
        least, ties, who, where = 1 << 40, 0, -1, -1
        for t in range(size):
            v = listed[t]
            row, mine = v * count, colors[v]
            here = beside[row + mine]
            for c in range(count):
                change = beside[row + c] - here
                if change > least or c == mine:
                    continue
                if barred[row + c] > now and conflicts + change >= fewest:
                    continue
                ties = 1 if change < least else ties + 1
                random = (random * 1103515245 + 12345) & 0x7FFFFFFF
                if change < least or (random >> 8) % ties == 0:
                    least, who, where = change, v, c
        now += 1
        if who < 0:
            continue
        before = colors[who]
        colors[who] = where
        conflicts += least
        fewest = min(fewest, conflicts)
        random = (random * 1103515245 + 12345) & 0x7FFFFFFF
        barred[who * count + before] = now + size * 3 // 5 + (random >> 8) % 10
        for e in range(ptr[who], ptr[who + 1] + 1):
            w = who
            if e < ptr[who + 1]:
                w = idx[e]
                beside[w * count + before] -= 1
                beside[w * count + where] += 1
            if beside[w * count + colors[w]] > 0:
                if position[w] < 0:
                    listed[size] = w
                    position[w] = size
                    size += 1
            elif position[w] >= 0:
                size -= 1
                last = listed[size]
                listed[position[w]] = last
                position[last] = position[w]
                position[w] = -1
    state[0], state[1], state[2], state[3], state[4] = size, conflicts, fewest, now, random
    return conflicts


__all__ = ["improved"]
