"""The distributions that symbols of compressed files are coded by: coins and choices; normal numbers are in `cells`.

Probabilities become whole numbers inside of the coder, from floats that are the same on both sides; options whose
defaults may change are pinned here.
"""

import abc
from typing import Any, Self, final

import numpy as np
from jaxtyping import Bool, Float, Int

from chainrule.information.compression.coders import PRECISION, EntropyCoder, constriction

Symbols = Int[np.ndarray, "rows *entries"]
RAREST = 2.0**-PRECISION
"""The least probability that a symbol is given."""


class SymbolDistribution(abc.ABC):
    """A distribution of every entry of some rows of symbols."""

    @abc.abstractmethod
    def first(self, rows: int) -> Self:
        """That of the first so many rows: the others only fill a batch up."""

    @abc.abstractmethod
    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """Code these symbols."""

    @abc.abstractmethod
    def take(self, coder: EntropyCoder) -> Symbols:
        """The symbols that come back."""

    @abc.abstractmethod
    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """`-log2 p` of every symbol, before probabilities are rounded."""

    @abc.abstractmethod
    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Symbols at random."""


@final
class BinarySymbols(SymbolDistribution):
    """Zeros and ones, by the probability of a one."""

    def __init__(self, ones: Float[np.ndarray, "rows *entries"]) -> None:
        self.ones = ones

    def first(self, rows: int) -> "BinarySymbols":
        """That of the first so many rows."""
        return BinarySymbols(self.ones[:rows])

    @property
    def _table(self) -> Float[np.ndarray, "pairs 4"]:
        # Two coins at a time, as one of four: a coder takes as long for four probabilities as for two.
        ones = self.ones.reshape(-1).astype(np.float32)
        first, second = np.ascontiguousarray(ones[::2]), np.zeros(-(-ones.size // 2), np.float32)
        second[: ones.size // 2] = ones[1::2]
        both = first * second
        table = np.empty((len(first), 4), np.float32)
        table[:, 3] = both
        np.subtract(first, both, out=table[:, 1])
        np.subtract(second, both, out=table[:, 2])
        np.subtract(1 - second, table[:, 1], out=table[:, 0])
        return np.maximum(table, 0, out=table)  # what rounding has left below zero

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """Coins in pairs; one that is left over is paired with a zero that costs nothing."""
        coins = flat(symbols)
        pairs = coins[::2].copy()
        pairs[: coins.size // 2] += 2 * coins[1::2]
        coder.put(pairs, categorical(), self._table)

    def take(self, coder: EntropyCoder) -> Symbols:
        """Coins in pairs."""
        pairs = coder.take(categorical(), self._table)
        coins = np.stack([pairs & 1, pairs >> 1], axis=1).reshape(-1)
        return coins[: self.ones.size].reshape(self.ones.shape)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """That of the side that came up."""
        share = np.where(symbols == 1, self.ones, 1 - self.ones.astype(np.float64))
        return -np.log2(np.maximum(share, RAREST))

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Coins thrown."""
        return (draw.random(self.ones.shape) < self.ones).astype(np.int32)


@final
class CategoricalSymbols(SymbolDistribution):
    """One of several symbols, by the probability of each along the last axis."""

    def __init__(self, shares: Float[np.ndarray, "rows *entries symbols"]) -> None:
        self.shares = shares

    def first(self, rows: int) -> "CategoricalSymbols":
        """That of the first so many rows."""
        return CategoricalSymbols(self.shares[:rows])

    @property
    def _table(self) -> Float[np.ndarray, "positions symbols"]:
        return np.ascontiguousarray(self.shares.reshape(-1, self.shares.shape[-1]), np.float32)

    @property
    def _is_open(self) -> bool:
        """Whether there is anything to be said: not where there is one symbol alone."""
        return self.shares.shape[-1] > 1

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """One row of the table each."""
        if self._is_open:
            coder.put(flat(symbols), categorical(), self._table)

    def take(self, coder: EntropyCoder) -> Symbols:
        """One row of the table each."""
        if not self._is_open:
            return np.zeros(self.shares.shape[:-1], np.int32)
        return coder.take(categorical(), self._table).reshape(self.shares.shape[:-1])

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """That of the symbol that was chosen."""
        chosen = np.take_along_axis(self.shares, symbols[..., None].astype(np.int64), axis=-1)[..., 0]
        return -np.log2(np.maximum(chosen.astype(np.float64), RAREST))

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Choices by their probabilities."""
        below = np.cumsum(self.shares, axis=-1, dtype=np.float64)
        marks = draw.random(self.shares.shape[:-1])[..., None] * below[..., -1:]
        return np.minimum((below <= marks).sum(axis=-1), self.shares.shape[-1] - 1).astype(np.int32)


@final
class UniformSymbols(SymbolDistribution):
    """So many symbols at every position, all alike; of a power of two, each costs a whole number of bits."""

    def __init__(self, counts: Int[np.ndarray, "rows *entries"]) -> None:
        self.counts = counts

    def first(self, rows: int) -> "UniformSymbols":
        """That of the first so many rows."""
        return UniformSymbols(self.counts[:rows])

    @property
    def _open(self) -> Bool[np.ndarray, " positions"]:
        return self.counts.reshape(-1) > 1  # where there is one symbol alone, nothing is to be said

    def _model(self) -> tuple[Any, np.ndarray]:
        sizes = flat(self.counts)
        return constriction().stream.model.Uniform(), sizes[self._open]

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """Those of positions with a choice."""
        coder.put(flat(symbols)[self._open], *self._model())

    def take(self, coder: EntropyCoder) -> Symbols:
        """Zero where there is no choice."""
        found = np.zeros(self.counts.size, np.int32)
        found[self._open] = coder.take(*self._model())
        return found.reshape(self.counts.shape)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, "rows *entries"]:
        """The same for all symbols of a position."""
        del symbols
        return np.log2(self.counts)

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """Any of them."""
        return draw.integers(0, self.counts).astype(np.int32)


def flat(symbols: Symbols) -> Int[np.ndarray, " positions"]:
    """Symbols in one row, as coders take them."""
    return np.ascontiguousarray(symbols.reshape(-1), np.int32)


def categorical() -> Any:
    """The coder's model of choices by a table of probabilities."""
    return constriction().stream.model.Categorical(lazy=True, perfect=False)


__all__ = [
    "RAREST",
    "BinarySymbols",
    "CategoricalSymbols",
    "SymbolDistribution",
    "Symbols",
    "UniformSymbols",
    "categorical",
    "flat",
]
