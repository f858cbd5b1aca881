"""Spectrum kernels: two sequences are alike if they share many k-mers, their stretches of k letters.

References: Leslie, Eskin and Noble, The spectrum kernel: a string kernel for SVM protein classification, 2002; Leslie
et al., Mismatch string kernels for discriminative protein classification, 2004; Rätsch and Sonnenburg, Accurate splice
site detection for Caenorhabditis elegans, 2004 (weighted degree).
"""

import abc
import itertools
import math
from typing import Any, NamedTuple, final

import equinox as eqx
import numpy as np
import scipy.sparse

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Float
from chainrule.kernels.sequences.counting import CountTable, counted, multiplied, side_by_side
from chainrule.kernels.sequences.encoding import EncodedSequences, encoded
from chainrule.kernels.sequences.kernel import SequenceKernel, Texts

_NEIGHBOURS = 2**25
"""Pairs of a k-mer and a neighbour that are held at most."""


class Driver(NamedTuple):
    """What a k-mer adds to the similarity of two sequences."""

    kmer: str
    first: float
    """Its feature in the first sequence."""
    second: float
    share: float
    """The part of the inner product that it is."""


class CountingKernel(SequenceKernel):
    """A kernel whose features are counts that can be named, held as sparse tables."""

    k: eqx.AbstractVar[int]
    alphabet: eqx.AbstractVar[str | None]

    @abc.abstractmethod
    def table(self, sequences: EncodedSequences) -> CountTable:
        """Features of sequences."""

    def features(self, x: Texts) -> Any:
        """The sparse table of features of sequences, one a row; columns belong to what occurs in these."""
        return self.table(self._encoded(x)).values

    def products(self, x: Texts, y: Texts | None) -> Float[np.ndarray, "rows columns"]:
        if y is None:
            values = self.features(x)
            return multiplied(values, values)
        values = self.table(self._both(x, y)).values  # one numbering of k-mers for both
        return multiplied(values[: len(x)], values[len(x) :])

    def squares(self, x: Texts) -> Float[np.ndarray, " rows"]:
        values = self.features(x)
        return np.asarray(values.multiply(values).sum(axis=1), np.float64).ravel()

    def drivers(self, a: str, b: str, count: int = 10) -> list[Driver]:
        """The k-mers that two sequences are alike by, those with the largest part first, at equal parts by alphabet.

        With mismatches these are k-mers of the alphabet that both come near to.

        >>> [driver.kmer for driver in Spectrum(3).drivers("GATTACA", "TACATTAC", 3)]
        ['TAC', 'ACA', 'ATT']
        """
        both = self._both([a], [b])
        table = self.table(both)
        first, second = table.values.toarray()
        parts = first * second
        total = parts.sum()
        order = np.argsort(-parts, kind="stable")[: whole("drivers", "count", count)]
        return [
            Driver(table.kmer(int(i)), float(first[i]), float(second[i]), float(parts[i] / total))
            for i in order
            if parts[i] > 0
        ]

    def _both(self, x: Texts, y: Texts) -> EncodedSequences:
        self._encoded(y)  # an error names the number of a sequence in its own list
        return self._encoded([*x, *y])

    def _encoded(self, x: Texts) -> EncodedSequences:
        return encoded(type(self).__name__, x, self.k, self.alphabet)


@final
class Spectrum(CountingKernel):
    """The inner product of counts of k-mers, of all lengths up to k if `blended`, or up to `mismatch` wrong letters.

    With mismatches a k-mer counts for every k-mer of the alphabet that differs from it in at most so many letters.

    >>> [Spectrum(k)("GATTACA", "TACATTAC") for k in (1, 2, 3)]
    [17.0, 7.0, 5.0]
    >>> round(Spectrum(3, normalized=True)("GATTACA", "TACATTAC"), 6)
    0.790569
    """

    k: int = eqx.field(static=True)
    blended: bool = eqx.field(static=True)
    mismatch: int = eqx.field(static=True)
    normalized: bool = eqx.field(static=True)
    alphabet: str | None = eqx.field(static=True)

    def __init__(
        self,
        k: int = 3,
        *,
        blended: bool = False,
        mismatch: int = 0,
        normalized: bool = False,
        alphabet: str | None = None,
    ) -> None:
        self.k = whole("Spectrum", "k", k)
        self.mismatch = whole("Spectrum", "mismatch", mismatch, 0)
        self.blended, self.normalized, self.alphabet = blended, normalized, alphabet
        if not self.mismatch:
            return
        if self.mismatch >= k:
            raise ArgumentError(
                f"Spectrum(k={k}, mismatch={mismatch}): all letters may be wrong, so all k-mers are alike",
                remedy=f"use mismatch={k - 1} or less",
            )
        if blended:
            raise ArgumentError(
                "Spectrum: mismatch and blended do not go together",
                remedy="add the Gram matrices of one of each",
            )
        if alphabet is None:
            raise ArgumentError(
                f"Spectrum(mismatch={mismatch}): how many k-mers are near depends on the alphabet",
                remedy='name it, for example alphabet="ACGT", kernels.sequences.PROTEIN for proteins',
            )
        if len(alphabet) ** self.k >= 2**62:
            raise ArgumentError(
                f"Spectrum(k={k}, mismatch={mismatch}): {len(alphabet)} letters have too many k-mers of this length",
                remedy=f"use k={int(62 / math.log2(len(alphabet)))} or less",
            )

    def table(self, sequences: EncodedSequences) -> CountTable:
        if self.mismatch:
            return _near(sequences, self.k, self.mismatch)
        if self.blended:
            return side_by_side([counted(sequences, length) for length in range(1, self.k + 1)])
        return counted(sequences, self.k)


def _near(sequences: EncodedSequences, k: int, mismatch: int) -> CountTable:
    """Counts of k-mers of the alphabet that occur with at most so many wrong letters."""
    exact = counted(sequences, k)
    size = len(sequences.alphabet)
    each = sum(math.comb(k, wrong) * (size - 1) ** wrong for wrong in range(mismatch + 1))
    if each * exact.values.shape[1] > _NEIGHBOURS:
        raise ArgumentError(
            f"Spectrum(k={k}, mismatch={mismatch}): {exact.values.shape[1]:,} k-mers with {each:,} neighbours each are "
            f"more than {_NEIGHBOURS:,} pairs",
            remedy="use a smaller k, fewer mismatches or fewer sequences",
        )
    digits = sequences.letters[exact.first[:, None] + np.arange(k)[None, :]]
    powers = size ** np.arange(k - 1, -1, -1)
    numbers = digits @ powers
    found = []
    for wrong in range(mismatch + 1):
        moves = np.array(list(itertools.product(range(1, size), repeat=wrong)), np.int64)
        moves = moves.reshape((size - 1) ** wrong, wrong)
        for at in map(list, itertools.combinations(range(k), wrong)):
            old = digits[:, None, at]
            changed = ((old + moves[None]) % size - old) @ powers[at]
            found.append(numbers[:, None] + changed)
    neighbours = np.concatenate(found, axis=1)
    known, columns = np.unique(neighbours, return_inverse=True)
    near = scipy.sparse.csr_array(
        (np.ones(columns.size), columns.ravel(), np.arange(len(numbers) + 1) * each),
        shape=(len(numbers), len(known)),
    )

    def kmer(column: int) -> str:
        return "".join(sequences.alphabet[int(known[column] // power % size)] for power in powers)

    return CountTable(exact.values @ near, kmer, np.full(len(known), -1, np.int64))


@final
class WeightedDegree(CountingKernel):
    """Agreement letter by letter: stretches of up to k letters that two sequences have at the same position.

    A stretch of d letters counts `2 (k - d + 1) / (k (k + 1))`. Made for sequences that are aligned, such as windows
    around a site; of two lengths, the positions that both have are compared.

    >>> WeightedDegree(2)("GATTACA", "GATCACA")  # six letters and four pairs agree: 6 · 2/3 + 4 · 1/3
    5.33...
    """

    k: int = eqx.field(static=True)
    normalized: bool = eqx.field(static=True)
    alphabet: str | None = eqx.field(static=True)

    def __init__(self, k: int = 3, *, normalized: bool = False, alphabet: str | None = None) -> None:
        self.k = whole("WeightedDegree", "k", k)
        self.normalized, self.alphabet = normalized, alphabet

    def table(self, sequences: EncodedSequences) -> CountTable:
        tables = []
        for length in range(1, self.k + 1):
            one = counted(sequences, length, at=True)
            weight = 2 * (self.k - length + 1) / (self.k * (self.k + 1))
            tables.append(one._replace(values=one.values * math.sqrt(weight)))
        return side_by_side(tables)


__all__ = ["CountingKernel", "Driver", "Spectrum", "WeightedDegree"]
