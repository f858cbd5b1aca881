"""Star colouring: neighbours differ, and every path on four vertices sees at least three colours.

Any two colours then induce a forest of stars, and every entry of a symmetric matrix can be read directly from the
compressed products. Per vertex three sets of colours are kept as bits: those of its coloured neighbours, those that
occur there twice, and those of hubs on which it hangs together with another leaf of its own colour. They answer
in constant time whether a colour would close a two-coloured path, so the work is one pass over the edges.

Reference: Gebremedhin, Tarafdar, Manne, Pothen, New acyclic and star coloring algorithms with application to computing
Hessians, SIAM J. Sci. Comput. 29 (2007); the sets of colours replace their walks around each vertex.
"""

from typing import Any

import numpy as np

from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.first_fit import BITS, FULL
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph


def star(
    graph: AdjacencyGraph, order: np.ndarray, expected: int, *, two_sided: bool = False
) -> tuple[np.ndarray, int]:
    """First fit under the star condition; with `two_sided`, rows and columns of a bipartite graph count apart."""
    words = max(1, -(-expected // BITS))
    while True:
        colors = np.full(graph.vertices, -1, dtype=np.int64)
        sets = [np.zeros(graph.vertices * words, dtype=np.int64) for _ in range(3)]
        given = (graph.ptr, graph.idx, np.asarray(order, dtype=np.int64), words, int(not two_sided))
        count = _star(4.0 * len(graph.idx) + graph.vertices, *given, *sets, colors)
        if count >= 0:
            return colors, count
        words *= 2


@CompiledLoop
def _star(
    ptr: Any, idx: Any, order: Any, words: int, proper: int, near: Any, twice: Any, leaf: Any, colors: Any
) -> int:
    most = 0
    for v in order:
        found = -1
        for t in range(words):
            taken = 0
            if proper:
                taken = near[v * words + t]
            for e in range(ptr[v], ptr[v + 1]):
                w = idx[e]
                c = colors[w]
                if c >= 0:
                    taken |= leaf[w * words + t]
                    if (twice[v * words + c // BITS] >> (c % BITS)) & 1:
                        taken |= near[w * words + t]
            if taken != FULL:
                free = 0
                while taken & 1:
                    taken >>= 1
                    free += 1
                found = t * BITS + free
                break
        if found < 0:
            return -1
        colors[v] = found
        most = max(most, found + 1)
        word, bit = found // BITS, 1 << (found % BITS)
        for e in range(ptr[v], ptr[v + 1]):
            w = idx[e]
            index = w * words + word
            c = colors[w]
            if near[index] & bit:
                if c >= 0:  # w is a hub, and v one more leaf of it
                    hub_word, hub_bit = c // BITS, 1 << (c % BITS)
                    if not twice[index] & bit:
                        for other in range(ptr[w], ptr[w + 1]):
                            x = idx[other]
                            if x != v and colors[x] == found:
                                leaf[x * words + hub_word] |= hub_bit
                                break
                    leaf[v * words + hub_word] |= hub_bit
                twice[index] |= bit
            else:
                near[index] |= bit
            if c >= 0 and (twice[v * words + c // BITS] >> (c % BITS)) & 1:  # v is a hub, and w a leaf of it
                leaf[w * words + word] |= bit
    return most


__all__ = ["star"]
