"""Names at the ends of curves, moved apart where they would overlap."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chainrule.report.style import TEXT_SIZE


def direct_labels(figure: Figure, axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the right end of the curves, moved apart where they would overlap."""
    figure.draw_without_rendering()  # settles the height of the axes, which the distances below need
    low, high = axes.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    wanted = axes.transData.transform([(x, y) for x, y, _, _ in ends])[:, 1] if ends else np.empty(0)
    positions = (spread(wanted, 14.5, low, high) - low) / (high - low)
    for (_, _, label, tone), position in zip(ends, positions, strict=True):
        axes.annotate(
            label,
            (1.0, position),
            (6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=TEXT_SIZE,
            color=tone,
            annotation_clip=False,
        )


def spread(wanted: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Positions as close as possible (least squares) to the wanted ones, in their order, at least `gap` apart.

    Neighbours that would overlap form a block around their mean; blocks that touch merge (pool adjacent violators).

    >>> spread(np.array([0.0, 1.0, 50.0]), gap=10, low=-100, high=100).tolist()
    [-4.5, 5.5, 50.0]
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[tuple[float, int]] = []
    for rank, value in enumerate(wanted[order]):
        mean, count = float(value) - gap * rank, 1
        while blocks and blocks[-1][0] > mean:
            other, others = blocks.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        blocks.append((mean, count))
    shifted = np.array([mean for mean, count in blocks for _ in range(count)])
    top = high - gap * max(len(wanted) - 1, 0)
    positions = np.empty_like(wanted, dtype=float)
    positions[order] = np.clip(shifted, low, max(low, top)) + gap * np.arange(len(wanted))
    return positions


__all__ = ["direct_labels", "spread"]
