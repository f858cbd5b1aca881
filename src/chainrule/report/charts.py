"""Curves and bars, drawn with Matplotlib's object interface.

Series carry their names where they end instead of in a legend, so the eye does not travel; the vertical axis is
named above it, where it can be read without turning the head.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Bars, Lines
from chainrule.core.quoting import plain
from chainrule.report import style, ticks
from chainrule.report.axes import diagonal, finite, legend, name_axes, nothing
from chainrule.report.labels import direct_labels
from chainrule.report.style import SMALL_SIZE, WIDTH, color

_MANY_SERIES = 40
_FEW_POINTS = 24
_FEW_DOTS = 100
_LABEL = 28
"""Longest series name in characters."""


def lines(picture: Lines, title: bool) -> Figure:
    """Curves over one axis."""
    labelled = 1 < len(picture.series) <= _MANY_SERIES
    height = max(style.HEIGHT, 15.0 * len(picture.series) + 90) if labelled else style.HEIGHT
    figure = style.figure(WIDTH, height)
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    name_axes(figure, axes, picture.title if title else "", picture.x_label, picture.y_label)
    if picture.threads is not None:
        _threads(axes, *picture.threads)
    if picture.dots is not None:
        at = (finite(c, log) for c, log in zip(picture.dots, (picture.log_x, picture.log_y), strict=True))
        size = 3 if np.size(picture.dots[0]) > _FEW_DOTS else 5
        axes.plot(
            *at, color=LIGHT["ink"], alpha=0.55, linestyle="", marker="o", markersize=size, mew=0, zorder=3
        )
    ends: list[tuple[float, float, str, str]] = []
    indices = style.positions(list(picture.series))
    for index, (label, columns) in zip(indices, picture.series.items(), strict=True):
        x, y, *band = (
            finite(c, log) for c, log in zip(columns, (picture.log_x, *[picture.log_y] * 3), strict=False)
        )
        tone, dash = color(index), style.dash(index)
        there = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        few = 0 < len(there) <= _FEW_POINTS
        axes.plot(x, y, color=tone, linestyle=dash, marker="o" if few else None, markersize=4, label="_")
        if band:
            axes.fill_between(x, band[0], band[1], color=tone, alpha=0.16, linewidth=0)
        if len(there):
            ends.append((float(x[there[-1]]), float(y[there[-1]]), plain(label, _LABEL), tone))
    if not ends:
        nothing(axes)
    _scales(axes, picture, whole=all(_counts(columns[0]) for columns in picture.series.values()))
    if picture.names:
        _named_positions(axes, picture.names)
    if picture.diagonal:
        diagonal(axes)
    _marks(axes, picture.marks)
    if labelled:
        direct_labels(figure, axes, ends)
    return figure


def bars(picture: Bars, title: bool) -> Figure:
    """Groups of bars: upright where the names fit below them or are numbers, lying where they are long."""
    names = [plain(p, 24) for p in picture.positions]
    slot = (WIDTH - 60) / max(len(names), 1)
    widest = max((len(n) for n in names), default=0) * SMALL_SIZE * 0.62
    lying = widest > slot - 4 and not all(_is_number(n) for n in names)
    height = max(style.HEIGHT, min(20.0 * len(names) + 70, 900)) if lying else style.HEIGHT
    figure = style.figure(WIDTH, height)
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    across, up = (picture.y_label, picture.x_label) if lying else (picture.x_label, picture.y_label)
    name_axes(figure, axes, picture.title if title else "", across, up)
    where = np.arange(len(names), dtype=float)
    thickness = 0.86 / max(len(picture.series), 1)
    tones = [color(index) for index in style.positions(list(picture.series))]
    for index, ((label, values), tone) in enumerate(zip(picture.series.items(), tones, strict=True)):
        errors = (picture.errors or {}).get(label)
        offset = (index - (len(picture.series) - 1) / 2) * thickness
        draw = axes.barh if lying else axes.bar
        draw(where + offset, finite(values), thickness * 0.94, color=tone, linewidth=0)
        if errors is not None:
            _whiskers(axes, where + offset, finite(values), finite(errors), lying)
    if not names:
        nothing(axes)
    every = max(1, math.ceil(16 * len(names) / height)) if lying else max(1, math.ceil((widest + 8) / slot))
    along, value = (axes.yaxis, axes.xaxis) if lying else (axes.xaxis, axes.yaxis)
    first = names.index("0") % every if "0" in names else 0
    along.set_ticks(where[first::every], names[first::every])
    along.set_tick_params(length=0)
    ticks.linear(value, whole=all(_counts(v) for v in picture.series.values()))
    value.grid(True)
    if lying:
        axes.invert_yaxis()
        axes.spines["bottom"].set_visible(False)
    else:
        axes.spines["left"].set_visible(False)
    axes.margins(x=0.02) if not lying else axes.margins(y=0.01)
    if len(picture.series) > 1:
        legend(axes, list(picture.series), ["s"] * len(picture.series))
    return figure


def _whiskers(axes: Axes, where: np.ndarray, values: np.ndarray, errors: np.ndarray, lying: bool) -> None:
    """A line of two standard errors to either side of the end of each bar."""
    low, high = values - 2 * errors, values + 2 * errors
    draw = axes.hlines if lying else axes.vlines
    draw(where, low, high, color=LIGHT["ink"], linewidth=1.0)


def _named_positions(axes: Axes, names: Sequence[str]) -> None:
    """Names along the horizontal axis at 0, 1, ..., turned where they would meet."""
    shown = [plain(name, 18) for name in names]
    axes.set_xticks(range(len(shown)), shown)
    if max(map(len, shown)) * SMALL_SIZE * 0.62 > (WIDTH - 60) / len(shown):
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")


def _scales(axes: Axes, picture: Lines, whole: bool) -> None:
    axes.grid(True, axis="y")
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.015, y=0.06)
    for axis, log, setter in (
        (axes.xaxis, picture.log_x, axes.set_xscale),
        (axes.yaxis, picture.log_y, axes.set_yscale),
    ):
        if log:
            setter("log")
            ticks.logarithmic(axis, *axis.get_view_interval())
        else:
            ticks.linear(axis, whole=whole and axis is axes.xaxis)
    left, right = axes.get_xlim()
    if whole and not picture.log_x and 0 < left < 0.2 * right:
        axes.set_xlim(left=0)  # steps are counted from the start


def _marks(axes: Axes, marks: Sequence[tuple[float, str]]) -> None:
    left, right = axes.get_xlim()
    for row, (x, label) in enumerate(marks):
        axes.axvline(x, color=LIGHT["soft"], linewidth=1, linestyle=(0, (2, 2)), zorder=1.6)
        late = x > (left + right) / 2
        axes.annotate(
            plain(label, 40),
            (x, 1 - 0.07 * row),
            (-5 if late else 5, -2),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha="right" if late else "left",
            va="top",
            fontsize=SMALL_SIZE,
            color=LIGHT["soft"],
        )
    axes.set_xlim(left, right)


def _threads(axes: Axes, x: np.ndarray, rows: np.ndarray) -> None:
    """Thin curves, the fainter the more there are: where many lie above each other it is darker."""
    rows = finite(np.asarray(rows, float))
    across = np.broadcast_to(finite(np.asarray(x, float))[None], rows.shape)
    faint = float(np.clip(4 / math.sqrt(max(len(rows), 1)), 0.08, 0.8))
    curves = LineCollection(
        list(np.stack([across, rows], axis=-1)), colors=LIGHT["soft"], linewidths=0.7, alpha=faint, zorder=1
    )
    axes.add_collection(curves)
    axes.autoscale_view()


def _counts(values: np.ndarray) -> bool:
    array = np.asarray(values, dtype=float)
    finite = array[np.isfinite(array)]
    return bool(len(finite)) and bool(np.all(finite == np.rint(finite)))


def _is_number(text: str) -> bool:
    try:
        float(text.replace("−", "-").replace(",", ""))
    except ValueError:
        return False
    return True


__all__ = ["bars", "lines"]
