"""Spy plots: the entries of a pattern, each in the colour of the product it is read from.

Entries of one colour come out of one product. Squares are read from forward (or second-order) products, discs from
reverse ones. A matrix too large to show every entry is drawn in blocks, each in the colour that most of its entries
have.
"""

from typing import Any

import numpy as np

from chainrule.core.palette import GROUPS
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.svg import Canvas

_MOST_CELLS = 128
_BOX = 448.0
_LEFT, _TOP, _LEGEND = 56.0, 74.0, 190.0
_MOST_LISTED = 16


def spy(pattern: Pattern, coloring: Any = None) -> str:
    """A pattern as SVG, coloured by group if a colouring is given.

    >>> spy(Pattern([0, 1], [0, 1], (2, 2))).startswith("<svg")
    True
    """
    groups, forward, title = _groups(pattern, coloring)
    m, n = pattern.shape
    block = max(1, -(-max(m, n, 1) // _MOST_CELLS))
    rows, cols = -(-m // block), -(-n // block)
    cell = _BOX / max(rows, cols, 1)
    count = int(groups.max(initial=-1)) + 1
    height = max(_TOP + rows * cell + 46, _TOP + 20 * min(count, _MOST_LISTED + 1) + 46)
    canvas = Canvas(
        _LEFT + max(cols * cell, 150) + 24 + (_LEGEND if coloring is not None else 0), height, title
    )
    canvas.text(_LEFT, 30, title, "f-ink bold", size=15)
    shown = f"{pattern.nnz:,} entries, density {pattern.density:.3g}"
    shown += f"; each mark stands for a block of {block} x {block}" if block > 1 else ""
    canvas.text(_LEFT, 50, shown, "f-soft", size=12)
    canvas.rect(_LEFT, _TOP, cols * cell, rows * cell, "f-box s-grid thin")
    for group, blocks in _blocks(pattern, groups, block):
        draw = _squares if group < forward else _discs
        canvas.path(draw(blocks, cell), _fill(group))
    _axes(canvas, m, n, rows * cell, cols * cell)
    if coloring is not None:
        _legend(canvas, groups, forward, count, _LEFT + max(cols * cell, 150) + 24)
    return canvas.render()


def _groups(pattern: Pattern, coloring: Any) -> tuple[np.ndarray, int, str]:
    """The group of every entry, how many groups are not reverse products, and a title."""
    size = f"{pattern.shape[0]:,} x {pattern.shape[1]:,}"
    if coloring is None:
        return np.zeros(pattern.nnz, dtype=np.int64), 1, f"Pattern of a {size} matrix"
    title = f"{size} matrix in {coloring.num_colors} colours, {coloring.method}"
    if coloring.method == "distance-1":
        return coloring.colors[pattern.cols], coloring.num_colors, title
    from chainrule.derive.sparse.compression import recipe

    made = recipe(coloring)
    return made.groups, made.forward, title


def _blocks(pattern: Pattern, groups: np.ndarray, block: int) -> list[tuple[int, np.ndarray]]:
    """For each group the blocks, as (row, column), in which it is the most frequent."""
    width = -(-pattern.shape[1] // block)
    cells = (pattern.rows // block).astype(np.int64) * width + pattern.cols // block
    count = int(groups.max(initial=0)) + 1
    keys, times = np.unique(cells * count + groups, return_counts=True)
    order = np.lexsort((-times, keys // count))
    blocks, first = np.unique(keys[order] // count, return_index=True)
    owners = keys[order][first] % count
    return [(g, np.stack(np.divmod(blocks[owners == g], width), axis=1)) for g in np.unique(owners).tolist()]


def _squares(blocks: np.ndarray, cell: float) -> str:
    side = cell * (0.86 if cell > 4 else 1.0)
    gap = (cell - side) / 2
    return "".join(
        f"M{_LEFT + j * cell + gap:.2f},{_TOP + i * cell + gap:.2f}h{side:.2f}v{side:.2f}h{-side:.2f}z"
        for i, j in blocks.tolist()
    )


def _discs(blocks: np.ndarray, cell: float) -> str:
    r = cell * 0.4
    return "".join(
        f"M{_LEFT + (j + 0.5) * cell - r:.2f},{_TOP + (i + 0.5) * cell:.2f}"
        f"a{r:.2f},{r:.2f} 0 1 0 {2 * r:.2f},0a{r:.2f},{r:.2f} 0 1 0 {-2 * r:.2f},0z"
        for i, j in blocks.tolist()
    )


def _axes(canvas: Canvas, m: int, n: int, height: float, width: float) -> None:
    bottom = _TOP + height + 18
    canvas.text(_LEFT, bottom, "0", "f-soft", size=11)
    canvas.text(_LEFT + width, bottom, f"{max(n - 1, 0):,}", "f-soft", size=11, anchor="end")
    canvas.text(_LEFT + width / 2, bottom, "column", "f-soft", size=11, anchor="middle")
    canvas.text(_LEFT - 8, _TOP + 10, "0", "f-soft", size=11, anchor="end")
    canvas.text(_LEFT - 8, _TOP + height, f"{max(m - 1, 0):,}", "f-soft", size=11, anchor="end")
    canvas.text(_LEFT - 8, _TOP + height / 2 + 4, "row", "f-soft", size=11, anchor="end")


def _legend(canvas: Canvas, groups: np.ndarray, forward: int, count: int, x: float) -> None:
    sizes = np.bincount(groups, minlength=count)
    for group in range(min(count, _MOST_LISTED)):
        y = _TOP + 10 + 20 * group
        style = _fill(group)
        if group < forward:
            canvas.rect(x, y - 10, 12, 12, style)
        else:
            canvas.circle(x + 6, y - 4, 6, style)
        kind = f"product {group}" if group < forward else f"reverse product {group - forward}"
        canvas.text(x + 20, y, f"{kind}: {sizes[group]:,} entries", "f-ink", size=12)
    if count > _MOST_LISTED:
        y = _TOP + 10 + 20 * _MOST_LISTED
        canvas.text(x, y, f"and {count - _MOST_LISTED} more", "f-soft", size=12)


def _fill(group: int) -> str:
    """The class of a group's colour; groups beyond the last begin again."""
    return f"f-{GROUPS[group % len(GROUPS)]}"


__all__ = ["spy"]
