"""Colours that stand for numbers: from gold (low) to purple (high), apart from the two hues that stand for signs.

The ends are the 5th and the 95th percentile, so that single outliers do not take all the colour.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from chainrule.core.formatting import number
from chainrule.core.palette import LIGHT
from chainrule.core.quoting import plain
from chainrule.report.style import SMALL_SIZE

_LOW, _HIGH, _UNKNOWN = (np.array(to_rgb(LIGHT[role])) for role in ("5", "4", "axis"))
_STEPS = 16
"""Shades that are told apart: a file names each colour once instead of one for every dot."""


def colors_of(values: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """The colour of each number, and the numbers at the ends of the scale; what is not a number is grey.

    >>> colors, ends = colors_of(np.array([0.0, 1.0]))
    >>> colors.shape, ends[0] < ends[1]
    ((2, 3), True)
    """
    array = np.asarray(values, float)
    known = np.isfinite(array)
    low, high = (float(end) for end in np.percentile(array[known], (5, 95))) if known.any() else (0.0, 0.0)
    if high <= low and known.any():  # few values that differ at all: a mark that is mostly 0
        low, high = float(array[known].min()), float(array[known].max())
    share = np.clip((array - low) / (high - low), 0, 1) if high > low else np.full(array.shape, 0.5)
    share = np.rint(np.nan_to_num(share, nan=0.0) * (_STEPS - 1)) / (_STEPS - 1)
    mixed = (1 - share[..., None]) * _LOW + share[..., None] * _HIGH
    return np.where(known[..., None], mixed, _UNKNOWN), (low, high)


def shade_key(axes: Axes, label: str, ends: tuple[float, float] | None = None) -> None:
    """The scale of colours to the right of the axes, with what it is; without ends from low to high."""
    key = axes.inset_axes((1.04, 0.0, 0.025, 1.0))
    edges = np.linspace(0, 1, _STEPS + 1)
    tones, _ = colors_of(np.linspace(0, 1, _STEPS))
    for tone, bottom, top in zip(tones, edges, edges[1:], strict=False):
        key.axhspan(bottom, top, color=tone, linewidth=0, antialiased=False)
    key.set(xticks=[], ylim=(0, 1), xlim=(0, 1))
    key.yaxis.tick_right()
    key.set_yticks([0, 1], ["low", "high"] if ends is None else [number(end, 3) for end in ends])
    key.spines[:].set_visible(False)
    key.yaxis.set_label_position("right")
    key.set_ylabel(plain(label, 26), fontsize=SMALL_SIZE)


__all__ = ["colors_of", "shade_key"]
