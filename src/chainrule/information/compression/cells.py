"""Cells that numbers of codes are rounded to, and normal numbers as symbols: the numbers of their cells.

Cells of one width serve every level of a hierarchy. Cells of one probability under a standard normal prior make the
prior cost the same for every number, exactly as many bits as the logarithm of their count, and are narrow where codes
are dense (Townsend et al., 2019).
"""

import abc
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr, ndtr, ndtri

from chainrule.core.errors import DataError
from chainrule.information.compression.coders import EntropyCoder, constriction, no_probabilities
from chainrule.information.compression.distributions import (
    RAREST,
    CategoricalSymbols,
    SymbolDistribution,
    Symbols,
    UniformSymbols,
    flat,
)

_MOST_CELLS = 2**20
"""Cells of a grid; each keeps some of the 24 bits that a probability has."""
_GROUPS = 64
"""Groups that cells of equal mass are coded in: the group first, then the cell, each one of 64."""


@final
class NormalEntries(NamedTuple):
    """Means and deviations of the entries of a level."""

    mean: Float[np.ndarray, "rows size"]
    deviation: Float[np.ndarray, "rows size"]

    def first(self, rows: int) -> "NormalEntries":
        """Those of the first so many rows."""
        return NormalEntries(self.mean[:rows], self.deviation[:rows])

    def check(self) -> None:
        """Raise where networks gave no numbers: the coder would take a mean that is none without a word."""
        if not (np.isfinite(self.mean).all() and np.isfinite(self.deviation).all()):
            raise no_probabilities()


class CodeCells(abc.ABC):
    """What the numbers of a code are rounded to."""

    @abc.abstractmethod
    def values(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """The numbers that cells stand for."""

    @abc.abstractmethod
    def posterior(self, entries: NormalEntries) -> SymbolDistribution:
        """The cells of numbers that were inferred."""

    @abc.abstractmethod
    def prior(self, entries: NormalEntries) -> SymbolDistribution:
        """The cells of numbers that are generated."""

    @abc.abstractmethod
    def coarse(self, entries: NormalEntries) -> float:
        """The share of the entries that are narrower than the cell of their mean."""

    @abc.abstractmethod
    def outside(self, entries: NormalEntries) -> float:
        """The share of the entries whose mean is beyond the outermost cells."""

    @abc.abstractmethod
    def settings(self) -> dict[str, float]:
        """What `cells_of` makes them of."""


@final
@dataclass(frozen=True)
class CellGrid(CodeCells):
    """Cells of equal width between `-half` and `half`; a cell stands for its middle."""

    half: float
    step: float

    @property
    def count(self) -> int:
        """How many there are."""
        return round(2 * self.half / self.step)

    def values(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """The middles of cells.

        >>> CellGrid(8.0, 0.5).values(np.array([[-16, 0, 15]])).tolist()
        [[-7.75, 0.25, 7.75]]
        """
        return ((symbols + 0.5) * self.step).astype(np.float32)

    def posterior(self, entries: NormalEntries) -> SymbolDistribution:
        """Normal numbers on the grid."""
        return GridNormal(*entries, self)

    def prior(self, entries: NormalEntries) -> SymbolDistribution:
        """Normal numbers on the grid."""
        return GridNormal(*entries, self)

    def coarse(self, entries: NormalEntries) -> float:
        """All cells are of one width."""
        return float(np.mean(entries.deviation < self.step))

    def outside(self, entries: NormalEntries) -> float:
        """Those that a grid of a bounded number of cells does not reach."""
        return float(np.mean(np.abs(entries.mean) > self.half))

    def settings(self) -> dict[str, float]:
        """Reach and width."""
        return {"half": self.half, "step": self.step}

    @classmethod
    def suited(cls, entries: NormalEntries, step: float | None = None, half: float = 8.0) -> Self:
        """Cells fine enough for 19 of 20 posteriors: a power of two below half of their deviation, within reason.

        >>> CellGrid.suited(NormalEntries(np.zeros((4, 25)), np.full((4, 25), 0.3)))
        CellGrid(half=8.0, step=0.125)
        """
        means, deviations = entries
        if step is None:
            fine = math.floor(math.log2(max(float(np.quantile(deviations, 0.05)) / 2, 2.0**-12)))
            step = 2.0 ** min(max(fine, -12), -3)
        reach = float(np.max(np.abs(means) + 4 * deviations, initial=0.0))
        while half < reach and 4 * half / step <= _MOST_CELLS:
            half *= 2
        return cls(half, step)


@final
@dataclass(frozen=True)
class EqualMassCells(CodeCells):
    """4,096 cells of one probability under the standard normal distribution: each costs 12 bits by the prior."""

    count: int = _GROUPS**2

    def values(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """Where the mass of a cell is halved.

        >>> EqualMassCells().values(np.array([[0, 2047, 4095]])).astype(float).round(2).tolist()
        [[-3.67, -0.0, 3.67]]
        """
        return ndtri((symbols + 0.5) / self.count).astype(np.float32)

    def edges(self, numbers: Int[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Where cells begin; the first at minus infinity."""
        return _edges(self.count)[numbers]

    def posterior(self, entries: NormalEntries) -> SymbolDistribution:
        """The mass of a normal distribution in every cell."""
        return EqualMassNormal(*entries, self)

    def prior(self, entries: NormalEntries) -> SymbolDistribution:
        """All cells alike."""
        return UniformSymbols(np.full(entries.mean.shape, self.count, np.int32))

    def coarse(self, entries: NormalEntries) -> float:
        """Cells are wider the further they are from zero."""
        mean = entries.mean.astype(np.float64)
        width = math.sqrt(2 * math.pi) / self.count * np.exp(np.minimum(mean**2, 100) / 2)
        return float(np.mean(entries.deviation < width))

    def outside(self, entries: NormalEntries) -> float:
        """None: the outermost cells have no end."""
        del entries
        return 0.0

    def settings(self) -> dict[str, float]:
        """How many."""
        return {"equal_mass": self.count}


def cells_of(settings: Mapping[str, Any]) -> CodeCells:
    """The cells that `CodeCells.settings` describes.

    >>> cells_of({"half": 8, "step": 0.5}), cells_of(EqualMassCells().settings())
    (CellGrid(half=8.0, step=0.5), EqualMassCells(count=4096))
    """
    if set(settings) == {"half", "step"}:
        found = CellGrid(float(settings["half"]), float(settings["step"]))
        if 0 < found.step <= found.half < math.inf and found.count <= _MOST_CELLS:
            return found
    if dict(settings) == EqualMassCells().settings():
        return EqualMassCells()
    raise DataError("the file names cells that this version does not know", remedy="update Chainrule")


@final
class GridNormal(SymbolDistribution):
    """Normal numbers, rounded to the cells of a grid; every cell keeps some probability."""

    def __init__(
        self,
        mean: Float[np.ndarray, "rows *entries"],
        deviation: Float[np.ndarray, "rows *entries"],
        grid: CellGrid,
    ) -> None:
        self.mean, self.deviation, self.grid = mean, deviation, grid

    def first(self, rows: int) -> "GridNormal":
        """That of the first so many rows."""
        return GridNormal(self.mean[:rows], self.deviation[:rows], self.grid)

    def _model(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """In units of a cell, with cells around whole numbers."""
        half = self.grid.count // 2
        model = constriction().stream.model.QuantizedGaussian(-half, half - 1)
        mean = _numbers(self.mean) / self.grid.step - 0.5
        return model, mean, np.maximum(_numbers(self.deviation) / self.grid.step, 1e-9)

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """Cells that numbers were rounded to."""
        coder.put(flat(symbols), *self._model())

    def take(self, coder: EntropyCoder) -> Symbols:
        """A cell for each entry."""
        return coder.take(*self._model()).reshape(self.mean.shape)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """Those of the mass of each cell."""
        edges = symbols * self.grid.step, (symbols + 1) * self.grid.step
        return -np.maximum(log_mass(self.mean, self.deviation, *edges), math.log(RAREST)) / math.log(2)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Normal numbers, rounded."""
        values = self.mean + self.deviation * draw.normal(size=self.mean.shape)
        half = self.grid.count // 2
        return np.clip(np.floor(values / self.grid.step), -half, half - 1).astype(np.int32)


@final
class EqualMassNormal(SymbolDistribution):
    """Normal numbers in cells of equal mass: which group of 64 cells, then which of them."""

    def __init__(
        self,
        mean: Float[np.ndarray, "rows *entries"],
        deviation: Float[np.ndarray, "rows *entries"],
        cells: EqualMassCells,
    ) -> None:
        self.mean, self.deviation, self.cells = mean, deviation, cells

    def first(self, rows: int) -> "EqualMassNormal":
        """That of the first so many rows."""
        return EqualMassNormal(self.mean[:rows], self.deviation[:rows], self.cells)

    def _groups(self) -> CategoricalSymbols:
        return self._shares(np.arange(0, self.cells.count + 1, _GROUPS))

    def _within(self, groups: Symbols) -> CategoricalSymbols:
        return self._shares(_GROUPS * groups[..., None].astype(np.int64) + np.arange(_GROUPS + 1))

    def _shares(self, numbers: Int[np.ndarray, "*shape edges"]) -> CategoricalSymbols:
        """Probabilities between edges; a little for each, also where the normal distribution is next to nothing."""
        edges = (self.cells.edges(numbers) - self.mean[..., None]) / self.deviation[..., None].astype(
            np.float64
        )
        # The upper tail as the lower one of its mirror image, where differences keep their digits.
        lower, upper = edges[..., :-1], edges[..., 1:]
        above = lower > 0
        mass = ndtr(np.where(above, -lower, upper)) - ndtr(np.where(above, -upper, lower))
        mass = np.maximum(mass, RAREST * np.maximum(mass.max(axis=-1, keepdims=True), 1e-300))
        return CategoricalSymbols((mass / mass.sum(axis=-1, keepdims=True)).astype(np.float32))

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """What comes off first goes on last."""
        groups = symbols // _GROUPS
        self._within(groups).put(coder, symbols % _GROUPS)
        self._groups().put(coder, groups)

    def take(self, coder: EntropyCoder) -> Symbols:
        """A group, then a cell of it."""
        groups = self._groups().take(coder)
        return _GROUPS * groups + self._within(groups).take(coder)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """Those of the mass of each cell."""
        groups = symbols // _GROUPS
        return self._groups().bits(groups) + self._within(groups).bits(symbols % _GROUPS)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """A group, then a cell of it."""
        groups = self._groups().drawn(draw)
        return _GROUPS * groups + self._within(groups).drawn(draw)


def log_mass(mean: np.ndarray, deviation: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The logarithm of the mass of a normal distribution between two edges."""
    low, high = ((edge - mean.astype(np.float64)) / deviation for edge in (low, high))
    # The upper tail as the lower one of its mirror image, where differences of logarithms are exact.
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    return upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-300)))


@functools.cache
def _edges(count: int) -> Float[np.ndarray, " edges"]:
    return np.asarray(ndtri(np.arange(count + 1) / count))


def _numbers(values: np.ndarray) -> Float[np.ndarray, " positions"]:
    return np.ascontiguousarray(values.reshape(-1), np.float64)


__all__ = [
    "CellGrid",
    "CodeCells",
    "EqualMassCells",
    "EqualMassNormal",
    "GridNormal",
    "NormalEntries",
    "cells_of",
]
