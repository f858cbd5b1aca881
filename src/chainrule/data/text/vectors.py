"""Vectors of words from elsewhere: files of GloVe and word2vec in their text form.

A line is a word and its numbers, with spaces between; word2vec begins with a line that counts words and numbers. The
vectors can be asked by themselves (what lies near, what is to one word as another to a third), and they can start the
table of a model whose tokens are words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Integer

from chainrule.core.errors import ArgumentError, DataError, suggest
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.text.tokenizers import Tokenizer


@final
@dataclass(frozen=True)
class Vectors:
    """A vector for each word.

    >>> vectors = Vectors(("king", "man", "woman", "queen"), np.array([[1, 1], [1, 0], [0, 1], [0.1, 2]]))
    >>> vectors.analogy("man", "king", "woman", count=1)[0][0]
    'queen'
    """

    words: tuple[str, ...]
    rows: Float[np.ndarray, "words features"]

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return int(self.rows.shape[1])

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of every word; the first where a file has it twice."""
        return {word: row for row, word in reversed(list(enumerate(self.words)))}

    @cached_property
    def _unit(self) -> Float[np.ndarray, "words features"]:
        return self.rows / np.maximum(np.linalg.norm(self.rows, axis=1, keepdims=True), 1e-12)

    def nearest(self, word: str, count: int = 5) -> list[tuple[str, float]]:
        """The words whose vectors point most nearly the same way, with the cosines of the angles."""
        return self._towards(self._unit[self._row(word)], {self._row(word)}, count)

    def analogy(self, first: str, second: str, third: str, count: int = 5) -> list[tuple[str, float]]:
        """What is to the third word as the second to the first: words along `second - first + third`, by cosine.

        The three words themselves are left out (Mikolov et al., 2013).
        """
        a, b, c = (self._row(word) for word in (first, second, third))
        return self._towards(self._unit[b] - self._unit[a] + self._unit[c], {a, b, c}, count)

    def table(
        self, tokenizer: Tokenizer
    ) -> tuple[Float[np.ndarray, "tokens features"], Bool[np.ndarray, " tokens"]]:
        """A row for each token of a vocabulary, zeros where the word is not known, and which are known.

        A token stands for its text without the space in front; a word that is not there as it is written is looked
        up in small letters.
        """
        texts = [tokenizer.decode([i]).strip() for i in range(len(tokenizer))]
        found = np.array([self.row_of.get(text, self.row_of.get(text.lower(), -1)) for text in texts])
        known = found >= 0
        return np.where(known[:, None], self.rows[found], 0.0), known

    def write(self, path: str | Path) -> Path:
        """A text file in the form of word2vec; words that a line cannot hold (nothing, new lines) are left out."""
        kept = [i for i, word in enumerate(self.words) if word.strip() and "\n" not in word]
        lines = [f"{self.words[i]} {' '.join(f'{value:.9g}' for value in self.rows[i])}" for i in kept]
        file = Path(path).expanduser()
        file.write_text("\n".join([f"{len(kept)} {self.width}", *lines]) + "\n", encoding="utf-8")
        return file

    def _row(self, word: str) -> int:
        row = self.row_of.get(word)
        if row is None:
            raise ArgumentError(
                f"{word!r} has no vector{suggest(word, self.words[:20_000])}", remedy="use one of its words"
            )
        return row

    def _towards(
        self, direction: Float[np.ndarray, " features"], without: set[int], count: int
    ) -> list[tuple[str, float]]:
        cosine = self._unit @ (direction / max(float(np.linalg.norm(direction)), 1e-12))
        order = [
            int(i) for i in np.argsort(-cosine, kind="stable")[: count + len(without)] if i not in without
        ]
        return [(self.words[i], float(cosine[i])) for i in order[:count]]


def read(path: str | Path) -> Vectors:
    """The vectors of a text file of GloVe or word2vec; lines that do not fit are an error that names the first."""
    file = Path(path).expanduser()
    try:
        data = bounded.read(file, file.name, MAX_BYTES.default, MAX_RATIO.default)
        lines = [line.rstrip("\r ") for line in data.decode("utf-8").split("\n")]
    except Refused as refused:
        raise DataError(f"{file}: {refused.problem.detail}", remedy=refused.problem.remedy) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{file.name}: not UTF-8 at byte {error.start}") from None
    counted = _counts(lines[0])
    first = 0 if counted is None else 1
    width = len(lines[0].split(" ")) - 1 if counted is None else counted[1]
    words: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line:
            continue
        word, *numbers = line.rsplit(" ", width)
        try:
            values = [float(value) for value in numbers]
        except ValueError:
            values = []
        if width < 1 or len(values) != width or not np.isfinite(values).all():
            raise DataError(
                f"{file.name} line {number}: not a word and {width} numbers with spaces between",
                remedy="give a text file of GloVe or word2vec (their binary files can be converted)",
            )
        words.append(word)
        rows.append(values)
    if not words or (counted is not None and counted[0] != len(words)):
        said = "" if counted is None else f" of {counted[0]:,} that its first line counts"
        raise DataError(f"{file.name} holds {len(words):,} vectors{said}", remedy="fetch the file again")
    return Vectors(tuple(words), np.array(rows, np.float32))


def coverage(
    known: Bool[np.ndarray, " vocabulary"], text: Integer[np.ndarray, " tokens"]
) -> tuple[float, float]:
    """The share of a vocabulary that has vectors, and the share of a text that this makes up.

    >>> coverage(np.array([True, False]), np.array([0, 0, 0, 1]))
    (0.5, 0.75)
    """
    counts = np.bincount(text, minlength=len(known))
    return float(known.mean()), float(counts[known].sum() / max(counts.sum(), 1))


def _counts(line: str) -> Sequence[int] | None:
    """The two numbers of the first line of a word2vec file."""
    fields = line.split(" ")
    whole = len(fields) == 2 and all(field.isascii() and field.isdigit() for field in fields)
    return [int(field) for field in fields] if whole else None


__all__ = ["Vectors", "coverage", "read"]
