"""Heatmaps and tables.

A matrix is one hue over the paper, denser for larger values (two hues around zero when it is signed), so it reads on
light and on dark paper alike. Small matrices are drawn cell by cell and follow the page's colours; large ones are
embedded as pixels.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from chainrule.core.formatting import number
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Heatmap, Table
from chainrule.core.quoting import plain
from chainrule.report import style, ticks
from chainrule.report.style import SMALL_SIZE, TEXT_SIZE, TITLE_SIZE, WIDTH

_CELL_BY_CELL = 2500
_WIDEST = 960.0
_NAME = 18
_ROUND = [n * 10**k for k in range(12) for n in (1, 2, 5)]
"""Distances between names that are not all shown."""
_TEXT = 60


def heatmap(picture: Heatmap, title: bool) -> Figure:
    """A matrix in colour."""
    values = np.atleast_2d(np.asarray(picture.values, dtype=float))
    rows, columns = values.shape
    labels = [[plain(word, 8) for word in row] for row in picture.words]
    if picture.numbers and not labels:
        labels = _entries(values)
    wanted = max((7.0 * len(t) + 12 for row in labels for t in row), default=0)
    cell = float(np.clip(max(wanted, (WIDTH - 110) / max(columns, 1)), 3, 46))
    beside, below = (
        8 * max((min(len(n), _NAME) for n in names), default=3) for names in (picture.rows, picture.columns)
    )
    broad = max(cell, below) if below * columns <= WIDTH - 80 else cell
    turned = below > max(broad, columns * cell / max(len(_runs(picture.columns)), 1)) and bool(
        picture.columns
    )
    width = float(np.clip(columns * broad + beside + 70 + (0 if picture.numbers else 60), 260, _WIDEST))
    height = float(np.clip(rows * cell + (below if turned else 20) + 60 + 24 * title, 160, _WIDEST))
    figure = style.figure(width, height + (0 if picture.footnote is None else 30))
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    if title:
        style.head(figure, picture.title)
    low, high = _range(values, picture.diverging)
    tone, density = _shades(values, low, high, picture.diverging)
    if values.size <= _CELL_BY_CELL:
        _cells(axes, tone, density)
    else:
        axes.imshow(pixels(tone, density), extent=(0, columns, rows, 0), aspect="auto", interpolation="none")
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_xlabel(plain(picture.x_label, 60))
    axes.set_ylabel(plain(picture.y_label, 60), rotation_mode="anchor")
    room = width / (16 if picture.columns else 40)
    _names(axes.xaxis, picture.columns, columns, room, turned=turned, joined=below > broad and not turned)
    _names(axes.yaxis, picture.rows, rows, room=height / (16 if picture.rows else 24))
    axes.spines[:].set_visible(False)
    if labels:
        size = float(np.clip(cell * 0.34, 7.5, TEXT_SIZE))
        for (row, column), dense in np.ndenumerate(density):
            ink = (
                LIGHT["paper"]
                if dense > 0.55
                else LIGHT["axis"]
                if values[row, column] == 0 and not picture.words
                else LIGHT["ink"]
            )
            where = (column + 0.5, row + 0.5)
            axes.text(
                *where, labels[row][column], ha="center", va="center_baseline", fontsize=size, color=ink
            )
    if high > low and not picture.numbers:
        _key(axes, low, high, picture.diverging)
    return figure


def table(picture: Table, title: bool) -> Figure:
    """Rows under named columns; numbers line up on the right, text on the left."""
    cells = [[plain(c if isinstance(c, str) else number(c), _TEXT) for c in row] for row in picture.rows]
    heads = [plain(c, _TEXT) for c in picture.columns]
    numeric = [
        bool(cells) and not any(isinstance(row[i], str) for row in picture.rows) for i in range(len(heads))
    ]
    widths = [
        max(_measure(t) for t in (head, *(row[i] for row in cells))) + 22 for i, head in enumerate(heads)
    ]
    top, line = (36.0 if title else 8.0), 22.0
    heading = plain(picture.title, 70) if title else ""
    width = max(sum(widths) + 16, 1.4 * _measure(heading) + 24, 200.0)
    height = top + line * (len(cells) + 1) + 12
    figure = style.figure(width, height, fixed=True)
    axes = figure.add_axes(
        (0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), frame_on=False, xticks=[], yticks=[]
    )
    axes.text(12, 22, heading, fontsize=TITLE_SIZE, fontweight="bold")
    left = 8.0
    for index, head in enumerate(heads):
        x, side = (left + widths[index] - 14, "right") if numeric[index] else (left + 4, "left")
        axes.text(x, top + 15, head, fontsize=SMALL_SIZE, color=LIGHT["soft"], ha=side)
        for below, row in enumerate(cells, start=2):
            axes.text(x, top + line * below - 7, row[index], ha=side)
        left += widths[index]
    for below in range(len(cells) + 1):
        tone, y = LIGHT["grid" if below else "axis"], top + line * (below + 1)
        axes.plot([8, left - 4], [y, y], color=tone, linewidth=0.8)
    return figure


def _measure(text: str) -> float:
    # The measuring font is wider than those readers have, so text of the reader's font fits.
    prop = FontProperties(family="DejaVu Sans", size=TEXT_SIZE)
    return float(text_to_path.get_text_width_height_descent(text, prop, False)[0])


def _entries(values: np.ndarray) -> list[list[str]]:
    finite = values[np.isfinite(values)]
    if np.all(finite == np.rint(finite)):
        return [[number(v, 12) for v in row] for row in values]
    return [
        [f"{v:.2f}".replace("-", "−") if 0.005 <= abs(v) < 1000 else number(v, 2) for v in row]
        for row in values
    ]


def _range(values: np.ndarray, diverging: bool) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 0.0
    if diverging:
        largest = float(np.abs(finite).max())
        return -largest, largest
    return min(0.0, float(finite.min())) if finite.min() < 0.5 * finite.max() else float(finite.min()), float(
        finite.max()
    )


def _shades(values: np.ndarray, low: float, high: float, diverging: bool) -> tuple[np.ndarray, np.ndarray]:
    """For every entry which hue it has (0, or 1 below zero) and how dense it is; what is not a number stays empty."""
    if high <= low:
        return np.zeros(values.shape, dtype=int), np.zeros(values.shape)
    density = np.abs(values) / high if diverging else (values - low) / (high - low)
    negative = (values < 0) & diverging
    return negative.astype(int), np.nan_to_num(np.clip(density, 0, 1), nan=0.0)


_HUES = (LIGHT["1"], LIGHT["2"])


def _cells(axes: Axes, tone: np.ndarray, density: np.ndarray) -> None:
    rows, columns = tone.shape
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    origins = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).reshape(-1, 1, 2)
    faces = [(*to_rgb(_HUES[t]), 0.04 + 0.96 * d) for t, d in zip(tone.ravel(), density.ravel(), strict=True)]
    gap = 1.5 if columns <= 24 else 0.0
    cells = PolyCollection(
        origins + corners,
        facecolors=faces,
        edgecolors=LIGHT["paper"],
        linewidths=gap,
        antialiaseds=gap > 0,  # without a gap, smoothed edges would leave hair lines between neighbours
    )
    axes.add_collection(cells)


def pixels(tone: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Colours of cells: a hue (0, or 1 for what is below zero), the denser the more."""
    colors = np.array([to_rgb(hue) for hue in _HUES])[tone]
    return np.concatenate([colors, (0.04 + 0.96 * density)[..., None]], axis=-1)


def _names(
    axis: Axis, names: Sequence[str], count: int, room: float, *, turned: bool = False, joined: bool = False
) -> None:
    """Row or column names in the middle of their cells, as many as there is room for.

    Where that is not all, or they are to be `joined`, neighbours of the same name are named once, in their middle.
    """
    axis.set_tick_params(length=0)
    every = next(n for n in _ROUND if n * room >= count)
    where = np.arange(count)[::every]
    runs = _runs(names)
    if (every > 1 or joined) and 0 < len(runs) <= room:
        axis.set_ticks(
            [0.5 * (run.start + run.stop) for run in runs], [plain(names[run.start], _NAME) for run in runs]
        )
    else:
        shown = [plain(names[i], _NAME) for i in where] if names else [str(i) for i in where]
        axis.set_ticks(where + 0.5, shown)
    if turned:
        for label in axis.get_ticklabels():
            label.set(rotation=45, ha="right", va="center_baseline", rotation_mode="anchor")


def _runs(names: Sequence[str]) -> list[range]:
    """Neighbours that have the same name.

    >>> _runs(["a", "a", "b"])
    [range(0, 2), range(2, 3)]
    """
    edges = [i for i in range(len(names)) if not i or names[i] != names[i - 1]] + [len(names)]
    return [range(*ends) for ends in itertools.pairwise(edges)]


def _key(axes: Axes, low: float, high: float, diverging: bool) -> None:
    """The colour key to the right of a matrix without numbers."""
    key = axes.inset_axes((1.04, 0.0, 0.03, 1.0))
    steps = np.linspace(low, high, 64)[:, None]
    edges = np.linspace(low, high, 65)
    tone, density = _shades(steps, low, high, diverging)
    for (t, d), bottom, top in zip(np.c_[tone, density], edges, edges[1:], strict=False):
        key.axhspan(bottom, top, color=_HUES[int(t)], alpha=0.04 + 0.96 * d, linewidth=0, antialiased=False)
    key.set_ylim(low, high)
    key.spines[:].set_visible(False)
    key.xaxis.set_ticks([])
    key.yaxis.tick_right()
    ticks.linear(key.yaxis, count=5)


__all__ = ["heatmap", "pixels", "table"]
