"""Attention maps: a drawing of one head with its tokens, and the part of a page in which a reader looks through all.

The page's script (`attention.js`) reads the weights from the page itself, in 65,536 levels. Readers without scripts
and paper get the drawing.
"""

import base64
import json
from collections.abc import Sequence
from html import escape

import numpy as np
from matplotlib.figure import Figure

from chainrule.core.pictures import AttentionMaps
from chainrule.core.quoting import plain
from chainrule.report import heatmaps, style
from chainrule.report.style import SMALL_SIZE

_CELL, _MOST = 13.0, 26.0
"""Side of a cell, at least and at most."""
_NAME = 12
"""Characters of a token that are shown."""
_LEVELS = 65_535


def drawing(picture: AttentionMaps, title: bool) -> Figure:
    """The head that is shown first, with every token at its row and column."""
    layer, head = picture.shown
    weights = np.asarray(picture.weights[layer, head], float)
    rows, columns = weights.shape
    names = [[plain(name, _NAME) for name in side] for side in (picture.queries, picture.keys)]
    beside, below = (8.0 * max((len(name) for name in side), default=1) + 14 for side in names)
    cell = float(np.clip(400 / max(columns, 1), _CELL, _MOST))
    figure = style.figure(columns * cell + beside + 60, rows * cell + below + 56 + 24 * title)
    axes = figure.add_subplot()
    if title:
        style.head(figure, picture.title)
    density = np.sqrt(np.clip(np.nan_to_num(weights), 0, 1))
    axes.imshow(
        heatmaps.pixels(np.zeros(weights.shape, int), density),
        extent=(0, columns, rows, 0),
        aspect="auto",
        interpolation="none",
    )
    axes.set_xlabel(f"key: {plain(picture.label(layer, head), 60)}")
    axes.set_ylabel("query", rotation_mode="anchor")
    for axis, side in zip((axes.yaxis, axes.xaxis), names, strict=True):
        axis.set_ticks(np.arange(len(side)) + 0.5, side, fontsize=min(SMALL_SIZE, cell - 2.5))
        axis.set_tick_params(length=0)
    if max(map(len, names[1]), default=0) > 1:
        for label in axes.get_xticklabels():
            label.set(rotation=90, va="top", ha="center")
    axes.spines[:].set_visible(False)
    return figure


def interactive(picture: AttentionMaps, still: str) -> str:
    """The same on a page: lists of layers and heads, a map that tells what it is pointed at, and the drawing."""
    layers, heads = picture.weights.shape[:2]
    levels = np.rint(np.clip(np.nan_to_num(np.asarray(picture.weights, float)), 0, 1) * _LEVELS)
    data = {
        "heads": heads,
        "queries": [plain(name) for name in picture.queries],
        "keys": [plain(name) for name in picture.keys],
        "weights": base64.b64encode(levels.astype("<u2").tobytes()).decode(),
    }
    numbers = [[str(i + 1) for i in range(count)] for count in (layers, heads)]
    layer, head = picture.shown
    lists = _list("layer", numbers[0], layer, hidden=bool(picture.labels)) + _list(
        "map" if picture.labels else "head", picture.labels or numbers[1], head
    )
    # A script that is not of a known type is data: the page's policy does not let it run, and "<" cannot end it.
    text = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    return "\n".join(
        [
            '<div class="attention-maps">',
            f'<div class="still">{still}</div>',
            f'<div class="live" hidden><p class="choice">{lists}'
            '<span class="hint">Hover or tap a cell; or focus the map and use the arrow keys.</span></p>',
            f'<div class="scroll"><canvas tabindex="0" role="img" aria-label="{escape(plain(picture.title))}: rows are '
            'queries, columns keys; arrow keys move, the line below tells the weight"></canvas></div>',
            '<p><output aria-live="polite"></output></p><p class="passage"></p></div>',
            f'<script type="application/json">{text}</script>',
            "</div>",
        ]
    )


def _list(word: str, names: Sequence[str], chosen: int, *, hidden: bool = False) -> str:
    options = "".join(
        f"<option{' selected' if i == chosen else ''}>{escape(plain(name))}</option>"
        for i, name in enumerate(names)
    )
    return f"<label{' hidden' if hidden else ''}>{word} <select>{options}</select></label>"


__all__ = ["drawing", "interactive"]
