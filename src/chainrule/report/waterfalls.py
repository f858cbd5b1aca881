"""Waterfalls: steps from one number to another, one below the other or joined in one line.

Steps up have the hue of what is above zero in signed matrices, steps down that of what is below.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chainrule.core.formatting import number
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Waterfall
from chainrule.core.quoting import plain
from chainrule.report import style, ticks
from chainrule.report.axes import finite, name_axes
from chainrule.report.style import SMALL_SIZE, TEXT_SIZE, WIDTH

_LINE = 24.0
_TALLEST = 960.0
_UP, _DOWN = LIGHT["1"], LIGHT["2"]
_ROOM = 1.1
"""The share of an ordinary picture's width that the pieces of a joined line have for their names."""
_LETTER = 6.6
"""Width of a letter: pieces too short for their names are not named."""


def waterfall(picture: Waterfall, title: bool) -> Figure:
    """Bars below each other, or one line of pieces."""
    return _in_one_line(picture, title) if picture.joined else _in_lines(picture, title)


def _in_lines(picture: Waterfall, title: bool) -> Figure:
    steps = np.nan_to_num(finite(picture.steps))
    count = len(steps)
    noted = 0 if picture.footnote is None else 30
    figure = style.figure(WIDTH, float(np.clip(_LINE * (count + 2) + 80 + noted, 180, _TALLEST)))
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    name_axes(figure, axes, picture.title if title else "", picture.x_label, "")
    reached = picture.start + np.concatenate([[0.0], np.cumsum(steps)])
    for line, step in enumerate(steps):
        tone = _UP if step >= 0 else _DOWN
        axes.barh(line + 1, step, left=reached[line], height=0.7, color=tone, linewidth=0)
        error = 0.0 if picture.errors is None else 2 * float(np.nan_to_num(picture.errors[line]))
        if error:
            tip = reached[line + 1]
            axes.errorbar(tip, line + 1, xerr=error, fmt="none", ecolor=LIGHT["ink"], elinewidth=1.0)
        outer = reached[line + 1] + (error if step >= 0 else -error)
        _say(axes, line + 1, outer, number(float(step), 3), tone, up=bool(step >= 0))
        axes.plot(
            [reached[line + 1]] * 2, [line + 1 - 0.35, line + 2 + 0.35], color=LIGHT["axis"], linewidth=0.8
        )
    for line, at in enumerate(reached[[0, -1]]):
        axes.plot(at, line * (count + 1), marker="D", markersize=6, color=LIGHT["ink"], clip_on=False)
        _say(axes, line * (count + 1), float(at), number(float(at), 4), LIGHT["ink"], up=True)
    axes.plot([reached[0]] * 2, [0, 1.35], color=LIGHT["axis"], linewidth=0.8)
    names = [picture.ends[0], *picture.names, picture.ends[1]]
    axes.set_yticks(range(count + 2), [plain(name, 34) for name in names])
    axes.set_ylim(count + 1.6, -0.6)
    axes.use_sticky_edges = False  # the numbers beside the bars need room
    axes.margins(x=0.18)
    axes.grid(True, axis="x")
    axes.spines["left"].set_visible(False)
    ticks.linear(axes.xaxis, 5)
    return figure


def _say(axes: Axes, line: float, at: float, text: str, tone: str, *, up: bool) -> None:
    """A number beside a bar: to the right of one that leads up, to the left of one that leads down."""
    axes.annotate(
        text,
        (at, line),
        (6 if up else -6, 0),
        textcoords="offset points",
        ha="left" if up else "right",
        va="center",
        fontsize=SMALL_SIZE,
        color=tone,
        annotation_clip=False,
    )


def _in_one_line(picture: Waterfall, title: bool) -> Figure:
    """From the left what leads up, largest piece last, from the right what leads down: they meet at the end."""
    steps = np.nan_to_num(finite(picture.steps))
    end = picture.start + steps.sum()
    figure = style.figure(1.5 * WIDTH, 170.0 + (0 if picture.footnote is None else 26))
    style.foot(figure, picture.footnote)
    axes = figure.add_subplot()
    name_axes(figure, axes, picture.title if title else "", picture.x_label, "")
    span = max(float(np.abs(steps).sum()), 1e-12)
    for tone, chosen, direction in (
        (_UP, np.flatnonzero(steps > 0), -1.0),
        (_DOWN, np.flatnonzero(steps < 0), 1.0),
    ):
        at = end
        for index in chosen[np.argsort(-np.abs(steps[chosen]), kind="stable")]:
            length = abs(float(steps[index]))
            left = at - length if direction < 0 else at
            axes.barh(
                0,
                length,
                left=left,
                height=0.6,
                color=tone,
                alpha=0.85,
                edgecolor=LIGHT["paper"],
                linewidth=1,
            )
            name = f"{plain(picture.names[index], 24)}\n{number(float(steps[index]), 3)}"
            if length / span * _ROOM * WIDTH > _LETTER * max(map(len, name.split("\n"))):
                axes.text(
                    left + length / 2, 0.42, name, ha="center", va="bottom", fontsize=SMALL_SIZE, color=tone
                )
            at += direction * length
    for where, name in ((picture.start, picture.ends[0]), (end, picture.ends[1])):
        axes.plot([where] * 2, [-0.45, 0.38], color=LIGHT["ink"], linewidth=1.2)
        side = "right" if (where == picture.start) == (picture.start < end) else "left"
        text = f"{plain(name, 30)} {number(float(where), 4)}"
        axes.text(where, -0.62, text, ha=side, va="center", fontsize=TEXT_SIZE, color=LIGHT["ink"])
    axes.set_ylim(-0.85, 1.3)
    axes.use_sticky_edges = False
    axes.margins(x=0.1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    ticks.linear(axes.xaxis)
    return figure


__all__ = ["waterfall"]
