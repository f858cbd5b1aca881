"""Histograms side by side: how the distribution of many numbers changes from step to step."""

from collections.abc import Sequence

import numpy as np

from chainrule.core.pictures import Heatmap

_BINS = 41


def edges(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Bins that hold all but the two in a thousand most extreme of all numbers.

    >>> edges([np.zeros(3), np.ones(3)]).round(3)[[0, -1]].tolist()
    [0.0, 1.0]
    """
    low, high = np.quantile(np.concatenate(columns), [0.001, 0.999])
    return np.linspace(low, high if high > low else low + 1, _BINS + 1)


def heatmap(
    name: str,
    title: str,
    y_label: str,
    columns: Sequence[np.ndarray],
    bins: np.ndarray,
    steps: Sequence[int],
    caption: str,
) -> Heatmap:
    """A column for each step; the darker, the more of its numbers lie there."""
    middles = (bins[:-1] + bins[1:]) / 2
    counts = np.stack([np.histogram(values, bins)[0] / len(values) for values in columns], axis=1)
    return Heatmap(
        name,
        title,
        "step",
        y_label,
        np.sqrt(counts[::-1]),
        rows=[f"{value:.2g}" for value in middles[::-1]],
        columns=[str(step) for step in steps],
        caption=f"{caption} Square root of the share, so that rare values can be seen.",
    )


__all__ = ["edges", "heatmap"]
