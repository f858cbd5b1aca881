"""Points in the plane, over fields and polygons."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Polygons, Scatter
from chainrule.core.quoting import plain
from chainrule.report import style, ticks
from chainrule.report.axes import diagonal, finite, legend, name_axes, nothing
from chainrule.report.shades import colors_of, shade_key
from chainrule.report.style import SMALL_SIZE, WIDTH, color

_MANY_POINTS = 4000
_VEILS = 10
_VEIL = 0.075
_EDGE = 0.03
"""How near to the frame the middle of a contour's name may be, as a share of the width."""


def scatter(picture: Scatter, title: bool) -> Figure:
    """Points by group, over a field and with arrows where there are any."""
    figure = style.figure(WIDTH, 0.86 * WIDTH)
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    name_axes(figure, axes, picture.title if title else "", picture.x_label, picture.y_label)
    if picture.field is not None:
        _field(axes, finite(picture.field), picture.extent, picture.contours)
    if picture.joined:
        for index, points in zip(style.positions(list(picture.groups)), picture.groups.values(), strict=True):
            axes.plot(*finite(points).reshape(-1, 2).T, color=color(index), linewidth=1.6, alpha=0.85)
    if picture.shades is not None:
        count = _shaded(axes, picture.groups, *picture.shades)
    else:
        count = _points(axes, picture.groups, picture.words)
    if picture.arrows is not None:
        _arrows(axes, *(finite(a).reshape(-1, 2) for a in picture.arrows))
    if not count and picture.field is None and picture.arrows is None:
        nothing(axes)
    ticks.linear(axes.xaxis)
    ticks.linear(axes.yaxis)
    axes.tick_params(length=3)
    if picture.field is not None:
        axes.set_xlim(*picture.extent[:2])
        axes.set_ylim(*picture.extent[2:])
    else:
        axes.grid(True)
    if picture.diagonal:
        diagonal(axes)
    if picture.shades is None:
        _group_names(axes, picture.groups)
    return figure


def polygons(picture: Polygons, title: bool) -> Figure:
    """Polygons in veils of one neutral tone, so that points of any colour stand out on them."""
    figure = style.figure(WIDTH, 0.86 * WIDTH)
    axes = figure.add_subplot()
    name_axes(figure, axes, picture.title if title else "", picture.x_label, picture.y_label)
    shapes = [np.asarray(one, dtype=float).reshape(-1, 2) for one in picture.polygons]
    values = np.asarray(picture.values, dtype=float)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    for shape, value in zip(shapes, values, strict=True):
        depth = (value - low) / (high - low) if high > low and np.isfinite(value) else 0.3
        axes.fill(*shape.T, color=LIGHT["field"], alpha=0.06 + 0.74 * depth, linewidth=0, zorder=0)
        axes.plot(*np.append(shape, shape[:1], axis=0).T, color=LIGHT["soft"], linewidth=0.5, zorder=0.5)
    if not shapes and not _points(axes, picture.groups):
        nothing(axes)
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
    arrays = [finite(points).reshape(-1, 2) for points in groups.values()]
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


def _shaded(axes: Axes, groups: Mapping[str, np.ndarray], values: np.ndarray, label: str) -> int:
    """Points whose colour is a number; how many."""
    points = np.concatenate([finite(one).reshape(-1, 2) for one in groups.values()])
    size = float(np.clip(6000 / max(len(points), 1), 6, 26))
    tones, ends = colors_of(values)
    crowded = len(points) > _MANY_POINTS
    x, y = points.T
    axes.scatter(x, y, s=size, c=tones, linewidths=0, alpha=0.85, rasterized=crowded)
    shade_key(axes, label, ends)
    return len(points)


def _written(axes: Axes, points: np.ndarray, words: Sequence[str], tone: str) -> None:
    axes.update_datalim(points)
    axes.autoscale_view()
    for (x, y), word in zip(points, words, strict=True):
        if np.isfinite([x, y]).all():
            name = plain(word, 12)
            axes.text(x, y, name, ha="center", va="center", fontsize=SMALL_SIZE, color=tone, clip_on=True)


def _group_names(axes: Axes, groups: Mapping[str, np.ndarray]) -> None:
    if len(groups) > 1:
        legend(axes, list(groups), [style.marker(i) for i in style.positions(list(groups))])


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


__all__ = ["polygons", "scatter"]
