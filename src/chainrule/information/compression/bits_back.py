"""Bits-back coding with asymmetric numeral systems, for models with latent variables (Townsend et al., 2019).

For a plain variational auto-encoder: a code z comes *off* the stack by q(z|x), the example goes on by p(x|z), z goes on
by p(z). What z cost is paid back by what choosing it took off. For levels z_1 ... z_T that know their neighbours the
moves are interleaved (Bit-Swap, Kingma et al., 2019), so that bits to begin with do not grow with the depth. Decoding
makes the same moves backwards.
"""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Tree
from chainrule.data.schema import Schema
from chainrule.information.compression.cells import (
    CellGrid,
    CodeCells,
    EqualMassCells,
    NormalEntries,
    cells_of,
)
from chainrule.information.compression.coders import PRECISION, AnsStack
from chainrule.information.compression.codes import (
    ROWS,
    Code,
    CodedStream,
    Ledger,
    Seed,
    Watch,
    ahead,
    blocks,
    check_rest,
    filled,
    fitting_rows,
    probe_symbols,
)
from chainrule.information.compression.distributions import SymbolDistribution

_LOOKED_AT = 512
"""Examples whose posteriors decide the grid."""
_SLOWEST = 1 / 16
"""The least pace: small blocks cost networks as much time as large ones."""
_COARSE = 0.1
"""The share of posteriors that may be narrower than their cells."""
_FEWEST = 4
"""Words that a stack begins with, at least."""


@final
class Move(NamedTuple):
    """One step of coding: a level of the code is inferred (comes off the stack), or generated (goes on)."""

    kind: Literal["infer", "generate"]
    level: int
    """0 is the example, 1 the lowest level of its code."""


Known = dict[int, np.ndarray]
"""What is known while coding, by level: whole numbers of the example, numbers of its code."""


def markov_moves(levels: int) -> tuple[Move, ...]:
    """The moves of a chain of levels that know their neighbours alone.

    >>> [f"{move.kind} {move.level}" for move in markov_moves(2)]
    ['infer 1', 'generate 0', 'infer 2', 'generate 1', 'generate 2']
    """
    found = [Move(kind, t) for t in range(1, levels + 1) for kind, t in (("infer", t), ("generate", t - 1))]  # type: ignore[arg-type]
    return (*found, Move("generate", levels))


def downward_moves(levels: int) -> tuple[Move, ...]:
    """The moves of levels that are inferred from the top: all come off before anything goes on.

    >>> [f"{move.kind} {move.level}" for move in downward_moves(2)]
    ['infer 2', 'infer 1', 'generate 0', 'generate 1', 'generate 2']
    """
    inferred = [Move("infer", level) for level in range(levels, 0, -1)]
    return (*inferred, *(Move("generate", level) for level in range(levels + 1)))


def upward_moves(levels: int) -> tuple[Move, ...]:
    """The moves of levels that are inferred from the bottom, but generated given all levels above.

    >>> [f"{move.kind} {move.level}" for move in upward_moves(2)]
    ['infer 1', 'infer 2', 'generate 0', 'generate 1', 'generate 2']
    """
    inferred = [Move("infer", level) for level in range(1, levels + 1)]
    return (*inferred, *(Move("generate", level) for level in range(levels + 1)))


@final
@dataclass(frozen=True)
class LatentCode(Code):
    """A model with latent variables as a code."""

    schema: Schema
    weights: Tree
    sizes: tuple[int, ...]
    """Entries of each level of the code, the lowest first."""
    moves: tuple[Move, ...]
    distribution: Callable[[Move, Known, int], SymbolDistribution | NormalEntries]
    """The distribution of a level of so many rows, given what is known when a move is made."""
    standard: bool = False
    """Whether the only level is standard normal before an example is seen."""
    rows: int = ROWS
    cells: tuple[CodeCells | None, ...] = field(default=())
    """Those of every level; none where it is made of symbols."""
    pace: float = 1.0
    """How fast blocks grow, see `blocks`."""
    held: int | None = None
    """Entries of an example that are in memory at a time, where they are not those of the example itself."""

    @property
    def route(self) -> str:
        """Bits come back."""
        return "bits-back"

    def suited_rows(self, symbols: np.ndarray) -> int:
        """As many as memory has room for."""
        return fitting_rows(self.schema, len(symbols), self.held)

    def fitted(
        self, symbols: np.ndarray, step: float | None = None, cells: str = "even", **options: Any
    ) -> Self:
        """With cells for every level: as fine as the posteriors of some examples want them, or of one mass."""
        if options:
            raise ArgumentError(
                f"{next(iter(options))}: bits-back coding has no such option", remedy="it has: step, cells"
            )
        if step is not None and not 2.0**-12 <= step <= 1:
            raise ArgumentError(f"step={step:g}: step must be from {2.0**-12:g} to 1")
        self._check_cells(step, cells)
        seen = self._posteriors(symbols[:_LOOKED_AT])
        if step is not None and all(entries is None for entries in seen):
            raise ArgumentError(
                "step: codes of this model are symbols, which have no cells", remedy="leave it out"
            )
        found: list[CodeCells | None] = []
        for level, entries in enumerate(seen, start=1):
            one = None if entries is None else CellGrid.suited(entries, step)
            found.append(EqualMassCells() if cells == "equal-mass" else one)
            _warn(level, found[-1], entries)
        code = self._with(cells=tuple(found))
        return code._with(pace=code._suited_pace(symbols[: self.rows]))

    def _suited_pace(self, symbols: np.ndarray) -> float:
        """As many examples as can take their codes off what each example before them has left."""
        if not len(symbols):
            return 1.0
        bits = {name: float(part.sum()) for name, part in self.by_example(symbols).items()}
        return min(max(sum(bits.values()) / max(-bits["returned"], 1.0), _SLOWEST), 1.0)

    def _check_cells(self, step: float | None, cells: str) -> None:
        if cells not in ("even", "equal-mass"):
            raise ArgumentError(f"cells={cells!r}: cells are even or equal-mass")
        if cells == "equal-mass" and step is not None:
            raise ArgumentError("step: cells of equal mass have widths of their own", remedy="leave step out")
        if cells == "equal-mass" and not self.standard:
            raise ArgumentError(
                "cells=equal-mass: the prior of this model is not the standard normal one",
                remedy="leave cells out: cells of one width suit every prior",
            )

    def settings(self) -> dict[str, Any]:
        """The cells, and how fast blocks grow."""
        cells = [None if cells is None else cells.settings() for cells in self.cells]
        return {"cells": cells, "pace": self.pace}

    def opened(self, settings: Mapping[str, Any]) -> Self:
        """With the cells and the pace of a file."""
        cells = tuple(None if one is None else cells_of(one) for one in settings["cells"])
        pace = float(settings["pace"])
        if len(cells) != len(self.sizes) or not _SLOWEST <= pace <= 1:
            raise ValueError(f"{len(cells)} levels, pace {pace}")
        return self._with(cells=cells, pace=pace)

    # ------------------------------------------------------------------ coding

    def encode(self, symbols: np.ndarray, seed: Seed, watch: Watch) -> CodedStream:
        """All examples on one stack; where the words it began with do not last, with half as many more."""
        initial = _FEWEST + math.ceil(self.sizes[0] / 8)
        while True:
            stack, ledger = AnsStack.seeded(seed, initial), dict.fromkeys(_NAMES, 0.0)
            if self._encoded(symbols, stack, ledger, seed, watch):
                return CodedStream(stack.words(), initial, ledger)
            initial += initial // 2

    def _encoded(
        self, symbols: np.ndarray, stack: AnsStack, ledger: Ledger, seed: Seed, watch: Watch
    ) -> bool:
        """Whether the words that the stack began with were enough."""
        with contextlib.closing(ahead(self._first_inferred(symbols))) as begun:
            for block, known, inferred in begun:
                rows = symbols[block]
                coded = {0: rows}
                for number, move in enumerate(self.moves):
                    distribution = inferred if not number else self._distribution_of(move, known, len(rows))
                    before = stack.bits()
                    if move.kind == "infer":
                        stack.shake(self._reach(move, rows), *seed, block.start, move.level)
                        self._take(distribution, move.level, stack, known, coded)
                        if stack.runs_out:
                            return False
                    else:
                        distribution.put(stack, coded[move.level])
                    ledger[_name(move)] += stack.bits() - before
                watch(block.stop)
        return True

    def _first_inferred(self, symbols: np.ndarray) -> Iterator[tuple[slice, Known, SymbolDistribution]]:
        """Every block with the distribution of its first move, which examples alone decide."""
        for block in blocks(len(symbols), self.rows, self.pace):
            known: Known = {0: filled(symbols[block], self.rows)}
            yield block, known, self._distribution_of(self.moves[0], known, block.stop - block.start)

    def decode(self, coded: CodedStream, count: int, seed: Seed, watch: Watch) -> np.ndarray:
        """The last example first; what is left at the end is what the stack began with."""
        stack = AnsStack(coded.words, seal=False)
        found = np.zeros((count, self.schema.dimensions), np.int32)
        for block in reversed(blocks(count, self.rows, self.pace)):
            rows = block.stop - block.start
            known: Known = {}
            symbols: Known = {}
            for move in reversed(self.moves):
                distribution = self._distribution_of(move, known, rows)
                if move.kind == "infer":
                    distribution.put(stack, symbols[move.level])
                    stack.shake(self._reach(move, symbols[move.level]), *seed, block.start, move.level)
                else:
                    self._take(distribution, move.level, stack, known, symbols)
            found[block] = symbols[0]
            watch(count - block.start)
        check_rest(stack.unsealed(), seed, coded.initial)
        return found

    def _reach(self, move: Move, rows: np.ndarray) -> int:
        """Words that a level of so many rows comes from, at most."""
        return math.ceil(len(rows) * self.sizes[move.level - 1] * PRECISION / 32)

    def _take(
        self, distribution: SymbolDistribution, level: int, stack: AnsStack, known: Known, symbols: Known
    ) -> None:
        symbols[level] = distribution.take(stack)
        known[level] = filled(self._values(level, symbols[level]), self.rows)

    def _values(self, level: int, symbols: np.ndarray) -> np.ndarray:
        """What networks are told of a level."""
        cells = self.cells[level - 1] if level else None
        return symbols if cells is None else cells.values(symbols)

    def _distribution_of(self, move: Move, known: Known, rows: int) -> SymbolDistribution:
        found = self.distribution(move, known, self.rows).first(rows)
        if isinstance(found, SymbolDistribution):
            return found
        found.check()
        cells = self.cells[move.level - 1]
        assert cells is not None, "normal numbers have cells"
        return cells.posterior(found) if move.kind == "infer" else cells.prior(found)

    # ------------------------------------------------------------------ accounts

    def by_example(self, symbols: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
        """What every entry of examples and of codes drawn from their posteriors costs, in bits."""
        draw, parts = np.random.default_rng(seed), []
        for first in range(0, len(symbols), self.rows):
            rows = symbols[first : first + self.rows]
            known, coded = {0: filled(rows, self.rows)}, {0: rows}
            costs: dict[str, list[np.ndarray]] = {name: [] for name in _NAMES}
            for move in self.moves:
                distribution = self._distribution_of(move, known, len(rows))
                if move.kind == "infer":
                    coded[move.level] = distribution.drawn(draw)
                    known[move.level] = filled(self._values(move.level, coded[move.level]), self.rows)
                cost = distribution.bits(coded[move.level]).reshape(len(rows), -1)
                costs[_name(move)].append(-cost if move.kind == "infer" else cost)
            parts.append({name: np.concatenate(found, axis=1) for name, found in costs.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in _NAMES}

    def _posteriors(self, symbols: np.ndarray) -> list[NormalEntries | None]:
        """Means and deviations of every level, each inferred from the centres of those before; none of symbols."""
        seen: list[list[NormalEntries]] = [[] for _ in self.sizes]
        for first in range(0, max(len(symbols), 1), self.rows):
            rows = symbols[first : first + self.rows]
            known = {0: filled(rows, self.rows)}
            for move in (one for one in self.moves if one.kind == "infer"):
                found = self.distribution(move, known, self.rows)
                if isinstance(found, SymbolDistribution):
                    known[move.level] = np.zeros((self.rows, self.sizes[move.level - 1]), np.int32)
                    continue
                found.check()
                known[move.level] = np.asarray(found.mean, np.float32)
                seen[move.level - 1].append(found.first(max(len(rows), 1)))
        return [
            NormalEntries(*map(np.concatenate, zip(*parts, strict=True))) if parts else None for parts in seen
        ]

    def steps(self, count: int) -> int:
        """Every move of every block."""
        return len(self.moves) * len(blocks(count, self.rows, self.pace))

    @property
    def probed(self) -> int:
        """Every move once."""
        return len(self.moves)

    def outputs(self) -> Iterator[np.ndarray]:
        """What every network makes of made-up examples and codes."""
        known: Known = {0: probe_symbols(self.schema, self.rows, self.schema.dimensions)}
        for level, (size, cells) in enumerate(zip(self.sizes, self.cells, strict=True), start=1):
            spread = np.linspace(-1, 1, self.rows * size, dtype=np.float32).reshape(self.rows, size)
            known[level] = np.zeros_like(spread, np.int32) if cells is None else spread
        for move in self.moves:
            found = self.distribution(move, known, self.rows)
            yield from vars(found).values() if isinstance(found, SymbolDistribution) else found


def _warn(level: int, cells: CodeCells | None, entries: NormalEntries | None) -> None:
    """Say so where cells are wider than posteriors, or do not reach them."""
    if cells is None or entries is None:
        return
    coarse, outside = cells.coarse(entries), cells.outside(entries)
    step = f"step={cells.step:g}" if isinstance(cells, CellGrid) else "cells of equal mass"
    if coarse > _COARSE:
        does = "is" if isinstance(cells, CellGrid) else "are"
        does_what = f"{does} wider than {coarse:.0%} of the posteriors of level {level}"
        _say(f"{step} {does_what}: they cost more bits than they should; use a smaller step")
    if outside:
        _say(
            f"{outside:.2%} of the means of level {level} lie outside of the cells that {step} has room for: they "
            "cost more bits than they should; use a larger step"
        )


def _say(what: str) -> None:
    warnings.warn(what, ChainruleWarning, stacklevel=4)


_NAMES = ("likelihood", "prior", "returned")


def _name(move: Move) -> str:
    """What bits of a move are for."""
    return "returned" if move.kind == "infer" else "prior" if move.level else "likelihood"


__all__ = ["Known", "LatentCode", "Move", "downward_moves", "markov_moves", "upward_moves"]
