"""Planes: environments whose states have two coordinates, so that values, policies and visits are maps."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Shaped

from chainrule.agents.envs.grids import Cells

_POINTS = 31
"""Points along each axis where coordinates are continuous."""


@final
@dataclass(frozen=True)
class StatePlane:
    """Points of a plane, row by row upwards, and what is seen in the states that lie there."""

    x_label: str
    y_label: str
    x: Float[np.ndarray, "columns"]
    y: Float[np.ndarray, "rows"]
    """Upwards where coordinates are continuous; downwards, as maps are read, where they are cells."""
    observations: Shaped[np.ndarray, "rows columns ..."]
    inside: Bool[np.ndarray, "rows columns"]
    """Where there are states to act in."""
    cells: bool = False
    """Whether there is nothing between the points."""
    arrows: Sequence[str] = ()
    """Which way each action leads, where it leads one way in the plane."""


class HasPlane(abc.ABC):
    """An environment whose states have two coordinates."""

    @abc.abstractmethod
    def plane(self) -> StatePlane:
        """Points that cover the plane."""

    @abc.abstractmethod
    def coordinates(self, states: Any) -> Float[np.ndarray, "n 2"]:
        """Where states lie, given as one state with a leading axis, on the host."""


def continuous_plane(
    labels: tuple[str, str],
    low: tuple[float, float],
    high: tuple[float, float],
    seen: Callable[[np.ndarray], np.ndarray],
) -> StatePlane:
    """Points spread evenly between bounds; `seen` gives observations for points (..., 2)."""
    x, y = (np.linspace(a, b, _POINTS) for a, b in zip(low, high, strict=True))
    points = np.stack(np.meshgrid(x, y), -1)
    return StatePlane(*labels, x, y, seen(points).astype(np.float32), np.ones((_POINTS, _POINTS), bool))


def grid_plane(cells: Cells, left_out: str, arrows: Sequence[str]) -> StatePlane:
    """The cells of a map, numbered row by row as states are, without those of some characters."""
    height, width = cells.shape
    numbers = np.arange(height * width, dtype=np.int32).reshape(height, width)
    inside = ~np.isin(cells, list(left_out))
    x, y = np.arange(1.0, width + 1), np.arange(1.0, height + 1)
    return StatePlane("column", "row", x, y, numbers, inside, cells=True, arrows=arrows)


def grid_coordinates(cells: Cells, numbers: np.ndarray) -> Float[np.ndarray, "n 2"]:
    """Columns and rows of cells by their numbers."""
    rows, columns = np.divmod(np.asarray(numbers), cells.shape[1])
    return np.stack([columns + 1.0, rows + 1.0], -1)


__all__ = ["HasPlane", "StatePlane", "continuous_plane", "grid_coordinates", "grid_plane"]
