"""Pictures of losses over the weights: around them, along a path of training, on a line between two models."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.core.pictures import Lines, Picture, Scatter
from chainrule.explain.methods.landscape import Statistics, Surface
from chainrule.explain.methods.paths import TrainingPath

SMALLEST = 1e-12
"""Losses below are drawn as this one."""
LINES = 8
"""Most lines of a map."""
DIGITS = ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 2, 5), (1, 3), (1,))
"""First digits of the losses at which lines are drawn, from the finest choice to the coarsest."""


def line(
    name: str,
    title: str,
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
    ends: tuple[str, str],
    caption: str,
) -> Lines:
    """Losses along a straight line through the weights, with both ends marked."""
    return Lines(
        name,
        title,
        "share of the way",
        "loss",
        series,
        log_y=True,
        marks=[(0.0, ends[0]), (1.0, ends[1])],
        caption=caption,
    )


def around(name: str, title: str, found: Surface, caption: str) -> list[Picture]:
    """A map of the loss around the weights, and two cuts through them."""
    middle = len(found.first) // 2
    cuts = {
        "first direction": (found.first, found.losses[:, middle]),
        "second direction": (found.second, found.losses[middle]),
    }
    return [
        _map(
            *(name, title, "first direction", "second direction", found, {"the weights": np.zeros((1, 2))}),
            caption=caption,
        ),
        Lines(
            *(f"{name}-cuts", f"{title}: cuts through the centre", "step", "loss", cuts),
            log_y=True,
            caption=caption,
        ),
    ]


def path_map(path: TrainingPath, found: Surface, steps: Sequence[int], statistics: Statistics) -> Scatter:
    """The path of training over the loss, first direction to the right."""
    one, two = path.shares
    coordinates = path.coordinates
    return _map(
        "landscape-path",
        f"Path of training, {one:.0%} and {two:.0%} of its variance",
        f"first direction ({one:.1%})",
        f"second direction ({two:.1%})",
        found,
        {"start": coordinates[:1], "path": coordinates[1:-1], "end": coordinates[-1:]},
        arrows=(coordinates[:-1], np.diff(coordinates, axis=0)),
        caption=f"Steps {steps[0]:,} to {steps[-1]:,}. Axes: the two main directions of the path, distances in the "
        f"space of the weights seen from the last. Running statistics {said(statistics)}.",
    )


def _map(
    name: str,
    title: str,
    across: str,
    up: str,
    found: Surface,
    groups: Mapping[str, np.ndarray],
    caption: str,
    arrows: tuple[np.ndarray, np.ndarray] | None = None,
) -> Scatter:
    """Lines of equal loss with points on them."""
    heights = np.log10(np.maximum(found.losses, SMALLEST))
    return Scatter(
        *(name, title, across, up, groups),
        field=np.where(np.isfinite(heights), heights, np.nan).T,
        extent=(
            found.first[0].item(),
            found.first[-1].item(),
            found.second[0].item(),
            found.second[-1].item(),
        ),
        contours=levels(found.losses),
        arrows=arrows,
        caption=f"Lines: equal loss, written on them; darker is higher. {caption}".rstrip(),
    )


def levels(losses: np.ndarray) -> list[tuple[float, str]]:
    """Round losses in the range of those that were found, as (base-10 logarithm, name), for the lines of a map.

    >>> [name for _, name in levels(np.array([0.3, 15.0, np.inf]))]
    ['0.5', '1', '2', '5', '10']
    """
    finite = losses[np.isfinite(losses)]
    if not len(finite):
        return []
    low, high = (float(np.log10(max(limit, SMALLEST))) for limit in (finite.min(), finite.max()))
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    chosen: list[float] = []
    for digits in DIGITS:
        chosen = [power + float(np.log10(d)) for power in powers for d in digits]
        chosen = [value for value in chosen if low < value < high]
        if len(chosen) <= LINES:
            break
    every = max(1, math.ceil(len(chosen) / LINES))
    return [(value, f"{10**value:.3g}") for value in chosen[::every]]


def said(statistics: Statistics) -> str:
    """What is done about running statistics, as the end of "running statistics ..."."""
    return "as trained" if statistics == "trained" else "recomputed from these examples at every point"


__all__ = ["around", "levels", "line", "path_map", "said"]
