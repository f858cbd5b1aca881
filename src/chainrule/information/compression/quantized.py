"""Codes of models that stand for an example by codes of a codebook: the codes one after another, then all entries.

The codes are a function of the example, so that choosing them takes no bits off a stack and none come back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

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
    probe_symbols,
)
from chainrule.information.compression.direct import SymbolDistributions
from chainrule.information.compression.distributions import SymbolDistribution


@final
@dataclass(frozen=True)
class QuantizedCode(Code):
    """Codes of a codebook by their prior, then the entries given the codes."""

    schema: Schema
    weights: Tree
    locations: int
    """Codes of an example."""
    infer: Callable[[np.ndarray], Int[np.ndarray, "rows locations"]]
    """The codes of examples."""
    prior: Callable[[int, np.ndarray | None], SymbolDistributions]
    """The distributions of codes one after another; perhaps of known ones."""
    generate: Callable[[np.ndarray], SymbolDistribution]
    """The distribution of all entries given the codes."""
    rows: int = ROWS

    @property
    def route(self) -> str:
        """Symbol by symbol."""
        return "direct"

    def encode(self, symbols: np.ndarray, seed: Seed, watch: Watch) -> CodedStream:
        """Block after block of examples."""
        del seed
        coder, ledger = RangeWriter(), {"likelihood": 0.0, "prior": 0.0}
        for first in range(0, len(symbols), self.rows):
            rows = symbols[first : first + self.rows]
            codes, before = self.infer(filled(rows, self.rows)), coder.bits()
            for t, distribution in self._asked(codes):
                distribution.first(len(rows)).put(coder, codes[: len(rows), t])
            between = coder.bits()
            self.generate(codes).first(len(rows)).put(coder, rows)
            ledger["prior"] += between - before
            ledger["likelihood"] += coder.bits() - between
            watch(first + len(rows))
        return CodedStream(coder.words(), 0, ledger)

    def decode(self, coded: CodedStream, count: int, seed: Seed, watch: Watch) -> np.ndarray:
        """The codes of a block first, then its entries."""
        del seed
        coder = RangeReader(coded.words)
        found = np.zeros((count, self.schema.dimensions), np.int32)
        for first in range(0, count, self.rows):
            rows = min(self.rows, count - first)
            codes = np.zeros((self.rows, self.locations), np.int32)
            distributions = self.prior(self.rows, None)
            for t in range(self.locations):
                distribution = distributions.send(codes[:, t - 1]) if t else next(distributions)
                codes[:rows, t] = distribution.first(rows).take(coder)
            # Rows that only fill a batch up have no codes; nothing of theirs is read.
            found[first : first + rows] = self.generate(codes).first(rows).take(coder)
            watch(first + rows)
        return found

    def _asked(self, codes: Int[np.ndarray, "rows locations"]) -> Iterator[tuple[int, SymbolDistribution]]:
        distributions = self.prior(self.rows, codes)
        for t in range(self.locations):
            yield t, distributions.send(codes[:, t - 1]) if t else next(distributions)

    def by_example(self, symbols: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
        """What codes and entries cost."""
        del seed
        priors, entries = [], []
        for first in range(0, len(symbols), self.rows):
            rows = symbols[first : first + self.rows]
            codes = self.infer(filled(rows, self.rows))
            each = [
                distribution.first(len(rows)).bits(codes[: len(rows), t])
                for t, distribution in self._asked(codes)
            ]
            priors.append(np.stack(each, axis=1))
            entries.append(self.generate(codes).first(len(rows)).bits(rows))
        return {"likelihood": np.concatenate(entries), "prior": np.concatenate(priors)}

    def steps(self, count: int) -> int:
        """One for each code of each block, and one for its entries."""
        return -(-count // self.rows) * (self.locations + 1)

    @property
    def probed(self) -> int:
        """Encoder, prior and decoder."""
        return 3

    def outputs(self) -> Iterator[np.ndarray]:
        """What the networks make of made-up examples."""
        codes = self.infer(probe_symbols(self.schema, self.rows, self.schema.dimensions))
        yield codes
        for _, distribution in self._asked(codes):
            yield from vars(distribution).values()
        yield from vars(self.generate(codes)).values()


__all__ = ["QuantizedCode"]
