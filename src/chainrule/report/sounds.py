"""Sound: waveforms under each other, and players for a page that carry what they play."""

import base64

import numpy as np
from matplotlib.figure import Figure

from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Sounds
from chainrule.core.quoting import plain
from chainrule.data.sound_files import wav_bytes
from chainrule.report import style, ticks
from chainrule.report.style import SMALL_SIZE, WIDTH

_LINE = 56.0
_COLUMNS = 600
"""Points along the time axis at which the smallest and the largest amplitude are drawn."""


def waveforms(picture: Sounds, title: bool) -> Figure:
    """Every clip over the same time: how far the amplitudes reach."""
    count = len(picture.clips)
    figure = style.figure(WIDTH, _LINE * count + 40 + 24 * title)
    if title:
        style.head(figure, picture.title)
    longest = max(len(clip) for clip in picture.clips.values()) / picture.rate
    every = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, clip) in zip(every, picture.clips.items(), strict=True):
        seconds, low, high = envelope(np.asarray(clip)[:, 0], picture.rate)
        axes.fill_between(seconds, low, high, color=LIGHT["1"], linewidth=0.6, edgecolor=LIGHT["1"])
        axes.set_xlim(0, longest)
        axes.set_ylim(-1, 1)
        axes.set_yticks([])
        axes.set_title(plain(name, 50), loc="left", fontsize=SMALL_SIZE, pad=2)
        axes.spines["left"].set_visible(False)
        axes.tick_params(labelbottom=axes is every[-1])
    ticks.linear(every[-1].xaxis)
    every[-1].set_xlabel("seconds")
    return figure


def envelope(x: np.ndarray, rate: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, and the smallest and largest amplitude around each.

    >>> seconds, low, high = envelope(np.array([0.0, 1.0, -1.0, 0.5]), 4)
    >>> high.tolist()
    [0.0, 1.0, -1.0, 0.5]
    """
    size = max(1, len(x) // _COLUMNS)
    edges = np.arange(0, len(x), size)
    return edges / rate, np.minimum.reduceat(x, edges), np.maximum.reduceat(x, edges)


def audio_element(name: str, clip: np.ndarray, rate: int) -> str:
    """A player of one clip; `name` is safe inside an attribute."""
    sound = base64.b64encode(wav_bytes(rate, clip)).decode()
    source = f"data:audio/wav;base64,{sound}"
    return (
        f'<div class="clip"><span>{name}</span>'
        f'<audio controls preload="metadata" aria-label="{name}" src="{source}"></audio></div>'
    )


__all__ = ["audio_element", "envelope", "waveforms"]
