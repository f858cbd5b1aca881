"""Columns of words: one feature for each word, 1 where the cell holds it and 0 elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Bool, Float

from chainrule.data.column import CellFault, ColumnReading

MOST_WORDS = 64
"""A feature with more different words than this is refused."""

_SHOWN = 4


@final
@dataclass(frozen=True)
class WordsReading(ColumnReading):
    """One of a list of words."""

    read_as: ClassVar[str] = "words"
    words: tuple[str, ...]

    @classmethod
    def of(cls, cells: Iterable[str]) -> "WordsReading":
        """The words of some cells, in alphabetical order."""
        return cls(tuple(sorted(set(cells))))

    def features(self, name: str) -> tuple[str, ...]:
        """A mark for each word."""
        return tuple(f"{name}={word}" for word in self.words)

    @property
    def scaled(self) -> tuple[bool, ...]:
        """Marks stay 0 and 1."""
        return (False,) * len(self.words)

    def codes(self, cells: Sequence[str]) -> Float[np.ndarray, " rows"]:
        """The position of the word in the list."""
        at = {word: float(position) for position, word in enumerate(self.words)}
        return np.array([at.get(cell, np.nan) for cell in cells], np.float64)

    def restored(self, x: Float[np.ndarray, "rows features"]) -> Sequence[str | float]:
        """The word with the largest mark."""
        return [self.words[position] for position in x.argmax(axis=1)]

    def impossible(self, x: Float[np.ndarray, "rows features"]) -> Bool[np.ndarray, " rows"]:
        """Those with other numbers than 0 and 1, or with more than one mark."""
        return np.asarray(((x != 0) & (x != 1)).any(axis=1) | (x.sum(axis=1) > 1))

    def expand(self, codes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows features"]:
        """1 at the position of the word."""
        marks = (codes[:, None] == np.arange(len(self.words))).astype(np.float64)
        marks[~np.isfinite(codes)] = np.nan
        return marks

    def fault(self, cell: str, name: str) -> CellFault:
        """A word that is not in the list."""
        known = ", ".join(self.words[:_SHOWN]) + (", ..." if len(self.words) > _SHOWN else "")
        return CellFault(
            "unknown word", f"{cell[:40]!r} in column {name!r} was never seen in training (seen: {known})"
        )

    def describe(self) -> str:
        """How many words."""
        return f"{len(self.words):,} words" if len(self.words) != 1 else "1 word"

    def shown(self, codes: Float[np.ndarray, " rows"]) -> str:
        """The first words."""
        used = [self.words[int(code)] for code in np.unique(codes)[: _SHOWN + 1]]
        return ", ".join(used[:_SHOWN]) + (", ..." if len(used) > _SHOWN else "")

    def to_json(self) -> dict[str, Any]:
        """The list of words."""
        return {"words": list(self.words)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "WordsReading":
        """The reading written by `to_json`."""
        return cls(tuple(str(word) for word in values["words"]))


reading = WordsReading

__all__ = ["MOST_WORDS", "WordsReading", "reading"]
