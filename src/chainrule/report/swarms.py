"""Swarms: dots on lines, moved off the line where many would lie on each other, so that their density is seen."""

import numpy as np
from matplotlib.figure import Figure

from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Swarm
from chainrule.core.quoting import plain
from chainrule.report import style, ticks
from chainrule.report.axes import finite, name_axes, nothing
from chainrule.report.shades import colors_of, shade_key
from chainrule.report.style import WIDTH

_LINE = 30.0
_KEY = 320.0
_BINS = 90
"""Columns of dots along the axis: dots of one column are moved apart."""
_MANY_DOTS = 4000


def swarm(picture: Swarm, title: bool) -> Figure:
    """Lines of dots under each other, the first on top."""
    values = np.atleast_2d(finite(picture.values))
    count = len(picture.names)
    noted = 0 if picture.footnote is None else 30
    least = 180 if picture.shades is None else _KEY  # the name of the colours is written along their scale
    figure = style.figure(WIDTH, float(np.clip(_LINE * count + 96 + noted, least, 960)))
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    name_axes(figure, axes, picture.title if title else "", picture.x_label, "")
    axes.axvline(0, color=LIGHT["axis"], linewidth=1, zorder=0.5)
    shades = np.full(values.shape, np.nan) if picture.shades is None else np.asarray(picture.shades, float)
    size = float(np.clip(4000 / max(values.shape[1], 1), 5, 22))
    for line, (own, shade) in enumerate(zip(values, shades, strict=True)):
        tones = colors_of(shade)[0] if picture.shades is not None else LIGHT["1"]
        height = line - offsets(own, _extent(values))
        axes.scatter(own, height, s=size, c=tones, linewidths=0, rasterized=values.size > _MANY_DOTS)
    if not values.size:
        nothing(axes)
    axes.set_ylim(max(count, 1) - 0.5, -0.5)
    axes.set_yticks(range(count), [plain(name, 30) for name in picture.names])
    axes.grid(True, axis="y")
    axes.spines["left"].set_visible(False)
    ticks.linear(axes.xaxis)
    if picture.shades is not None:
        shade_key(axes, picture.shade_label)
    return figure


def _extent(values: np.ndarray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def offsets(values: np.ndarray, extent: tuple[float, float]) -> np.ndarray:
    """How far each dot is moved off its line, at most 0.4: the dots of a column in turns above and below.

    >>> offsets(np.array([0.0, 0.0, 0.0, 5.0]), (0.0, 5.0)).tolist()
    [0.0, 0.06, -0.06, 0.0]
    """
    low, high = extent
    column = np.zeros(len(values), int)
    if high > low:
        column = np.rint(np.nan_to_num((values - low) / (high - low)) * _BINS).astype(int)
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    first = np.searchsorted(ordered, ordered)
    rank = np.empty(len(values), int)
    rank[order] = np.arange(len(values)) - first
    tallest = max(int(rank.max(initial=0)) + 1, 1)
    step = min(0.06, 0.8 / tallest)
    sign = np.where(rank % 2 == 1, 1, -1)
    return sign * ((rank + 1) // 2) * step + 0.0


__all__ = ["offsets", "swarm"]
