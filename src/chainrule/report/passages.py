"""Token-coloured text: every character in a cell of its own, shaded by the number of its token."""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from chainrule.core.formatting import number
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Passage
from chainrule.core.quoting import plain
from chainrule.report import style
from chainrule.report.style import SMALL_SIZE, TEXT_SIZE, TITLE_SIZE

_COLUMNS = 64
_LINES = 24
_CELL, _LINE = 9.0, 21.0
_MARGIN = 12.0
_FOOT = 15.0


def passage(picture: Passage, title: bool) -> Figure:
    """A text over shades, with a key below it."""
    cells = _cells(picture)
    lines = max((line for line, *_ in cells), default=0) + 1
    top = 36.0 if title else 8.0
    width = _COLUMNS * _CELL + 2 * _MARGIN
    said = style.foot_lines(picture.footnote, width)
    height = top + (lines + 1.5) * _LINE + _FOOT * len(said)
    figure = style.figure(width, height, fixed=True)
    axes = figure.add_axes(
        (0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), frame_on=False, xticks=[], yticks=[]
    )
    if title:
        axes.text(_MARGIN, 22, plain(picture.title, 70), fontsize=TITLE_SIZE, fontweight="bold")
    values = np.asarray(picture.values, float)
    finite = values[np.isfinite(values)]
    high = float((abs(finite) if picture.signed else finite).max()) if len(finite) else 0.0
    shades = abs(values) if picture.signed else values
    density = np.nan_to_num(np.clip(shades / high, 0, 1), nan=0.0) if high > 0 else np.zeros(len(values))
    hues = [LIGHT["2" if picture.signed and value < 0 else "1"] for value in values]
    corners = np.array([[0, 0], [_CELL, 0], [_CELL, _LINE - 3], [0, _LINE - 3]])
    boxes = [np.array([_MARGIN + column * _CELL, top + line * _LINE]) + corners for line, column, *_ in cells]
    faces = [(*to_rgb(hues[piece]), 0.9 * density[piece]) for *_, piece in cells]
    axes.add_collection(PolyCollection(boxes, facecolors=faces, linewidths=0.0, antialiaseds=False))
    for line, column, character, piece in cells:
        where = (_MARGIN + (column + 0.5) * _CELL, top + line * _LINE + 13)
        ink = LIGHT["paper"] if density[piece] > 0.55 else LIGHT["ink"]
        axes.text(*where, character, ha="center", fontsize=TEXT_SIZE, color=ink)
    full = f"full: {'±' if picture.signed else ''}{number(high, 3)} {plain(picture.unit, 30)}".rstrip()
    signs = " (blue raises, orange lowers)" if picture.signed else ""
    key = f"none: 0, {full}{signs}" if high > 0 else "no shades"
    axes.text(_MARGIN, height - 10 - _FOOT * len(said), key, fontsize=SMALL_SIZE, color=LIGHT["soft"])
    for below, words in enumerate(said):
        bottom = height - 10 - _FOOT * (len(said) - 1 - below)
        axes.text(_MARGIN, bottom, words, fontsize=SMALL_SIZE, color=style.foot_color(picture.footnote))
    return figure


def _cells(picture: Passage) -> list[tuple[int, int, str, int]]:
    """Line, column, character and piece of each cell; a text that is too long ends in an ellipsis."""
    cells: list[tuple[int, int, str, int]] = []
    line = column = 0
    for piece, text in enumerate(picture.pieces):
        for character in text:
            if column == _COLUMNS:
                line, column = line + 1, 0
            if line == _LINES:
                return [*cells[:-1], (*cells[-1][:2], "…", cells[-1][3])]
            shown = "·" if character == " " else plain(character)
            cells.append((line, column, shown if len(shown) == 1 else "□", piece))
            column += 1
            if character == "\n":
                line, column = line + 1, 0
    return cells


__all__ = ["passage"]
