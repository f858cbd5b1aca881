"""Pictures of losses over the weights: around them, along a path of training, on a line between two models."""

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.core.pictures import Heatmap, Lines, Picture, Scatter
from chainrule.explain.landscape import Statistics, Surface
from chainrule.explain.paths import Path


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
    """A map of log loss and two cuts through the centre."""
    every = max(1, (len(found.first) - 1) // 6)
    ticks = [f"{round(float(s), 3):g}" if i % every == 0 else "" for i, s in enumerate(found.first)]
    middle = len(found.first) // 2
    cuts = {
        "first direction": (found.first, found.losses[:, middle]),
        "second direction": (found.second, found.losses[middle]),
    }
    return [
        Heatmap(
            *(name, title, "second direction", "first direction", np.log10(np.maximum(found.losses, 1e-12))),
            rows=ticks,
            columns=ticks,
            caption=f"Logarithm (base 10) of the loss. {caption}",
        ),
        Lines(
            *(f"{name}-cuts", f"{title}: cuts through the centre", "step", "loss", cuts),
            log_y=True,
            caption=caption,
        ),
    ]


def path_map(path: Path, found: Surface, steps: Sequence[int], statistics: Statistics) -> Scatter:
    """The path over the loss, first direction to the right."""
    one, two = path.shares
    places = path.places
    return Scatter(
        "landscape-path",
        f"Path of training, {one:.0%} and {two:.0%} of its variance",
        f"first direction ({one:.1%})",
        f"second direction ({two:.1%})",
        {"start": places[:1], "path": places[1:-1], "end": places[-1:]},
        field=np.log10(np.maximum(found.losses, 1e-12)).T,
        extent=(
            found.first[0].item(),
            found.first[-1].item(),
            found.second[0].item(),
            found.second[-1].item(),
        ),
        contours=levels(found.losses),
        arrows=(places[:-1], np.diff(places, axis=0)),
        caption=f"Steps {steps[0]:,} to {steps[-1]:,}. Lines: equal loss, written on them; darker is higher. Axes: the "
        "two main directions of the path, distances in the space of the weights seen from the last. "
        f"Running statistics {said(statistics)}.",
    )


def levels(losses: np.ndarray, most: int = 8) -> list[tuple[float, str]]:
    """Round losses inside the range of those that were found, as (base-10 logarithm, name), for lines on a map.

    >>> levels(np.array([0.3, 15.0]))
    [(-0.30..., '0.5'), (0.0, '1'), (0.30..., '2'), (0.69..., '5'), (1.0, '10')]
    """
    low, high = (float(np.log10(max(limit, 1e-12))) for limit in (losses.min(), losses.max()))
    for digits in ((1, 2, 5), (1, 3), (1,)):
        logs = [
            np.log10(d) + power for power in range(int(np.floor(low)), int(np.ceil(high)) + 1) for d in digits
        ]
        chosen = [float(value) for value in logs if low < value < high]
        if len(chosen) <= most:
            break
    return [(value, f"{10**value:.3g}") for value in chosen[:: -(-len(chosen) // most) or 1]]


def said(statistics: Statistics) -> str:
    """What is done about running statistics, as the end of "running statistics ..."."""
    return "as trained" if statistics == "trained" else "recomputed from these examples at every point"


__all__ = ["around", "levels", "line", "path_map", "said"]
