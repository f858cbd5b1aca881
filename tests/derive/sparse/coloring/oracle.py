"""What each kind of colouring promises, spelled out by walking over all paths: shares nothing with the library."""

import itertools

import numpy as np

from chainrule.derive.sparse import Pattern


def neighbours(pattern: Pattern) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(pattern.shape[0])]
    for i, j in zip(pattern.rows.tolist(), pattern.cols.tolist(), strict=True):
        if i != j:
            found[i].add(j)
    return found


def is_proper(pattern: Pattern, colors: np.ndarray) -> bool:
    around = neighbours(pattern)
    return all(colors[v] != colors[w] for v in range(len(around)) for w in around[v])


def is_star(pattern: Pattern, colors: np.ndarray) -> bool:
    around = neighbours(pattern)
    for b in range(len(around)):
        for c in around[b]:
            for a, d in itertools.product(around[b] - {c}, around[c] - {b}):
                if a != d and len({colors[a], colors[b], colors[c], colors[d]}) < 3:
                    return False
                if a == d and len({colors[a], colors[b], colors[c]}) < 3:
                    return False
    return is_proper(pattern, colors)


def is_acyclic(pattern: Pattern, colors: np.ndarray) -> bool:
    around = neighbours(pattern)
    for pair in itertools.combinations(sorted(set(colors.tolist())), 2):
        members = [v for v in range(len(around)) if colors[v] in pair]
        seen: set[int] = set()
        for start in members:
            if start in seen:
                continue
            stack = [(start, -1)]
            while stack:
                v, origin = stack.pop()
                if v in seen:
                    return False
                seen.add(v)
                stack += [(w, v) for w in around[v] if colors[w] in pair and w != origin]
    return is_proper(pattern, colors)


def separates(full: np.ndarray, colors: np.ndarray) -> bool:
    """Whether no row of a boolean matrix holds two columns of one colour."""
    for row in full:
        found = colors[np.flatnonzero(row)].tolist()
        if len(set(found)) < len(found) or -1 in found:
            return False
    return True


def recovers(pattern: Pattern, rows: np.ndarray, columns: np.ndarray, matrix: np.ndarray) -> bool:
    """Whether every entry of a matrix stands alone somewhere in its products with the colours' seeds."""
    for i, j in zip(pattern.rows.tolist(), pattern.cols.tolist(), strict=True):
        by_column = columns[j] >= 0 and np.count_nonzero(matrix[i] * (columns == columns[j])) == 1
        by_row = rows[i] >= 0 and np.count_nonzero(matrix[:, j] * (rows == rows[i])) == 1
        if not by_column and not by_row:
            return False
    return True


def determines(pattern: Pattern, rows: np.ndarray, columns: np.ndarray) -> bool:
    """Whether the products with the colours' seeds, as linear equations in the entries, have one solution."""
    equations = [
        (pattern.rows == i) & (columns[pattern.cols] == c)
        for i in set(pattern.rows)
        for c in set(columns) - {-1}
    ]
    equations += [
        (pattern.cols == j) & (rows[pattern.rows] == r) for j in set(pattern.cols) for r in set(rows) - {-1}
    ]
    return pattern.nnz == 0 or int(np.linalg.matrix_rank(np.array(equations, dtype=float))) == pattern.nnz
