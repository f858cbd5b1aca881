"""Checks of colourings, entry by entry: slow, plain, and independent of what made them."""

from collections import Counter, defaultdict

import numpy as np

from chainrule.core.errors import ChainruleError
from chainrule.derive.sparse.patterns import Pattern


class ColoringError(ChainruleError):
    """Colours that do not allow every entry to be told apart."""


def check_groups(lines: np.ndarray, members: np.ndarray, colors: np.ndarray, words: tuple[str, str]) -> None:
    """No line may hold two members of one colour, and every member must have a colour."""
    line_word, member_word = words
    seen: dict[tuple[int, int], int] = {}
    for line, member in zip(lines.tolist(), members.tolist(), strict=True):
        color = int(colors[member])
        if color < 0:
            raise ColoringError(
                f"{member_word} {member} has an entry in {line_word} {line} but no colour to read it from"
            )
        other = seen.setdefault((line, color), member)
        if other != member:
            raise ColoringError(
                f"{member_word}s {other} and {member} share colour {color} and both have an entry in "
                f"{line_word} {line}"
            )


def check_sides(
    pattern: Pattern, row_colors: np.ndarray, column_colors: np.ndarray, *, forests: bool
) -> None:
    """Every entry must be alone in its row with its column's colour, or in its column with its row's colour.

    With `forests` it may also follow by substitution, if a row colour and a column colour never close a cycle.
    """
    entries = list(zip(pattern.rows.tolist(), pattern.cols.tolist(), strict=True))
    in_row = Counter((i, int(column_colors[j])) for i, j in entries)
    in_column = Counter((j, int(row_colors[i])) for i, j in entries)
    if forests:
        both = [(i, j) for i, j in entries if row_colors[i] >= 0 and column_colors[j] >= 0]
        _check_forests(both, row_colors.tolist(), column_colors.tolist())
        entries = [(i, j) for i, j in entries if row_colors[i] < 0 or column_colors[j] < 0]
    for i, j in entries:
        c, r = int(column_colors[j]), int(row_colors[i])
        if not (c >= 0 and in_row[i, c] == 1) and not (r >= 0 and in_column[j, r] == 1):
            raise ColoringError(
                f"entry ({i}, {j}) can be read neither from column colour {c} nor row colour {r}"
            )


def check_symmetric(pattern: Pattern, colors: np.ndarray, method: str) -> None:
    """Neighbours differ; and no two-coloured path on four vertices (star), no two-coloured cycle (acyclic)."""
    edges = [(i, j) for i, j in zip(pattern.rows.tolist(), pattern.cols.tolist(), strict=True) if i != j]
    color = [int(c) for c in colors]
    for v, c in enumerate(color):
        if c < 0:
            raise ColoringError(f"vertex {v} has no colour")
    for i, j in edges:
        if color[i] == color[j]:
            raise ColoringError(f"entry ({i}, {j}): vertices {i} and {j} share colour {color[i]}")
    if method == "star":
        around = Counter((i, color[j]) for i, j in edges)
        for i, j in edges:
            if around[i, color[j]] > 1 and around[j, color[i]] > 1:
                raise ColoringError(
                    f"entry ({i}, {j}) is the middle of a path on four vertices in colours "
                    f"{color[i]} and {color[j]} only"
                )
    if method == "acyclic":
        _check_forests([(i, j) for i, j in edges if color[i] < color[j]], color, color, apart=False)


def _check_forests(
    edges: list[tuple[int, int]], first: list[int], second: list[int], *, apart: bool = True
) -> None:
    """No cycle in two colours; `apart` says that the two ends of an edge are of two kinds."""
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for i, j in edges:
        pairs[first[i], second[j]].append((i, j))
    for pair, members in pairs.items():
        tree = {v: v for i, j in members for v in ((0, i), (int(apart), j))}

        def root(v: tuple[int, int], tree: dict[tuple[int, int], tuple[int, int]] = tree) -> tuple[int, int]:
            while tree[v] != v:
                tree[v] = tree[tree[v]]
                v = tree[v]
            return v

        for i, j in members:
            start, end = root((0, i)), root((int(apart), j))
            if start == end:
                raise ColoringError(
                    f"entry ({i}, {j}) closes a cycle in colours {pair[0]} and {pair[1]} only"
                )
            tree[start] = end


__all__ = ["ColoringError", "check_groups", "check_sides", "check_symmetric"]
