"""Entries by substitution: how the values in each two-coloured tree follow from its leaves.

At a leaf l of a tree with its only neighbour p, the product of p's colour holds the entry (l, p) alone. Further in it
holds the sum of the entries at that vertex, of which all but one are known. Written with alternating signs, the value
of an edge is the sum of what its subtree reads, and sums over subtrees take as many rounds as the depth has binary
digits: in round r every edge adds to its ancestor 2^r steps up.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.derive.sparse.coloring.checking import ColoringError
from chainrule.derive.sparse.coloring.compiled import Kernel
from chainrule.derive.sparse.patterns import Pattern


@final
@dataclass(frozen=True)
class Substitution:
    """One equation per edge, and the way they depend on each other."""

    vertex: np.ndarray
    color: np.ndarray
    """For every edge, the vertex and the colour whose product it is read from."""
    signs: np.ndarray
    rounds: tuple[tuple[np.ndarray, np.ndarray], ...]
    """For every round, edges and the ancestors they add to."""
    edge: np.ndarray
    """For every place of the pattern its edge, or -1 on the diagonal."""
    depth: int
    """Substitutions one after another that some value needs; rounding errors grow with it."""


def substitution(pattern: Pattern, colors: np.ndarray) -> Substitution:
    """The trees of an acyclic colouring, rooted at their middle."""
    n, k = pattern.shape[0], int(colors.max(initial=0)) + 1
    off = np.flatnonzero(pattern.rows != pattern.cols)
    rows, cols = pattern.rows[off].astype(np.int64), pattern.cols[off].astype(np.int64)
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    pairs, edge_of = np.unique(low * n + high, return_inverse=True)
    keys, slot_of = np.unique(rows * k + colors[cols], return_inverse=True)
    ends = np.empty((2, len(pairs)), dtype=np.int64)
    ends[(rows > cols).astype(np.int64), edge_of] = slot_of
    degree = np.bincount(slot_of, minlength=len(keys)).astype(np.int64)
    sole = np.zeros(len(keys), dtype=np.int64)
    np.bitwise_xor.at(sole, slot_of, edge_of)
    queue = np.full(len(keys), -1, dtype=np.int64)
    leaves = np.flatnonzero(degree == 1)
    queue[: len(leaves)] = leaves
    child, above, order = (np.full(len(pairs), -1, dtype=np.int64) for _ in range(3))
    peeled = _peel(8.0 * len(off), len(leaves), queue, degree, sole, ends[0], ends[1], child, above, order)
    if peeled < len(pairs):
        i, j = divmod(int(pairs[np.flatnonzero(child < 0)[0]]), n)
        raise ColoringError(f"entry ({i}, {j}) lies on a cycle of two colours: substitution cannot reach it")
    edge_of_slot = np.full(len(keys), -1, dtype=np.int64)
    edge_of_slot[child] = np.arange(len(pairs))
    parent = edge_of_slot[above]
    levels, heights = _levels(parent, order)
    edge = np.full(pattern.nnz, -1, dtype=np.int64)
    edge[off] = edge_of
    return Substitution(
        vertex=keys[child] // k,
        color=keys[child] % k,
        signs=1 - 2 * (levels % 2),
        rounds=_doubling(parent, int(heights.max(initial=0))),
        edge=edge,
        depth=int(heights.max(initial=0)),
    )


@Kernel
def _peel(
    leaves: int,
    queue: Any,
    degree: Any,
    sole: Any,
    first: Any,
    second: Any,
    child: Any,
    above: Any,
    order: Any,
) -> int:
    """Take edges off their leaves; a slot is a vertex with all its edges to one colour, `sole` the xor of those."""
    head, tail, count = 0, leaves, 0
    while head < tail:
        s = queue[head]
        head += 1
        if degree[s] != 1:
            continue
        e = sole[s]
        other = second[e] if first[e] == s else first[e]
        child[e] = s
        above[e] = other
        order[count] = e
        count += 1
        degree[s] = 0
        degree[other] -= 1
        sole[other] ^= e
        if degree[other] == 1:
            queue[tail] = other
            tail += 1
    return count


def _levels(parent: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance of each edge from its root, and of its farthest leaf from it."""
    levels, heights = (np.zeros(len(parent), dtype=np.int64) for _ in range(2))
    _measure(3.0 * len(parent), parent, order, levels, heights)
    return levels, heights


@Kernel
def _measure(parent: Any, order: Any, levels: Any, heights: Any) -> int:
    for t in range(len(order)):
        e = order[t]
        p = parent[e]
        if p >= 0:
            heights[p] = max(heights[p], heights[e] + 1)
    for back in range(len(order)):
        e = order[len(order) - 1 - back]
        p = parent[e]
        if p >= 0:
            levels[e] = levels[p] + 1
    return 0


def _doubling(parent: np.ndarray, depth: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    rounds = []
    ancestor = parent.copy()
    for _ in range(depth.bit_length()):
        sources = np.flatnonzero(ancestor >= 0)
        rounds.append((sources, ancestor[sources]))
        ancestor[sources] = ancestor[ancestor[sources]]
    return tuple(rounds)


__all__ = ["Substitution", "substitution"]
