"""Style of the report's pictures: sizes, dashes, markers, and the settings given to Matplotlib.

Pictures are drawn in the light values of the palette (`core.palette`); when a picture is embedded in a page, every
light value gives way to a CSS variable named after its role (`svg.finish`), so the page decides. Series beyond the
seventh repeat the colours with another dash or marker.
"""

import itertools
import textwrap
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from chainrule.core import palette
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Footnote
from chainrule.core.quoting import plain

SERIES = [LIGHT[role] for role in palette.SERIES]
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

WIDTH = 480.0
"""Width of an ordinary picture in CSS pixels: two fit side by side in the report, one fills a phone."""
HEIGHT = 290.0
FONT_STACK = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
)
TITLE_SIZE = 14.0
TEXT_SIZE = 12.0
SMALL_SIZE = 11.0

# Sizes and widths are in points, which in Matplotlib's SVG are the same as CSS pixels.
_SETTINGS: Any = {  # Matplotlib spells out the type of every key; it checks them at run time too
    "svg.fonttype": "none",
    "svg.hashsalt": "chainrule",
    "text.parse_math": False,  # names are shown as they are, even with dollar signs in them
    "font.family": [
        "DejaVu Sans"
    ],  # for measuring only, it comes with Matplotlib; `svg.finish` names better ones
    "font.size": TEXT_SIZE,
    "text.color": LIGHT["ink"],
    "figure.facecolor": LIGHT["paper"],
    "figure.constrained_layout.h_pad": 6 / 72,
    "figure.constrained_layout.w_pad": 8 / 72,
    "axes.facecolor": "none",
    "axes.edgecolor": LIGHT["axis"],
    "axes.linewidth": 0.8,
    "axes.labelcolor": LIGHT["soft"],
    "axes.labelsize": TEXT_SIZE,
    "axes.labelpad": 5.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "xtick.color": LIGHT["axis"],
    "ytick.color": LIGHT["axis"],
    "xtick.labelcolor": LIGHT["soft"],
    "ytick.labelcolor": LIGHT["soft"],
    "xtick.labelsize": SMALL_SIZE,
    "ytick.labelsize": SMALL_SIZE,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.major.width": 0.8,
    "xtick.major.pad": 4.0,
    "ytick.major.pad": 4.0,
}
_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def matplotlib_settings() -> Iterator[None]:
    """Matplotlib in the project's style; settings of the process are put back on the way out.

    Matplotlib's settings and Python's warning filters belong to the whole process, hence the lock.
    """
    with _ONE_AT_A_TIME, mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        # Text stays text in the file, so a script the measuring font lacks is shown by the reader's own fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def figure(width: float = WIDTH, height: float = HEIGHT, *, fixed: bool = False) -> Figure:
    """An empty figure of this size in CSS pixels; `fixed` where the drawing itself says where everything goes."""
    return Figure(figsize=(width / 72, height / 72), dpi=72, layout=None if fixed else "constrained")


def head(drawing: Figure, title: str) -> None:
    """The title of a figure, in its left upper corner."""
    left = 8 / (72 * drawing.get_figwidth())
    drawing.suptitle(plain(title, 70), x=left, ha="left", fontsize=TITLE_SIZE, fontweight="bold")


def foot(drawing: Figure, note: Footnote | None) -> None:
    """The line at the foot of a figure, in red where it is an alarm."""
    width = 72 * drawing.get_figwidth()
    if lines := foot_lines(note, width):
        drawing.supxlabel(
            "\n".join(lines), x=8 / width, ha="left", fontsize=SMALL_SIZE, color=foot_color(note)
        )


def foot_lines(note: Footnote | None, width: float) -> list[str]:
    """A footnote in lines that fit a width in CSS pixels."""
    if note is None:
        return []
    return textwrap.wrap(plain(note.text, 400), max(20, int((width - 16) / (SMALL_SIZE * 0.6))))


def foot_color(note: Footnote | None) -> str:
    """Red for an alarm."""
    return LIGHT["mark" if note is not None and note.alarm else "soft"]


def color(index: int) -> str:
    """The colour of a series by its position.

    >>> color(0) == color(7)
    True
    """
    return SERIES[index % len(SERIES)]


def dash(index: int) -> Any:
    """How the line of a series is drawn: another way for every turn through the colours."""
    return DASHES[index // len(SERIES) % len(DASHES)]


def marker(index: int) -> str:
    """How the points of a series are drawn."""
    return MARKERS[index // len(SERIES) % len(MARKERS)]


_USED: ContextVar[dict[str, int] | None] = ContextVar("used", default=None)


@contextmanager
def one_color_per_series() -> Iterator[None]:
    """Inside, a series keeps the colour it had in an earlier picture."""
    before = _USED.set({})
    try:
        yield
    finally:
        _USED.reset(before)


def positions(names: Sequence[str]) -> list[int]:
    """Where in the list of colours the series of a picture stand.

    One after the other, unless some were seen on the same page before: those stay where they were.

    >>> with one_color_per_series():
    ...     positions(["training", "validation"]), positions(["lr"]), positions(["sgd", "validation"])
    ([0, 1], [0], [2, 1])
    """
    used = _USED.get()
    if used is None or (len(names) == 1 and names[0] not in used):
        return list(range(len(names)))
    taken = {used[name] for name in names if name in used}
    free = (i for i in itertools.count() if i not in taken)
    beyond = (i for i in itertools.count(max(used.values(), default=-1) + 1))
    # Colours that no other series has, as long as there are any.
    for name in names:
        if name not in used:
            used[name] = next(beyond) if len(used) < len(SERIES) else next(free)
    return [used[name] for name in names]


def variables(values: dict[str, str]) -> str:
    """CSS declarations of the roles, for a style sheet.

    >>> variables({"ink": "#000001"})
    '--cr-ink:#000001'
    """
    return ";".join(f"--cr-{role}:{value}" for role, value in values.items())


__all__ = [
    "DASHES",
    "FONT_STACK",
    "HEIGHT",
    "MARKERS",
    "SERIES",
    "SMALL_SIZE",
    "TEXT_SIZE",
    "TITLE_SIZE",
    "WIDTH",
    "color",
    "figure",
    "foot",
    "foot_color",
    "foot_lines",
    "head",
    "matplotlib_settings",
    "variables",
]
