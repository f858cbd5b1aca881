"""Direct coding by exact conditional probabilities: each symbol given those before it, as a queue wants it.

Models are asked by a conversation: a generator yields the distribution of the next symbol of every row and is sent the
symbols. Writing sends those of the data, reading those that come out of the file; all else is one and the same.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Int

from chainrule.core.types import Tree
from chainrule.data.schema import Schema
from chainrule.information.compression.coders import RangeReader, RangeWriter
from chainrule.information.compression.codes import (
    ROWS,
    Code,
    CodedStream,
    Seed,
    Watch,
    filled,
    fitting_rows,
    probe_symbols,
)
from chainrule.information.compression.distributions import SymbolDistribution

SymbolDistributions: TypeAlias = Generator[SymbolDistribution, np.ndarray, None]
"""Yields the distribution of the next symbol of every row, and is sent the symbols."""
_MOST_ROWS = 1024
"""Examples that are read side by side, at most."""
_PIECES = 64
"""Pieces that a text is cut into, at most."""
_PROBED = 8
"""Symbols by which a fingerprint knows a model."""


@final
@dataclass(frozen=True)
class EntryCode(Code):
    """Examples entry by entry, as many at a time as there are rows."""

    schema: Schema
    weights: Tree
    distributions: Callable[[int, np.ndarray | None], SymbolDistributions]
    """Of so many rows; where their symbols are known beforehand, these, so that one pass may do for all of them."""
    order: Int[np.ndarray, " entries"]
    """Which entry comes when."""
    held: int
    """Entries whose distributions are in memory at a time."""
    rows: int = ROWS

    @property
    def route(self) -> str:
        """Symbol by symbol."""
        return "direct"

    def suited_rows(self, symbols: np.ndarray) -> int:
        """As many as memory has room for: reading takes a call for each entry, whatever the rows."""
        return fitting_rows(self.schema, len(symbols), self.held, _MOST_ROWS)

    def encode(self, symbols: np.ndarray, seed: Seed, watch: Watch) -> CodedStream:
        """Block after block of examples, entry after entry."""
        del seed
        coder = RangeWriter()
        for first in range(0, len(symbols), self.rows):
            rows = symbols[first : first + self.rows, self.order]
            known = filled(rows, self.rows)
            for t, distribution in _answered(self.distributions(self.rows, known), known):
                distribution.first(len(rows)).put(coder, rows[:, t])
            watch(first + len(rows))
        return CodedStream(coder.words(), 0, {"likelihood": float(coder.bits())})

    def decode(self, coded: CodedStream, count: int, seed: Seed, watch: Watch) -> np.ndarray:
        """The same conversation, answered by what comes out."""
        del seed
        coder = RangeReader(coded.words)
        found = np.zeros((count, self.schema.dimensions), np.int32)
        for first in range(0, count, self.rows):
            rows = np.zeros((min(self.rows, count - first), self.schema.dimensions), np.int32)
            distributions = self.distributions(self.rows, None)
            distribution = next(distributions)
            for t in range(self.schema.dimensions):
                rows[:, t] = distribution.first(len(rows)).take(coder)
                if t + 1 < self.schema.dimensions:
                    distribution = distributions.send(filled(rows[:, t], self.rows))
                    watch(first + len(rows) * t // self.schema.dimensions)
            found[first : first + len(rows), self.order] = rows
            watch(first + len(rows))
        return found

    def by_example(self, symbols: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
        """What every entry costs, in its own place."""
        del seed
        costs = np.zeros(symbols.shape)
        for first in range(0, len(symbols), self.rows):
            rows = symbols[first : first + self.rows, self.order]
            known = filled(rows, self.rows)
            for t, distribution in _answered(self.distributions(self.rows, known), known):
                costs[first : first + len(rows), self.order[t]] = distribution.first(len(rows)).bits(
                    rows[:, t]
                )
        return {"likelihood": costs}

    def steps(self, count: int) -> int:
        """One for each entry of each block of examples."""
        return -(-count // self.rows) * self.schema.dimensions

    @property
    def probed(self) -> int:
        """The first few entries."""
        return min(_PROBED, self.schema.dimensions)

    def outputs(self) -> Iterator[np.ndarray]:
        """What the first distributions are for made-up symbols, asked as reading asks."""
        probe = probe_symbols(self.schema, self.rows, self.probed)
        for _, distribution in _answered(self.distributions(self.rows, None), probe):
            yield from vars(distribution).values()


@final
@dataclass(frozen=True)
class TextCode(Code):
    """One long row of tokens, cut into as many pieces as there are rows, which are read side by side."""

    schema: Schema
    weights: Tree
    distributions: Callable[[int], SymbolDistributions]
    """Of so many rows."""
    context: int
    """Tokens that a model looks back at, about."""
    rows: int = 1

    @property
    def route(self) -> str:
        """Symbol by symbol."""
        return "direct"

    def suited_rows(self, symbols: np.ndarray) -> int:
        """As many as leave each piece long enough for its slow beginning not to count."""
        return max(1, min(_PIECES, len(symbols) // (8 * self.context)))

    def encode(self, symbols: np.ndarray, seed: Seed, watch: Watch) -> CodedStream:
        """All pieces side by side, token after token."""
        del seed
        coder, ideal = RangeWriter(), 0.0
        pieces, lengths = self._pieces(symbols, len(symbols))
        for t, distribution in _answered(self.distributions(self.rows), pieces):
            live = int((lengths > t).sum())
            distribution.first(live).put(coder, pieces[:live, t])
            ideal += float(distribution.first(live).bits(pieces[:live, t]).sum())
            watch(min(len(symbols), (t + 1) * self.rows))
        return CodedStream(coder.words(), 0, {"likelihood": float(coder.bits())}, ideal)

    def decode(self, coded: CodedStream, count: int, seed: Seed, watch: Watch) -> np.ndarray:
        """The same conversation, answered by what comes out."""
        del seed
        coder = RangeReader(coded.words)
        pieces, lengths = self._pieces(np.zeros(count, np.int32), count)
        if not pieces.shape[1]:
            return np.zeros(0, np.int32)
        distributions = self.distributions(self.rows)
        distribution = next(distributions)
        for t in range(pieces.shape[1]):
            live = int((lengths > t).sum())
            pieces[:live, t] = distribution.first(live).take(coder)
            watch(min(count, (t + 1) * self.rows))
            if t + 1 < pieces.shape[1]:
                distribution = distributions.send(pieces[:, t])
        return np.concatenate([piece[:length] for piece, length in zip(pieces, lengths, strict=True)])

    def _pieces(self, symbols: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The pieces, filled up with zeros to the length of the first, and how long each is, the longest first."""
        short, longer = divmod(count, self.rows)
        lengths = np.array([short + (piece < longer) for piece in range(self.rows)])
        pieces = np.zeros((self.rows, int(lengths.max(initial=0))), np.int32)
        ends = np.cumsum(lengths)
        for piece, end, length in zip(pieces, ends, lengths, strict=True):
            piece[:length] = symbols[end - length : end]
        return pieces, lengths

    def by_example(self, symbols: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
        """What every token costs, in one row."""
        del seed
        pieces, lengths = self._pieces(symbols, len(symbols))
        costs = np.zeros(pieces.shape)
        for t, distribution in _answered(self.distributions(self.rows), pieces):
            costs[:, t] = distribution.bits(pieces[:, t])
        return {"likelihood": np.concatenate([row[:n] for row, n in zip(costs, lengths, strict=True)])[None]}

    def steps(self, count: int) -> int:
        """One for each token of a piece."""
        return -(-count // self.rows)

    @property
    def probed(self) -> int:
        """The first few tokens."""
        return _PROBED

    def outputs(self) -> Iterator[np.ndarray]:
        """What the first distributions are for made-up tokens."""
        probe = probe_symbols(self.schema, self.rows, _PROBED)
        for _, distribution in _answered(self.distributions(self.rows), probe):
            yield from vars(distribution).values()


def _answered(
    distributions: SymbolDistributions, symbols: Int[np.ndarray, "rows count"]
) -> Iterator[tuple[int, SymbolDistribution]]:
    """The distributions of a conversation whose answers are known, numbered."""
    for t in range(symbols.shape[1]):
        yield t, distributions.send(symbols[:, t - 1]) if t else next(distributions)


__all__ = ["EntryCode", "SymbolDistributions", "TextCode"]
