"""Kernels on finite sets, such as words: a matrix of similarities, and what it says about bags of items.

Each item has a vector of length one that is never written down: the similarity of two items is between -1 and 1, that
of an item with itself 1. A sentence is the sum of its words, so two sentences with counts c and d have the similarity
`c' K d`, and divided by their lengths the cosine of the angle between them.

References: Church and Hanks, Word association norms, mutual information, and lexicography, 1990; Levy and Goldberg,
Neural word embedding as implicit matrix factorization, 2014 (positive pointwise mutual information).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import scipy.sparse

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Float, Int
from chainrule.kernels.functions import Precomputed
from chainrule.kernels.positive import not_positive, symmetric
from chainrule.kernels.reconstruction import Coordinates, embed
from chainrule.kernels.trick import normalise

Words = Sequence[str] | str
"""A sentence: its words, or a text whose words are what spaces divide."""


@final
@dataclass(frozen=True)
class FiniteKernel:
    """Similarities of named items, and of sentences made of them; built by `of_scores`, `of_vectors`, `of_counts`.

    >>> words = FiniteKernel.of_scores(["cat", "dog", "tax"], [[1, 0.8, -0.6], [0.8, 1, -0.2], [-0.6, -0.2, 1]])
    >>> round(words.similarity("cat dog", "dog tax tax"), 6), round(words.cosine("cat dog", "dog tax tax"), 6)
    (0.2, 0.051434)
    >>> words.counts("cat dig")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: FiniteKernel: 'dig' is none of the 3 items (did you mean 'dog'?)
    """

    items: tuple[str, ...]
    matrix: Float[np.ndarray, "items items"]

    @classmethod
    def of_scores(cls, items: Sequence[str], scores: Any, *, normalize: bool = False) -> "FiniteKernel":
        """Similarities as someone gave them; `normalize` divides by the roots of the diagonal."""
        matrix = symmetric("FiniteKernel", "scores", scores)
        if normalize:
            own = np.diagonal(matrix)
            if not (own > 0).all():
                first = int(np.argmax(~(own > 0)))
                raise ArgumentError(
                    f"FiniteKernel(scores): {_name(items, first)} has the similarity {own[first]:.6g} with itself, "
                    "which is not positive"
                )
            matrix = normalise(matrix)
        return cls._checked(items, matrix)

    @classmethod
    def of_vectors(cls, items: Sequence[str], table: Any) -> "FiniteKernel":
        """Cosines of the rows of a table, such as learnt embeddings."""
        rows = np.asarray(table, np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise ArgumentError(
                f"FiniteKernel(table): needs finite rows, one an item, not shape {rows.shape}"
            )
        lengths = np.linalg.norm(rows, axis=1)
        if (lengths == 0).any():
            zero = _name(items, int(np.argmax(lengths == 0)))
            raise ArgumentError(
                f"FiniteKernel(table): the vector of {zero} is zero, so it has no direction",
                remedy="leave the item out",
            )
        unit = rows / lengths[:, None]
        return cls.of_scores(items, unit @ unit.T, normalize=True)

    @classmethod
    def of_counts(cls, items: Sequence[str], counts: Any) -> "FiniteKernel":
        """Cosines of positive pointwise mutual information, from how often two items occur together."""
        return cls.of_vectors(items, positive_mutual_information(counts))

    @classmethod
    def _checked(cls, items: Sequence[str], matrix: np.ndarray) -> "FiniteKernel":
        names = tuple(items)
        if len(names) != len(matrix):
            raise ArgumentError(f"FiniteKernel: {len(names)} items for a matrix of shape {matrix.shape}")
        if len(set(names)) != len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise ArgumentError(f"FiniteKernel(items): {twice!r} is there twice", remedy="leave one out")
        off = np.abs(np.diagonal(matrix) - 1)
        if (off > 1e-6).any():
            first = int(np.argmax(off > 1e-6))
            raise ArgumentError(
                f"FiniteKernel(scores): the similarity of {names[first]!r} with itself is {matrix[first, first]:.6g}, "
                "not 1",
                remedy="pass normalize=True to divide by the roots of the diagonal",
            )
        large = np.argwhere(np.abs(matrix) > 1 + 1e-6)
        if len(large):
            i, j = large[0]
            raise ArgumentError(
                f"FiniteKernel(scores): the similarity of {names[i]!r} and {names[j]!r} is {matrix[i, j]:.6g}; vectors "
                "of length one have similarities from -1 to 1"
            )
        if len(matrix) and np.linalg.eigvalsh(matrix)[0] < -1e-8 * len(matrix):
            raise not_positive(matrix, "scores")
        return cls(names, matrix)

    def counts(self, sentence: Words) -> Int[np.ndarray, " items"]:
        """How often each item occurs; an unknown one is named."""
        numbers = {name: i for i, name in enumerate(self.items)}
        found = np.zeros(len(self.items), np.int64)
        for word in sentence.split() if isinstance(sentence, str) else sentence:
            if word not in numbers:
                raise ArgumentError(
                    f"FiniteKernel: {word!r} is none of the {len(self.items)} items{suggest(word, self.items)}"
                )
            found[numbers[word]] += 1
        return found

    def gram(
        self, sentences: Sequence[Words], others: Sequence[Words] | None = None, *, cosine: bool = False
    ) -> Float[np.ndarray, "rows columns"]:
        """Similarities of sentences, or their cosines; every sentence a count vector."""
        rows = self._table(sentences)
        columns = rows if others is None else self._table(others)
        found: np.ndarray = np.asarray(rows @ (columns @ self.matrix).T)
        if not cosine:
            return found
        lengths = self._lengths(rows)[:, None] * self._lengths(columns)[None, :]
        if (lengths == 0).any():
            raise ArgumentError(
                "FiniteKernel: a sentence has the length zero, because it is empty or its words cancel, so it has no "
                "angle to others",
                remedy="leave it out, or use similarity in place of cosine",
            )
        return found / lengths

    def similarity(self, first: Words, second: Words) -> float:
        """`c' K d` of two sentences."""
        return float(self.gram([first], [second])[0, 0])

    def cosine(self, first: Words, second: Words) -> float:
        """The similarity divided by the lengths of the two sentences."""
        return float(self.gram([first], [second], cosine=True)[0, 0])

    def coordinates(self, method: Literal["eigh", "cholesky", "pivoted"] = "pivoted") -> Coordinates:
        """Vectors of length one with these similarities, one item a row: the columns of L with `K = L' L`."""
        return embed(self.matrix, method=method)

    def kernel(self) -> Precomputed:
        """The items as a kernel for machines: a point is the number of an item."""
        return Precomputed(self.matrix)

    def _lengths(self, table: Any) -> np.ndarray:
        return np.sqrt(np.maximum((np.asarray(table @ self.matrix) * table.toarray()).sum(axis=1), 0.0))

    def _table(self, sentences: Sequence[Words]) -> Any:
        if isinstance(sentences, str):
            raise ArgumentError(
                "FiniteKernel(sentences): give a list of sentences", remedy="wrap it: [sentence]"
            )
        return scipy.sparse.csr_array(np.stack([self.counts(one) for one in sentences]).astype(np.float64))


def cooccurrences(
    sentences: Sequence[Words], window: int = 5
) -> tuple[list[str], Int[np.ndarray, "words words"]]:
    """The words of some sentences in order of the alphabet, and how often two stand at most `window` words apart.

    >>> cooccurrences(["a b", "b a c"], window=1)
    (['a', 'b', 'c'], array([[0, 2, 1],
           [2, 0, 0],
           [1, 0, 0]]))
    """
    reach = whole("cooccurrences", "window", window)
    split = [one.split() if isinstance(one, str) else list(one) for one in sentences]
    words = sorted({word for one in split for word in one})
    number = {word: i for i, word in enumerate(words)}
    counts = np.zeros((len(words), len(words)), np.int64)
    for one in split:
        ids = np.array([number[word] for word in one], np.int64)
        for apart in range(1, min(reach, len(ids) - 1) + 1):
            np.add.at(counts, (ids[:-apart], ids[apart:]), 1)
    return words, counts + counts.T


def positive_mutual_information(counts: Any) -> Float[np.ndarray, "rows columns"]:
    """`max(0, log p(a, b) / (p(a) p(b)))` of counts of pairs, in nats; zero where a pair never occurs.

    >>> positive_mutual_information([[0, 2], [2, 0]]).round(4).tolist()
    [[0.0, 0.6931], [0.6931, 0.0]]
    """
    exact = np.asarray(counts, np.float64)
    if exact.ndim != 2 or not (np.isfinite(exact).all() and (exact >= 0).all()):
        raise ArgumentError(
            f"counts: needs a matrix of numbers of at least 0, not shape {exact.shape} with others"
        )
    total = exact.sum()
    if not total > 0:
        raise ArgumentError("counts: nothing was counted", remedy="give more sentences or a wider window")
    expected = exact.sum(axis=1)[:, None] * exact.sum(axis=0)[None, :] / total
    known = exact > 0
    return np.where(
        known, np.maximum(0.0, np.log(np.where(known, exact, 1) / np.where(known, expected, 1))), 0.0
    )


def _name(items: Sequence[str], number: int) -> str:
    return repr(items[number]) if number < len(items) else f"item {number}"


__all__ = ["FiniteKernel", "cooccurrences", "positive_mutual_information"]
