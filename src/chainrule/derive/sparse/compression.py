"""Compression recipes: which products to compute for a colouring, and where in them every entry is found.

All products are laid out in one vector, forward products (m numbers each) before reverse ones (n numbers each), and
one gather puts the entries in the order of the pattern.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.derive.sparse.coloring import reading
from chainrule.derive.sparse.coloring.checking import ColoringError
from chainrule.derive.sparse.coloring.result import Coloring, SideColors
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.substitution import Substitution, substitution, two_sided


@final
@dataclass(frozen=True)
class CompressionRecipe:
    """Products and where to read them."""

    pattern: Pattern
    column_colors: np.ndarray
    """The forward product each column takes part in, -1 for none."""
    row_colors: np.ndarray
    """The reverse product each row takes part in, -1 for none."""
    forward: int
    reverse: int
    index: np.ndarray
    """Positions in the vector of all products: one per entry, or with substitution one per diagonal entry and edge."""
    substitution: Substitution | None = None
    spread: np.ndarray | None = None
    """With substitution: for each entry its position among diagonal entries followed by edges."""

    @property
    def products(self) -> int:
        """Products in all."""
        return self.forward + self.reverse

    @property
    def groups(self) -> np.ndarray:
        """For every entry the product it is read from, forward ones numbered first."""
        m, n = self.pattern.shape
        index = self.index if self.spread is None else self.index[self.spread]
        ahead = self.forward * m
        return np.where(index < ahead, index // max(m, 1), self.forward + (index - ahead) // max(n, 1))


def recipe(coloring: Coloring) -> CompressionRecipe:
    """How to compute a derivative with these colours; colours that nothing is read from are dropped."""
    pattern = coloring.pattern
    if coloring.method == "distance-1":
        raise ArgumentError(
            "a distance-1 colouring does not determine the entries",
            remedy='use "star", "acyclic" or "column"',
        )
    if isinstance(coloring.colors, SideColors):
        direct = coloring.method == "bidirectional"
        return (_two_sided if direct else _two_sided_trees)(pattern, *coloring.colors)
    if coloring.method == "column":
        return _two_sided(pattern, np.full(pattern.shape[0], -1), coloring.colors)
    if coloring.method == "row":
        return _two_sided(pattern, coloring.colors, np.full(pattern.shape[1], -1))
    if coloring.method == "star":
        return _star(pattern, coloring.colors)
    return _acyclic(pattern, coloring.colors)


def _two_sided(pattern: Pattern, row_colors: np.ndarray, column_colors: np.ndarray) -> CompressionRecipe:
    m, n = pattern.shape
    forward, reverse = (int(c.max(initial=-1)) + 1 for c in (column_colors, row_colors))
    c, r = column_colors[pattern.cols], row_colors[pattern.rows]
    by_column = reading.alone(pattern.rows, c)
    by_row = reading.alone(pattern.cols, r)
    _all_read(pattern, by_column | by_row)
    index = np.where(by_column, c * m + pattern.rows, forward * m + r * n + pattern.cols)
    return CompressionRecipe(pattern, column_colors, row_colors, forward, reverse, index)


def _two_sided_trees(
    pattern: Pattern, row_colors: np.ndarray, column_colors: np.ndarray
) -> CompressionRecipe:
    m, n = pattern.shape
    forward, reverse = (int(c.max(initial=-1)) + 1 for c in (column_colors, row_colors))
    found = two_sided(pattern, row_colors, column_colors)
    index = np.where(found.forward, found.color * m, forward * m + found.color * n) + found.line
    return CompressionRecipe(pattern, column_colors, row_colors, forward, reverse, index, found, found.edge)


def _star(pattern: Pattern, colors: np.ndarray) -> CompressionRecipe:
    """Entry (i, j) from the product of j's colour at i, or by symmetry from that of i's colour at j."""
    n = pattern.shape[0]
    ahead, mirrored = colors[pattern.cols], colors[pattern.rows]
    by_column = reading.alone(pattern.rows, ahead)
    by_mirror = reading.alone(pattern.cols, mirrored)
    _all_read(pattern, by_column | by_mirror)
    count = int(colors.max(initial=-1)) + 1
    needed = _needed(count, ahead, mirrored, by_column, by_mirror)
    names = np.where(needed, np.cumsum(needed) - 1, -1)
    take = by_column & needed[ahead]
    index = np.where(take, names[ahead] * n + pattern.rows, names[mirrored] * n + pattern.cols)
    return CompressionRecipe(pattern, names[colors], np.full(n, -1), int(needed.sum()), 0, index)


def _needed(
    count: int, ahead: np.ndarray, mirrored: np.ndarray, by_column: np.ndarray, by_mirror: np.ndarray
) -> np.ndarray:
    """Colours to keep: those some entry depends on, then the most useful until every entry can be read."""
    needed = np.zeros(count, dtype=bool)
    needed[ahead[by_column & ~by_mirror]] = True
    needed[mirrored[by_mirror & ~by_column]] = True
    needed[ahead[ahead == mirrored]] = True  # the diagonal
    while True:
        left = ~((by_column & needed[ahead]) | (by_mirror & needed[mirrored]))
        if not left.any():
            return needed
        uses = np.bincount(np.concatenate([ahead[left & by_column], mirrored[left & by_mirror]]))
        needed[int(uses.argmax())] = True


def _acyclic(pattern: Pattern, colors: np.ndarray) -> CompressionRecipe:
    n = pattern.shape[0]
    found = substitution(pattern, colors)
    diagonal = np.flatnonzero(found.edge < 0)
    on = pattern.rows[diagonal].astype(np.int64)
    read_colors = np.concatenate([colors[on], found.color]).astype(np.int64)
    needed = np.zeros(int(colors.max(initial=-1)) + 1, dtype=bool)
    needed[read_colors] = True
    names = np.where(needed, np.cumsum(needed) - 1, -1)
    index = names[read_colors] * n + np.concatenate([on, found.line])
    spread = found.edge + len(diagonal)
    spread[diagonal] = np.arange(len(diagonal))
    return CompressionRecipe(
        pattern, names[colors], np.full(n, -1), int(needed.sum()), 0, index, found, spread
    )


def restricted(made: CompressionRecipe, part: str) -> CompressionRecipe:
    """The recipe for one triangle of a symmetric matrix, "lower" or "upper", or as it is for "full"."""
    if part == "full":
        return made
    pattern = made.pattern
    inside = pattern.rows >= pattern.cols if part == "lower" else pattern.rows <= pattern.cols
    kept = Pattern(pattern.rows[inside], pattern.cols[inside], pattern.shape)
    if made.spread is None:
        return replace(made, pattern=kept, index=made.index[inside])
    return replace(made, pattern=kept, spread=made.spread[inside])


def mirrored(full: Pattern, triangle: Pattern) -> np.ndarray:
    """For every entry of a symmetric pattern, itself or its mirror image among those of one triangle of it."""
    n = full.shape[1]
    keys = triangle.rows.astype(np.int64) * n + triangle.cols
    lower = triangle.nnz and bool((triangle.rows >= triangle.cols).all())
    high, low = np.maximum(full.rows, full.cols), np.minimum(full.rows, full.cols)
    first, second = (high, low) if lower else (low, high)
    return np.searchsorted(keys, first.astype(np.int64) * n + second)


def _all_read(pattern: Pattern, read: np.ndarray) -> None:
    missing = np.flatnonzero(~read)
    if len(missing):
        i, j = int(pattern.rows[missing[0]]), int(pattern.cols[missing[0]])
        raise ColoringError(f"entry ({i}, {j}) cannot be read from any product of these colours")


__all__ = ["CompressionRecipe", "mirrored", "recipe", "restricted"]
