"""Curves, bars and points, drawn with Matplotlib's object interface.

Series carry their names where they end instead of in a legend, so the eye does not travel; the vertical axis is
named above it, where it can be read without turning the head.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Bars, Lines, Polygons, Scatter
from chainrule.core.quoting import plain
from chainrule.report import style, ticks
from chainrule.report.labels import direct_labels
from chainrule.report.style import SMALL_SIZE, TEXT_SIZE, WIDTH, color

_MANY_SERIES = 40
_MANY_POINTS = 4000
_FEW_POINTS = 24
_FEW_DOTS = 100
_LARGEST, _LARGEST_LOG = 1e300, 1e120
"""Beyond these the room around the curves, or the ratio of its ends, would not be a finite number."""
_LABEL = 28
"""Longest series name in characters."""
_VEILS = 10
_VEIL = 0.075
_EDGE = 0.03
"""How near to the frame the middle of a contour's name may be, as a share of the width."""


def lines(picture: Lines, title: bool) -> Figure:
    """Curves over one axis."""
    labelled = 1 < len(picture.series) <= _MANY_SERIES
    height = max(style.HEIGHT, 15.0 * len(picture.series) + 90) if labelled else style.HEIGHT
    figure = style.figure(WIDTH, height)
    axes = figure.add_subplot()
    _name(figure, axes, picture.title if title else "", picture.x_label, picture.y_label)
    if picture.threads is not None:
        _threads(axes, *picture.threads)
    if picture.dots is not None:
        at = (_finite(c, log) for c, log in zip(picture.dots, (picture.log_x, picture.log_y), strict=True))
        size = 3 if np.size(picture.dots[0]) > _FEW_DOTS else 5
        axes.plot(
            *at, color=LIGHT["ink"], alpha=0.55, linestyle="", marker="o", markersize=size, mew=0, zorder=3
        )
    ends: list[tuple[float, float, str, str]] = []
    indices = style.positions(list(picture.series))
    for index, (label, columns) in zip(indices, picture.series.items(), strict=True):
        x, y, *band = (
            _finite(c, log) for c, log in zip(columns, (picture.log_x, *[picture.log_y] * 3), strict=False)
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
        _nothing(axes)
    _scales(axes, picture, whole=all(_counts(columns[0]) for columns in picture.series.values()))
    if picture.diagonal:
        _diagonal(axes)
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
    axes = figure.add_subplot()
    across, up = (picture.y_label, picture.x_label) if lying else (picture.x_label, picture.y_label)
    _name(figure, axes, picture.title if title else "", across, up)
    where = np.arange(len(names), dtype=float)
    thickness = 0.86 / max(len(picture.series), 1)
    tones = [color(index) for index in style.positions(list(picture.series))]
    for index, (values, tone) in enumerate(zip(picture.series.values(), tones, strict=True)):
        offset = (index - (len(picture.series) - 1) / 2) * thickness
        draw = axes.barh if lying else axes.bar
        draw(where + offset, _finite(values), thickness * 0.94, color=tone, linewidth=0)
    if not names:
        _nothing(axes)
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
        _legend(axes, list(picture.series), ["s"] * len(picture.series))
    return figure


def scatter(picture: Scatter, title: bool) -> Figure:
    """Points by group, over a field and with arrows where there are any."""
    figure = style.figure(WIDTH, 0.86 * WIDTH)
    axes = figure.add_subplot()
    _name(figure, axes, picture.title if title else "", picture.x_label, picture.y_label)
    if picture.field is not None:
        _field(axes, _finite(picture.field), picture.extent, picture.contours)
    if picture.joined:
        for index, points in zip(style.positions(list(picture.groups)), picture.groups.values(), strict=True):
            axes.plot(*_finite(points).reshape(-1, 2).T, color=color(index), linewidth=1.6, alpha=0.85)
    count = _points(axes, picture.groups, picture.words)
    if picture.arrows is not None:
        _arrows(axes, *(_finite(a).reshape(-1, 2) for a in picture.arrows))
    if not count and picture.field is None and picture.arrows is None:
        _nothing(axes)
    ticks.linear(axes.xaxis)
    ticks.linear(axes.yaxis)
    axes.tick_params(length=3)
    if picture.field is not None:
        axes.set_xlim(*picture.extent[:2])
        axes.set_ylim(*picture.extent[2:])
    else:
        axes.grid(True)
    if picture.diagonal:
        _diagonal(axes)
    _group_names(axes, picture.groups)
    return figure


def polygons(picture: Polygons, title: bool) -> Figure:
    """Polygons in veils of one neutral tone, so that points of any colour stand out on them."""
    figure = style.figure(WIDTH, 0.86 * WIDTH)
    axes = figure.add_subplot()
    _name(figure, axes, picture.title if title else "", picture.x_label, picture.y_label)
    shapes = [np.asarray(one, dtype=float).reshape(-1, 2) for one in picture.polygons]
    values = np.asarray(picture.values, dtype=float)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    for shape, value in zip(shapes, values, strict=True):
        depth = (value - low) / (high - low) if high > low and np.isfinite(value) else 0.3
        axes.fill(*shape.T, color=LIGHT["field"], alpha=0.06 + 0.74 * depth, linewidth=0, zorder=0)
        axes.plot(*np.append(shape, shape[:1], axis=0).T, color=LIGHT["soft"], linewidth=0.5, zorder=0.5)
    if not shapes and not _points(axes, picture.groups):
        _nothing(axes)
    elif shapes:
        _points(axes, picture.groups)
        every = np.concatenate(shapes)
        axes.set_xlim(every[:, 0].min(), every[:, 0].max())
        axes.set_ylim(every[:, 1].min(), every[:, 1].max())
    ticks.linear(axes.xaxis)
    ticks.linear(axes.yaxis)
    axes.tick_params(length=3)
    _group_names(axes, picture.groups)
    return figure


def _points(
    axes: Axes, groups: Mapping[str, np.ndarray], words: Mapping[str, Sequence[str]] | None = None
) -> int:
    """Points, or words in their place, in the colour of their group; how many."""
    arrays = [_finite(points).reshape(-1, 2) for points in groups.values()]
    count = sum(len(points) for points in arrays)
    size = float(np.clip(6000 / max(count, 1), 6, 26))
    for index, name, points in zip(style.positions(list(groups)), groups, arrays, strict=True):
        written = (words or {}).get(name)
        if written is not None:
            _written(axes, points, written, color(index))
            continue
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=size,
            color=color(index),
            marker=style.marker(index),
            edgecolors=LIGHT["paper"],
            linewidths=0.5,
            alpha=0.9 if count < 500 else 0.7,
            rasterized=count > _MANY_POINTS,  # thousands of vector shapes make a file no browser likes
        )
    return count


def _written(axes: Axes, points: np.ndarray, words: Sequence[str], tone: str) -> None:
    axes.update_datalim(points)
    axes.autoscale_view()
    for (x, y), word in zip(points, words, strict=True):
        if np.isfinite([x, y]).all():
            name = plain(word, 12)
            axes.text(x, y, name, ha="center", va="center", fontsize=SMALL_SIZE, color=tone, clip_on=True)


def _group_names(axes: Axes, groups: Mapping[str, np.ndarray]) -> None:
    if len(groups) > 1:
        _legend(axes, list(groups), [style.marker(i) for i in style.positions(list(groups))])


def _name(figure: Figure, axes: Axes, title: str, x_label: str, y_label: str) -> None:
    if title:
        style.head(figure, title)
    axes.set_xlabel(plain(x_label, 60))
    axes.set_title(plain(y_label, 60), loc="left", fontsize=TEXT_SIZE, color=LIGHT["soft"], pad=8)


def _finite(values: np.ndarray, log: bool = False) -> np.ndarray:
    """Values that can be drawn; what is too large for an axis, or a logarithm cannot show, leaves gaps."""
    array = np.array(values, dtype=float)
    least, most = (1 / _LARGEST_LOG, _LARGEST_LOG) if log else (-_LARGEST, _LARGEST)
    array[~((least <= array) & (array <= most))] = np.nan
    return array


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


def _diagonal(axes: Axes) -> None:
    bounds = [*axes.get_xlim(), *axes.get_ylim()]
    low, high = (0.0, 1.0) if min(bounds) > -0.2 and max(bounds) < 1.2 else (min(bounds), max(bounds))
    axes.plot([low, high], [low, high], color=LIGHT["axis"], linestyle=(0, (4, 3)), linewidth=1, zorder=1.5)
    room = 0.025 * (high - low)
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(low - room, high + room)


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
    rows = _finite(np.asarray(rows, float))
    across = np.broadcast_to(_finite(np.asarray(x, float))[None], rows.shape)
    faint = float(np.clip(4 / math.sqrt(max(len(rows), 1)), 0.08, 0.8))
    curves = LineCollection(
        list(np.stack([across, rows], axis=-1)), colors=LIGHT["soft"], linewidths=0.7, alpha=faint, zorder=1
    )
    axes.add_collection(curves)
    axes.autoscale_view()


def _legend(axes: Axes, names: Sequence[str], markers: Sequence[str]) -> None:
    """Names above the axes, on the right."""
    handles = [
        axes.plot([], [], linestyle="", marker=marker, markersize=7, color=color(i))[0]
        for i, marker in zip(style.positions(names), markers, strict=True)
    ]
    shown = [plain(n, 20) for n in names]
    room = WIDTH - 80 - 7.5 * len(axes.get_title("left"))
    axes.legend(
        handles,
        shown,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=max(1, min(len(names), int(room / (7.5 * max(len(n) for n in shown) + 26)))),
        frameon=False,
        fontsize=SMALL_SIZE,
        labelcolor=LIGHT["ink"],
        handletextpad=0.1,
        columnspacing=0.9,
        borderaxespad=0.15,
        borderpad=0.1,
    )


def _field(
    axes: Axes,
    values: np.ndarray,
    extent: tuple[float, float, float, float],
    contours: Sequence[tuple[float, str]],
) -> None:
    """A field as veils of one neutral tone, laid over each other where it is high, so that points of any colour
    stand out on it."""
    low, high = (
        (float(np.nanmin(values)), float(np.nanmax(values))) if np.isfinite(values).any() else (0.0, 0.0)
    )
    if high <= low or min(values.shape) < 2:
        return
    x, y = np.linspace(*extent[:2], values.shape[1]), np.linspace(*extent[2:], values.shape[0])
    for level in low + (high - low) * (np.arange(_VEILS) + 0.5) / _VEILS:
        axes.contourf(x, y, values, levels=[level, high + 1], colors=[LIGHT["field"]], alpha=_VEIL, zorder=0)
    written = {level: plain(text, 12) for level, text in contours if low < level < high}
    levels = sorted(written) if contours else [(low + high) / 2]
    if not levels:
        return
    thin, tone = 0.6 if contours else 1, LIGHT["soft"]
    drawn = axes.contour(
        x, y, values, levels=levels, colors=tone, linewidths=thin, linestyles="solid", zorder=0.5
    )
    if contours:
        _inside(axes.clabel(drawn, fmt=written, fontsize=SMALL_SIZE, colors=LIGHT["ink"]), extent)


def _inside(names: Sequence[Text], extent: tuple[float, float, float, float]) -> None:
    """Take away names that the frame would cut."""
    low, high = np.array(extent[::2]), np.array(extent[1::2])
    for name in names:
        share = (np.array(name.get_position()) - low) / (high - low)
        if share.min() < _EDGE or share.max() > 1 - _EDGE:
            name.remove()


def _arrows(axes: Axes, start: np.ndarray, step: np.ndarray) -> None:
    there = np.isfinite(start + step).all(axis=1)
    start, step = start[there], step[there]
    axes.quiver(
        *start.T,
        *step.T,
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.0035,
        headwidth=4,
        color=LIGHT["soft"],
        zorder=3,
    )
    axes.update_datalim(np.concatenate([start, start + step]))
    axes.autoscale_view()


def _nothing(axes: Axes) -> None:
    axes.text(
        0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", va="center", color=LIGHT["soft"]
    )


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


__all__ = ["bars", "lines", "polygons", "scatter"]
