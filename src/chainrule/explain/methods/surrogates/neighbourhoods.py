"""Neighbourhoods of an input: what its random neighbours are, in coordinates in which the input itself is zero."""

import abc
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError


class Neighbourhood(abc.ABC):
    """Neighbours of inputs by coordinates, one for each feature; all inputs share them."""

    count: int
    kind: str
    """What neighbours are, in words."""

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, samples: int) -> Float[np.ndarray, "samples features"]:
        """Coordinates of random neighbours."""

    @abc.abstractmethod
    def inputs(self, x: np.ndarray, coordinates: Float[np.ndarray, "samples features"]) -> np.ndarray:
        """The neighbours of each input: (batch, samples, ...)."""

    @abc.abstractmethod
    def distance_from_usual(self, x: np.ndarray) -> Float[np.ndarray, "batch features"]:
        """How far each input lies from what is usual along each coordinate: a slope times it is what a feature adds."""


@final
class ColumnNoise(Neighbourhood):
    """Rows of numbers with normal noise as large as the spread of each column."""

    kind = "noise in the spread of each column"

    def __init__(self, background: Float[np.ndarray, "rows features"]) -> None:
        self.count = background.shape[1]
        self.mean, self.spread = background.mean(axis=0), background.std(axis=0)
        # The standard deviation of equal numbers is not always 0 in floating point.
        self.spread = np.where(np.ptp(background, axis=0) > 0, self.spread, 0)
        if not self.spread.any():
            raise ArgumentError(
                f"lime(background): {len(background)} rows without any spread, and noise of that spread is none",
                remedy="give several different rows",
            )

    def draw(self, generator: np.random.Generator, samples: int) -> Float[np.ndarray, "samples features"]:
        """Normal numbers."""
        return generator.standard_normal((samples, self.count))

    def inputs(self, x: np.ndarray, coordinates: Float[np.ndarray, "samples features"]) -> np.ndarray:
        """Each row with the noise in its own units."""
        return np.asarray(x[:, None] + self.spread * coordinates[None], x.dtype)

    def distance_from_usual(self, x: np.ndarray) -> Float[np.ndarray, "batch features"]:
        """In spreads from the mean; 0 for a column that never changes."""
        still = self.spread == 0
        return np.where(still, 0, (x - self.mean) / np.where(still, 1, self.spread))


@final
class Absence(Neighbourhood):
    """Inputs some groups of whose entries are absent: those of the background's mean."""

    kind = "groups absent at random, at the background's mean"

    def __init__(self, background: np.ndarray, groups: Int[np.ndarray, "..."]) -> None:
        shape = background.shape[1:]
        numbers = np.unique(groups)
        if (
            groups.shape != shape
            or groups.dtype.kind not in "iu"
            or (numbers != np.arange(len(numbers))).any()
        ):
            raise ArgumentError(
                f"lime(groups): shape {groups.shape}, an input has {shape}",
                remedy="give every entry of an input the number of its group, counted from 0 without gaps",
            )
        self.groups, self.count = groups, len(numbers)
        self.mean = background.mean(axis=0)

    def draw(self, generator: np.random.Generator, samples: int) -> Float[np.ndarray, "samples features"]:
        """Every group is absent (-1) in half of the neighbours."""
        return -(generator.uniform(size=(samples, self.count)) < 0.5).astype(np.float64)

    def inputs(self, x: np.ndarray, coordinates: Float[np.ndarray, "samples features"]) -> np.ndarray:
        """Each input with the mean where a group is absent."""
        absent: Any = coordinates[:, self.groups] < 0
        return np.where(absent[None], self.mean, x[:, None]).astype(x.dtype)

    def distance_from_usual(self, x: np.ndarray) -> Float[np.ndarray, "batch features"]:
        """One step, from absent to present."""
        return np.ones((len(x), self.count))


__all__ = ["Absence", "ColumnNoise", "Neighbourhood"]
