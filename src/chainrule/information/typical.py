"""Typical sets: the sequences whose probability is about 2^(-n H), which are few and yet nearly all that occurs.

Sequences with the same numbers of symbols (a type class) have the same probability, so that sizes and probabilities of
a typical set are sums over types: exact, without looking at a single sequence. Members are numbered, by type and within
a type in alphabetical order, so that a number is a code for a sequence, and a uniform number a draw from the set.

Reference: Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapters 3 and 11; Cover, Enumerative
source encoding, IEEE Transactions on Information Theory, 1973.
"""

import bisect
import itertools
import math
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np
from scipy.special import gammaln

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.information.entropies import total
from chainrule.information.tables import table

_MOST_TYPES = 500_000
_ROUNDING = 1e-12
"""Types at the very edge belong to the set, whatever the last digit of a logarithm says."""


@final
@dataclass(frozen=True, eq=False)
class TypicalSet:
    """All sequences of n independent symbols with |-(1/n) log2 p(x) - H| <= eps; bits throughout."""

    p: np.ndarray
    n: int
    eps: float
    entropy: float
    """H of one symbol, in bits."""
    probability: float
    """That a sequence of n symbols is in the set."""
    size: int
    """Number of its sequences, exactly."""
    types: np.ndarray = field(repr=False)
    """Numbers of each symbol, a row for each type class of the set, in the order of the numbers of its members."""
    ends: tuple[int, ...] = field(repr=False)
    """Number of sequences up to and including each type class."""

    @property
    def log2_size(self) -> float:
        """Bits that the number of a member takes."""
        return math.log2(self.size) if self.size else -math.inf

    @property
    def bound(self) -> float:
        """log2 of the largest size such a set can have, n (H + eps)."""
        return self.n * (self.entropy + self.eps)

    @property
    def lower_bound(self) -> float:
        """log2 of the size that a set of this probability has at least, log2(probability) + n (H - eps)."""
        return (math.log2(self.probability) if self.probability else -math.inf) + self.n * (
            self.entropy - self.eps
        )

    def __contains__(self, sequence: Any) -> bool:
        return self._type_of(self._symbols("in", sequence)) is not None

    def rank(self, sequence: Any) -> int:
        """The number of a member, from 0; a sequence that is not typical has none.

        >>> coin = typical_set([0.9, 0.1], 10, 0.2)
        >>> coin.rank([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), coin.unrank(9)
        (0, array([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
        """
        symbols = self._symbols("rank", sequence)
        row = self._type_of(symbols)
        if row is None:
            raise ArgumentError(
                f"rank(sequence): is not typical: -(1/n) log2 p(x) is {self.rate(symbols):.4g} bits, more than "
                f"{self.eps:g} away from {self.entropy:.4g}",
                remedy="code such a sequence as it is, with a bit that says so",
            )
        left = [int(count) for count in self.types[row]]
        ways = _arrangements(left)
        number = self.ends[row - 1] if row else 0
        for length, symbol in zip(range(self.n, 0, -1), symbols.tolist(), strict=True):
            number += ways * sum(left[:symbol]) // length
            ways = ways * left[symbol] // length
            left[symbol] -= 1
        return number

    def unrank(self, number: int) -> np.ndarray:
        """The member with this number.

        >>> [typical_set([0.5, 0.5], 2, 0.1).unrank(k).tolist() for k in range(4)]
        [[1, 1], [0, 1], [1, 0], [0, 0]]
        """
        number = whole("unrank", "number", number, least=0)
        if number >= self.size:
            raise ArgumentError(f"unrank(number={number}): the {self.size} members are numbered from 0")
        row = bisect.bisect_right(self.ends, number)
        left = [int(count) for count in self.types[row]]
        ways = _arrangements(left)
        number -= self.ends[row - 1] if row else 0
        found = np.empty(self.n, int)
        for position in range(self.n):
            length = self.n - position
            symbol, these = 0, ways * left[0] // length
            while number >= these:
                number -= these
                symbol += 1
                these = ways * left[symbol] // length
            found[position], ways = symbol, these
            left[symbol] -= 1
        return found

    def sample(self, key: Key, count: int = 1) -> np.ndarray:
        """Members drawn with equal probabilities, through their numbers: shape (count, n)."""
        if not self.size:
            raise ArgumentError("sample: the set is empty", remedy="a larger eps or n has members")
        keys = jax.random.split(key, whole("sample", "count", count))
        return np.stack([self.unrank(_below(self.size, one)) for one in keys])

    def rate(self, sequence: Any) -> float:
        """-(1/n) log2 p(x) of a sequence, which tends to the entropy."""
        chances = self.p[self._symbols("rate", sequence)]
        return float(-np.log2(chances).mean()) if (chances > 0).all() else math.inf

    def __str__(self) -> str:
        return (
            f"{self.n} symbols of {self.entropy:.6g} bits: probability {self.probability:.6g}, "
            f"2^{self.log2_size:.6g} sequences ({self.log2_size / self.n:.6g} bits per symbol)"
        )

    def _symbols(self, where: str, sequence: Any) -> np.ndarray:
        symbols = np.asarray(sequence)
        if symbols.shape != (self.n,) or not np.issubdtype(symbols.dtype, np.integer):
            raise ArgumentError(
                f"{where}(sequence): needs {self.n} whole numbers, not {symbols.dtype} of shape {symbols.shape}"
            )
        if symbols.min() < 0 or symbols.max() >= len(self.p):
            raise ArgumentError(f"{where}(sequence): symbols are numbered 0 to {len(self.p) - 1}")
        return symbols

    def _type_of(self, symbols: np.ndarray) -> int | None:
        found = np.flatnonzero((self.types == np.bincount(symbols, minlength=len(self.p))).all(axis=1))
        return int(found[0]) if len(found) else None


def typical_set(p: Any, n: int, eps: float) -> TypicalSet:
    """The typical set of n independent symbols with probabilities p, by type classes.

    >>> print(typical_set([0.9, 0.1], 100, 0.1))
    100 symbols of 0.468996 bits: probability 0.758968, 2^52.8859 sequences (0.528859 bits per symbol)
    """
    chances = table("typical_set", "p", p, 1)
    n = whole("typical_set", "n", n)
    if not 0 < eps < math.inf:
        raise ArgumentError(
            f"typical_set(eps={eps}): eps is a positive number of bits", remedy="0.1 is usual"
        )
    types = type_classes("typical_set", chances, n)
    rate, log_weight = type_rates(chances, types)
    entropy = total(chances) / math.log(2)
    kept = np.abs(rate - entropy) <= eps + _ROUNDING
    ends = tuple(itertools.accumulate(_arrangements([int(c) for c in row]) for row in types[kept]))
    probability = min(float(np.exp(log_weight[kept]).sum()), 1.0)
    return TypicalSet(
        chances, n, float(eps), entropy, probability, ends[-1] if ends else 0, types[kept], ends
    )


def type_classes(where: str, p: np.ndarray, n: int) -> np.ndarray:
    """Every way to have n symbols, as numbers of each; symbols of no probability never occur."""
    likely = np.flatnonzero(p > 0)
    count = math.comb(n + len(likely) - 1, len(likely) - 1)
    if count > _MOST_TYPES:
        raise ArgumentError(
            f"{where}(n={n}): {len(likely)} symbols make {count:,} type classes, more than {_MOST_TYPES:,}",
            remedy="take a shorter n, or join symbols of the same probability",
        )
    # Bars between stars: the differences of bars chosen among n + k - 1 positions are the counts.
    bars = np.array(list(itertools.combinations(range(n + len(likely) - 1), len(likely) - 1)), int)
    bars = bars.reshape(count, len(likely) - 1)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, n + len(likely) - 1)))
    types = np.zeros((count, len(p)), int)
    types[:, likely] = np.diff(edges, axis=1) - 1
    return types


def type_rates(p: np.ndarray, types: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each type class, -(1/n) log2 p(x) of its sequences in bits, and the logarithm of its probability in nats."""
    logs = np.log(np.where(p > 0, p, 1.0))
    n = int(types[0].sum())
    log_each = types @ logs
    return -log_each / (n * math.log(2)), gammaln(n + 1) - gammaln(types + 1).sum(axis=1) + log_each


def _arrangements(counts: list[int]) -> int:
    """Sequences with these numbers of symbols."""
    found, length = 1, 0
    for count in counts:
        length += count
        found *= math.comb(length, count)
    return found


def _below(size: int, key: Key) -> int:
    """A uniform number below `size`, of any length: draws of enough bits until one is below."""
    bits = max((size - 1).bit_length(), 1)
    words = -(-bits // 32)
    while True:
        key, drawn = jax.random.split(key)
        number = int.from_bytes(np.asarray(jax.random.bits(drawn, (words,), "uint32")).tobytes(), "little")
        number >>= 32 * words - bits
        if number < size:
            return number


__all__ = ["TypicalSet", "type_classes", "type_rates", "typical_set"]
