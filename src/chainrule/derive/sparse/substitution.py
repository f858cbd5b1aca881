"""Decompression by substitution: the values of each two-coloured tree, from its leaves.

At a leaf l of a tree with its only neighbour p, the product of p's colour holds the entry (l, p) alone. Further in it
holds the sum of the entries at that vertex, of which all but one are known. (A vertex with one colour beside it is a
*slot* here: one number of one product.) Written with alternating signs, the value
of an edge is the sum of what its subtree reads, and sums over subtrees take as many rounds as the depth has binary
digits: in round r every edge adds to its ancestor 2^r steps up.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.derive.sparse.coloring.checking import ColoringError
from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.patterns import Pattern


@final
@dataclass(frozen=True)
class Substitution:
    """One equation per edge, and the way they depend on each other."""

    line: np.ndarray
    color: np.ndarray
    forward: np.ndarray
    """For every edge, the position in a product, the product's colour, and whether that is a forward product."""
    signs: np.ndarray
    rounds: tuple[tuple[np.ndarray, np.ndarray], ...]
    """For every round, edges and the ancestors they add to."""
    depth: int
    """Substitutions one after another that some value needs; rounding errors grow with it."""
    edge: np.ndarray
    """For every position of the pattern its edge, or -1 on the diagonal of a symmetric matrix."""


def substitution(pattern: Pattern, colors: np.ndarray) -> Substitution:
    """The trees of an acyclic colouring of a symmetric matrix, rooted at their middle."""
    n, k = pattern.shape[0], int(colors.max(initial=0)) + 1
    off = np.flatnonzero(pattern.rows != pattern.cols)
    rows, cols = pattern.rows[off].astype(np.int64), pattern.cols[off].astype(np.int64)
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    pairs, edge_of = np.unique(low * n + high, return_inverse=True)
    keys, slot_of = np.unique(rows * k + colors[cols], return_inverse=True)
    ends = np.empty((2, len(pairs)), dtype=np.int64)
    ends[(rows > cols).astype(np.int64), edge_of] = slot_of
    slots, signs, rounds, depth = _solved(ends, np.ones(len(keys), dtype=bool), pairs, n)
    edge = np.full(pattern.nnz, -1, dtype=np.int64)
    edge[off] = edge_of
    forward = np.ones(len(pairs), dtype=bool)
    return Substitution(keys[slots] // k, keys[slots] % k, forward, signs, rounds, depth, edge)


def two_sided(pattern: Pattern, row_colors: np.ndarray, column_colors: np.ndarray) -> Substitution:
    """The trees of rows and columns; a row with a column colour is a number of a forward product, and the other way."""
    rows, cols = pattern.rows.astype(np.int64), pattern.cols.astype(np.int64)
    # Colour -1 is no product: its slots count what meets there but cannot be read.
    c, r = column_colors[cols] + 1, row_colors[rows] + 1
    k_forward, k_reverse = int(c.max(initial=0)) + 1, int(r.max(initial=0)) + 1
    keys_forward, by_row = np.unique(rows * k_forward + c, return_inverse=True)
    keys_reverse, by_column = np.unique(cols * k_reverse + r, return_inverse=True)
    ends = np.stack([by_row, by_column + len(keys_forward)]).astype(np.int64)
    readable = np.concatenate([keys_forward % k_forward > 0, keys_reverse % k_reverse > 0])
    width = pattern.shape[1]
    slots, signs, rounds, depth = _solved(ends, readable, rows * width + cols, width)
    lines = np.concatenate([keys_forward // k_forward, keys_reverse // k_reverse])[slots]
    colors = np.concatenate([keys_forward % k_forward, keys_reverse % k_reverse])[slots] - 1
    edges = np.arange(pattern.nnz)
    return Substitution(lines, colors, slots < len(keys_forward), signs, rounds, depth, edges)


def _solved(
    ends: np.ndarray, readable: np.ndarray, positions: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, tuple[tuple[np.ndarray, np.ndarray], ...], int]:
    """The slot each edge is read from, with signs, rounds and depth; every edge has two slots as its ends."""
    count, edges = len(readable), ends.shape[1]
    degree = np.bincount(ends.ravel(), minlength=count).astype(np.int64)
    sole = np.zeros(count, dtype=np.int64)
    for end in ends:
        np.bitwise_xor.at(sole, end, np.arange(edges))
    queue = np.full(count, -1, dtype=np.int64)
    leaves = np.flatnonzero((degree == 1) & readable)
    queue[: len(leaves)] = leaves
    child, above, order = (np.full(edges, -1, dtype=np.int64) for _ in range(3))
    peeled = _peel(16.0 * edges, len(leaves), queue, degree, sole, ends[0], ends[1], child, above, order)
    missed = child < 0
    if peeled < edges or not readable[child].all():
        i, j = divmod(int(positions[np.flatnonzero(missed | ~readable[child])[0]]), width)
        raise ColoringError(f"entry ({i}, {j}) lies on a cycle of two colours: substitution cannot reach it")
    edge_of_slot = np.full(count, -1, dtype=np.int64)
    edge_of_slot[child] = np.arange(edges)
    parent = edge_of_slot[above]
    levels, heights = _levels(parent, order)
    depth = int(heights.max(initial=0))
    return child, 1 - 2 * (levels % 2), _doubling(parent, depth), depth


@CompiledLoop
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


@CompiledLoop
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


__all__ = ["Substitution", "substitution", "two_sided"]
