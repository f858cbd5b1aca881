"""Graphs and patterns the colouring tests share."""

import numpy as np

from chainrule.derive.sparse import Pattern

Edges = list[tuple[int, int]]

NAMED: dict[str, tuple[int, Edges]] = {
    "path of 4": (4, [(0, 1), (1, 2), (2, 3)]),
    "cycle of 4": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "cycle of 5": (5, [(i, (i + 1) % 5) for i in range(5)]),
    "3 with 3": (6, [(i, 3 + j) for i in range(3) for j in range(3)]),
    "grid of 3 by 3": (
        9,
        [(3 * i + j, 3 * i + j + 1) for i in range(3) for j in range(2)]
        + [(3 * i + j, 3 * i + j + 3) for i in range(2) for j in range(3)],
    ),
    "Petersen": (
        10,
        [(i, (i + 1) % 5) for i in range(5)]
        + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
        + [(i, 5 + i) for i in range(5)],
    ),
}


def symmetric(n: int, edges: Edges, *, diagonal: bool = True) -> Pattern:
    """The pattern of a symmetric matrix with these edges."""
    rows = [a for a, _ in edges] + [b for _, b in edges] + (list(range(n)) if diagonal else [])
    cols = [b for _, b in edges] + [a for a, _ in edges] + (list(range(n)) if diagonal else [])
    return Pattern(np.array(rows, dtype=int), np.array(cols, dtype=int), (n, n))


def from_rows(rows: list[set[int]], n: int) -> Pattern:
    """The pattern with these columns in each row."""
    entries = [(i, j) for i, row in enumerate(rows) for j in row]
    return Pattern(np.array([i for i, _ in entries]), np.array([j for _, j in entries]), (len(rows), n))


def arrow(n: int) -> Pattern:
    """First row, first column and diagonal."""
    i, zero = np.arange(n), np.zeros(n, dtype=int)
    return Pattern(np.concatenate([i, i, zero]), np.concatenate([i, zero, i]), (n, n))


def brusselator(size: int) -> Pattern:
    """Two fields on a periodic grid: five points of one field and one of the other."""
    at = np.arange(2 * size * size).reshape(2, size, size)
    rows, cols = [], []
    for field in range(2):
        for shift in [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]:
            rows.append(at[field].ravel())
            cols.append(np.roll(at[field], shift, (0, 1)).ravel())
        rows.append(at[field].ravel())
        cols.append(at[1 - field].ravel())
    n = 2 * size * size
    return Pattern(np.concatenate(rows), np.concatenate(cols), (n, n))


def band_with_hubs(n: int, width: int = 5, hubs: int = 5) -> Pattern:
    """A band, and some dense rows and columns."""
    i = np.arange(n)
    rows, cols = [], []
    for k in range(-width, width + 1):
        inside = (i + k >= 0) & (i + k < n)
        rows.append(i[inside])
        cols.append(i[inside] + k)
    for hub in range(hubs):
        rows += [np.full(n, hub), i]
        cols += [i, np.full(n, hub)]
    return Pattern(np.concatenate(rows), np.concatenate(cols), (n, n))


def network(n: int, edges: int, seed: int) -> Pattern:
    """A symmetric pattern with so many pairs of any two vertices, and the diagonal."""
    ends = np.random.default_rng(seed).integers(0, n, (2, edges))
    rows, cols = (np.concatenate([a, b, np.arange(n)]) for a, b in (ends, ends[::-1]))
    return Pattern(rows, cols, (n, n))


def random_symmetric(draw: np.random.Generator, most: int = 24) -> Pattern:
    """A random symmetric pattern, sparse or dense."""
    n = int(draw.integers(1, most))
    full = draw.random((n, n)) < draw.choice([0.03, 0.1, 0.3, 0.7])
    full |= full.T
    return Pattern(*np.nonzero(full), (n, n))


def random_pattern(draw: np.random.Generator, most: int = 24) -> Pattern:
    """A random pattern of any shape."""
    shape = int(draw.integers(1, most)), int(draw.integers(1, most))
    return Pattern(*np.nonzero(draw.random(shape) < draw.choice([0.03, 0.1, 0.3, 0.7])), shape)
