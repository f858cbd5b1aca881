"""Pieces that charts share: names of axes, legends, the diagonal, and what to do with numbers no axis can show."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chainrule.core.palette import LIGHT
from chainrule.core.quoting import plain
from chainrule.report import style
from chainrule.report.style import SMALL_SIZE, TEXT_SIZE, WIDTH, color

_LARGEST, _LARGEST_LOG = 1e300, 1e120
"""Beyond these the room around the curves, or the ratio of its ends, would not be a finite number."""


def name_axes(figure: Figure, axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """The title of a figure, and what its axes are."""
    if title:
        style.head(figure, title)
    axes.set_xlabel(plain(x_label, 60))
    axes.set_title(plain(y_label, 60), loc="left", fontsize=TEXT_SIZE, color=LIGHT["soft"], pad=8)


def finite(values: np.ndarray, log: bool = False) -> np.ndarray:
    """Values that can be drawn; what is too large for an axis, or a logarithm cannot show, leaves gaps."""
    array = np.array(values, dtype=float)
    least, most = (1 / _LARGEST_LOG, _LARGEST_LOG) if log else (-_LARGEST, _LARGEST)
    array[~((least <= array) & (array <= most))] = np.nan
    return array


def diagonal(axes: Axes) -> None:
    """The line y = x."""
    bounds = [*axes.get_xlim(), *axes.get_ylim()]
    low, high = (0.0, 1.0) if min(bounds) > -0.2 and max(bounds) < 1.2 else (min(bounds), max(bounds))
    axes.plot([low, high], [low, high], color=LIGHT["axis"], linestyle=(0, (4, 3)), linewidth=1, zorder=1.5)
    room = 0.025 * (high - low)
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(low - room, high + room)


def legend(axes: Axes, names: Sequence[str], markers: Sequence[str]) -> None:
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


def nothing(axes: Axes) -> None:
    """Say that there is nothing, where a picture would be empty."""
    axes.text(
        0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", va="center", color=LIGHT["soft"]
    )


__all__ = ["diagonal", "finite", "legend", "name_axes", "nothing"]
