"""Direct decompression: from which compressed product each entry can be read, given the colours.

An entry (i, j) can be read from the forward product of its column's colour if no other column of that colour has an
entry in row i, and from the reverse product of its row's colour if no other row of that colour has one in column j.
"""

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import maximum_bipartite_matching


def alone(lines: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """For entries with a line and a colour each: whether no other entry of that line has the colour.

    A colour of -1 means none, and nothing can be read from it.

    >>> alone(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]))
    array([ True,  True, False, False])
    """
    if not len(lines):
        return np.zeros(0, dtype=bool)
    span = int(colors.max()) + 2
    keys = lines.astype(np.int64) * span + colors + 1
    if (int(lines.max()) + 1) * span <= 8 * len(lines):
        single = np.bincount(keys)[keys] == 1
    else:
        _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        single = counts[inverse] == 1
    return np.asarray(single & (colors >= 0))


def cover(
    by_first: np.ndarray, by_second: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The fewest colours of two kinds from which every entry can be read, as two arrays of booleans by colour.

    Each entry has a colour of either kind, and two booleans say by which of them it can be read. An entry with one
    way only forces its colour, one with neither (it follows from others by substitution) both; the rest is a smallest
    vertex cover, which by König's theorem follows from a largest matching.
    """
    need_first = np.zeros(int(first.max(initial=-1)) + 1, dtype=bool)
    need_second = np.zeros(int(second.max(initial=-1)) + 1, dtype=bool)
    need_first[first[by_first & ~by_second]] = True
    need_second[second[by_second & ~by_first]] = True
    need_first[first[~by_first & ~by_second]] = True
    need_second[second[~by_first & ~by_second]] = True
    free = by_first & by_second
    free[free] = ~(need_first[first[free]] | need_second[second[free]])
    if not free.any():
        return need_first, need_second
    edges = scipy.sparse.csr_array(
        (np.ones(free.sum()), (first[free], second[free])), shape=(len(need_first), len(need_second))
    )
    edges.sum_duplicates()
    partner = maximum_bipartite_matching(edges, perm_type="column")
    owner = np.full(len(need_second), -1)
    owner[partner[partner >= 0]] = np.flatnonzero(partner >= 0)
    busy = np.diff(edges.indptr) > 0
    reached = busy & (partner < 0)
    waiting = list(np.flatnonzero(reached))
    crossed = np.zeros(len(need_second), dtype=bool)
    while waiting:
        u = waiting.pop()
        for w in edges.indices[edges.indptr[u] : edges.indptr[u + 1]]:
            if not crossed[w]:
                crossed[w] = True
                if owner[w] >= 0 and not reached[owner[w]]:
                    reached[owner[w]] = True
                    waiting.append(owner[w])
    return need_first | (busy & ~reached), need_second | crossed


__all__ = ["alone", "cover"]
