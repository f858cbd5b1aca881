"""Distributions of local bits-back coding: numbers on fine grids, close to where a flow says they are.

A number is coded as its distance from a mean in cells of a grid. Distances are cut in two, a coarse part that a normal
distribution tells and fine bits that all are alike, so that wide distributions do not need wide tables.
"""

import math
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import DataError
from chainrule.information.compression.cells import log_mass
from chainrule.information.compression.coders import EntropyCoder, constriction
from chainrule.information.compression.distributions import (
    RAREST,
    SymbolDistribution,
    Symbols,
    UniformSymbols,
    flat,
)

_SHARP = 8.0
"""Coarse cells in a standard deviation, at least; up to twice as many."""
_WIDEST = _SHARP * 2.0**23
"""Standard deviations in cells, at most."""
_REMEDY = "train with fewer layers or smaller scales, or compress with made or pixel-cnn"


@final
class LocalNormal(SymbolDistribution):
    """Normal numbers in units of a cell; none is further than `reach` coarse cells from its mean."""

    def __init__(
        self,
        mean: Float[np.ndarray, "rows *entries"],
        deviation: Float[np.ndarray, "rows *entries"],
        reach: int = 128,
    ) -> None:
        self.mean, self.deviation = np.asarray(mean, np.float64), np.asarray(deviation, np.float64)
        self.reach = np.int64(reach)

    def first(self, rows: int) -> "LocalNormal":
        """That of the first so many rows."""
        return LocalNormal(self.mean[:rows], self.deviation[:rows], int(self.reach))

    def _sizes(self) -> Int[np.ndarray, "rows *entries"]:
        """Cells in a coarse one, a power of two."""
        # What a coder has room for, and numbers of cells; neither holds of what is no number.
        if not (np.all(self.deviation < _WIDEST) and np.all(np.abs(self.mean) < 2.0**30)):
            raise DataError(
                "the flow moves an example so far that its code cannot be told to the digit that is needed",
                remedy=_REMEDY,
            )
        return (1 << np.floor(np.log2(np.maximum(self.deviation / _SHARP, 1))).astype(np.int64)).astype(
            np.int64
        )

    def _centres(self, sizes: Int[np.ndarray, "rows *entries"]) -> Int[np.ndarray, "rows *entries"]:
        return np.floor(self.mean / sizes).astype(np.int64)

    def _model(self, sizes: Int[np.ndarray, "rows *entries"]) -> tuple[Any, np.ndarray, np.ndarray]:
        reach = int(self.reach)
        model = constriction().stream.model.QuantizedGaussian(-reach, reach - 1)
        # A coarse cell k reaches from k to k + 1; the coder has cells around whole numbers.
        mean = self.mean / sizes - self._centres(sizes) - 0.5
        deviation = np.maximum(self.deviation / sizes, 1e-6)
        return model, np.ascontiguousarray(mean.reshape(-1)), np.ascontiguousarray(deviation.reshape(-1))

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """What comes off first goes on last."""
        sizes = self._sizes()
        coarse = np.floor_divide(symbols, sizes) - self._centres(sizes)
        if np.any((coarse < -self.reach) | (coarse >= self.reach)):
            raise DataError(
                "the flow does not come back near where it started: rounding moves an example too far",
                remedy=_REMEDY,
            )
        UniformSymbols(sizes.astype(np.int32)).put(coder, symbols % sizes)
        coder.put(flat(coarse), *self._model(sizes))

    def take(self, coder: EntropyCoder) -> Symbols:
        """The coarse part, then the fine one."""
        sizes = self._sizes()
        coarse = coder.take(*self._model(sizes)).reshape(self.mean.shape) + self._centres(sizes)
        return (coarse * sizes + UniformSymbols(sizes.astype(np.int32)).take(coder)).astype(np.int32)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """Those of the coarse cell, and the fine ones."""
        sizes = self._sizes()
        low = np.floor_divide(symbols, sizes) * sizes
        found = log_mass(self.mean, np.maximum(self.deviation, 1e-6 * sizes), low, low + sizes)
        return np.log2(sizes) - np.maximum(found, math.log(RAREST)) / math.log(2)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Normal numbers, rounded."""
        return np.floor(self.mean + self.deviation * draw.normal(size=self.mean.shape)).astype(np.int32)


@final
class TriangularNormal(SymbolDistribution):
    """Normal vectors in units of a cell, `mean + factor e` with independent e: each entry given those before it."""

    def __init__(
        self, mean: Float[np.ndarray, "rows entries"], factor: Float[np.ndarray, "rows entries entries"]
    ) -> None:
        self.mean, self.factor = mean, factor

    def first(self, rows: int) -> "TriangularNormal":
        """That of the first so many rows."""
        return TriangularNormal(self.mean[:rows], self.factor[:rows])

    def _entry(self, number: int, noise: Float[np.ndarray, "rows entries"]) -> LocalNormal:
        row = self.factor[:, number, :]
        # Entry by entry on both sides, so that sums have the same order and the same bits.
        mean = self.mean[:, number] + (row[:, :number] * noise[:, :number]).sum(axis=1)
        return LocalNormal(mean, row[:, number])

    def _entries(self, symbols: Symbols) -> list[LocalNormal]:
        noise, found = np.zeros(self.mean.shape), []
        for number in range(self.mean.shape[1]):
            entry = self._entry(number, noise)
            noise[:, number] = (symbols[:, number] + 0.5 - entry.mean) / entry.deviation
            found.append(entry)
        return found

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """The last entry first, so that they come off in their order."""
        for number, entry in reversed(list(enumerate(self._entries(symbols)))):
            entry.put(coder, symbols[:, number])

    def take(self, coder: EntropyCoder) -> Symbols:
        """Entry after entry, each by what those before it were."""
        return self._made(lambda entry: entry.take(coder))

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows entries"]:
        """Those of each entry given those before it."""
        each = [entry.bits(symbols[:, number]) for number, entry in enumerate(self._entries(symbols))]
        return np.stack(each, axis=1)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Entry after entry."""
        return self._made(lambda entry: entry.drawn(draw))

    def _made(self, make: Any) -> Symbols:
        noise, found = np.zeros(self.mean.shape), np.zeros(self.mean.shape, np.int32)
        for number in range(self.mean.shape[1]):
            entry = self._entry(number, noise)
            found[:, number] = make(entry)
            noise[:, number] = (found[:, number] + 0.5 - entry.mean) / entry.deviation
        return found


@final
class KnownSymbols(SymbolDistribution):
    """Symbols that are certain, and cost nothing."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols

    def first(self, rows: int) -> "KnownSymbols":
        """Those of the first so many rows."""
        return KnownSymbols(self.symbols[:rows])

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """Nothing is to be said."""
        del coder, symbols

    def take(self, coder: EntropyCoder) -> Symbols:
        """As they are."""
        del coder
        return self.symbols

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """None."""
        return np.zeros(symbols.shape)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """As they are."""
        del draw
        return self.symbols


@final
class CellsOfLevels(SymbolDistribution):
    """Any of the fine cells that a level is cut into, all alike."""

    def __init__(self, levels: Symbols, cells: int) -> None:
        self.levels, self.counts = levels, np.full(levels.shape, cells, np.int32)

    def first(self, rows: int) -> "CellsOfLevels":
        """That of the first so many rows."""
        return CellsOfLevels(self.levels[:rows], int(self.counts.flat[0]))

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """Their places in the levels."""
        UniformSymbols(self.counts).put(coder, symbols - self.levels * self.counts)

    def take(self, coder: EntropyCoder) -> Symbols:
        """A cell of each level."""
        return (self.levels * self.counts + UniformSymbols(self.counts).take(coder)).astype(np.int32)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """The same for all."""
        return UniformSymbols(self.counts).bits(symbols)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Any of them."""
        return (self.levels * self.counts + UniformSymbols(self.counts).drawn(draw)).astype(np.int32)


__all__ = ["CellsOfLevels", "KnownSymbols", "LocalNormal", "TriangularNormal"]
