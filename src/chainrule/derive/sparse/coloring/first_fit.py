"""First-fit (greedy) colouring: vertices in a given order, each with the smallest colour it may have.

Colours taken around a vertex are kept as bits, 63 to a word, so that one pass over the entries colours the whole
graph whatever the degrees are. Colours come in blocks of a few words; a vertex that finds its block full waits for
the next pass. That changes no colour (which colours of a block are free depends only on vertices that got theirs in
that block before) and keeps memory proportional to the graph even where a dense row forces as many colours as
there are columns.
"""

from typing import Any

import numpy as np

from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph, Nets

BITS = 63
FULL = 2**63 - 1
_MOST_WORDS = 16


def by_nets(graph: Nets, order: np.ndarray, expected: int) -> tuple[np.ndarray, int]:
    """Colours in which no net holds a colour twice, and their number; `expected` colours size the first block."""
    return _run(graph, graph.nets, False, order, expected)


def proper(graph: AdjacencyGraph, order: np.ndarray, expected: int) -> tuple[np.ndarray, int]:
    """Colours in which neighbours differ."""
    return _run(graph, graph.vertices, True, order, expected)


def _run(
    graph: Nets | AdjacencyGraph, sets: int, marked: bool, order: np.ndarray, expected: int
) -> tuple[np.ndarray, int]:
    words = min(max(1, -(-expected // BITS)), _MOST_WORDS)
    masks = np.zeros(sets * words, dtype=np.int64)
    colors = np.full(graph.vertices, -1, dtype=np.int64)
    waiting = np.array(order, dtype=np.int64)
    work = 2.0 * len(graph.idx) + graph.vertices
    count = _first_fit(work, graph.ptr, graph.idx, marked, words, masks, waiting, colors)
    return colors, count


@CompiledLoop
def _first_fit(ptr: Any, idx: Any, marked: bool, words: int, masks: Any, waiting: Any, colors: Any) -> int:
    # `marked`: a vertex's own mask holds the colours of its neighbours; otherwise the masks of its nets do.
    count, base, most = len(waiting), 0, 0
    while count > 0:
        left = 0
        for t in range(count):
            v = waiting[t]
            found = -1
            for w in range(words):
                taken = masks[v * words + w] if marked else 0
                if not marked:
                    for e in range(ptr[v], ptr[v + 1]):
                        taken |= masks[idx[e] * words + w]
                if taken != FULL:
                    free = 0
                    while taken & 1:
                        taken >>= 1
                        free += 1
                    for e in range(ptr[v], ptr[v + 1]):
                        masks[idx[e] * words + w] |= 1 << free
                    found = w * BITS + free
                    break
            if found < 0:
                waiting[left] = v
                left += 1
            else:
                colors[v] = base + found
                most = max(most, base + found + 1)
        count = left
        base += words * BITS
        if count > 0:
            for i in range(len(masks)):
                masks[i] = 0
    return most


__all__ = ["BITS", "FULL", "by_nets", "proper"]
