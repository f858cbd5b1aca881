"""LZ78: a sequence cut into phrases, each one symbol longer than one seen before; how short that is, what it can make.

Phrases form a tree. Pointing to a known phrase and naming one more symbol is a code for any source, whose rate tends to
the entropy rate of a stationary one; walking through the tree with the frequencies that were met writes new sequences
in the style of the old one.

References: Ziv and Lempel, Compression of individual sequences via variable-rate coding, IEEE Transactions on
Information Theory, 1978; Dubnov, Assayag, Lartillot and Bejerano, Using machine-learning methods for musical style
modeling, Computer, 2003.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.information.units import scale


@final
@dataclass(frozen=True, eq=False)
class PhraseTree:
    """The phrases of a sequence. Node 0 is the empty phrase; every other node adds a symbol to its parent."""

    alphabet: tuple[Hashable, ...]
    """The different symbols, in the order in which they were first met."""
    length: int
    """Symbols of the sequence."""
    parents: np.ndarray
    """Parent of each node, -1 for the root."""
    symbols: np.ndarray
    """The symbol each node adds, as a number of the alphabet, -1 for the root."""
    counts: np.ndarray
    """Phrases that begin with each node's phrase; how often a walk through the sequence came by."""
    unfinished: int
    """The node at which the sequence ended in the middle of a phrase; 0 if it ended with one."""
    children: tuple[dict[int, int], ...]
    """For each node, its continuations: from a symbol to a node."""

    @property
    def phrases(self) -> int:
        """Phrases the sequence was cut into, a last unfinished one included."""
        return len(self.parents) - 1 + (self.unfinished > 0)

    @property
    def code_length(self) -> float:
        """Bits of the code: phrase j points to one of j earlier ones and names a symbol."""
        pointers = sum(math.log2(j) for j in range(1, self.phrases + 1))
        return pointers + self.phrases * math.log2(max(len(self.alphabet), 1))

    def rate(self, unit: str = "bits") -> float:
        """The estimate c log2(c) / n of the entropy rate from c phrases of n symbols.

        >>> round(phrase_tree("abababab" * 40).rate(), 3) < 1
        True
        """
        return self.phrases * math.log(self.phrases) / self.length * scale(unit, "rate")

    def decode(self) -> list[Hashable]:
        """The sequence again, from its phrases."""
        spelled: list[list[int]] = [[]]
        for parent, symbol in zip(self.parents[1:].tolist(), self.symbols[1:].tolist(), strict=True):
            spelled.append([*spelled[parent], symbol])
        numbers = [symbol for phrase in spelled for symbol in phrase] + spelled[self.unfinished]
        return [self.alphabet[number] for number in numbers]

    def generate(
        self, length: int, seed: int = 0, method: str = "suffix", alpha: float = 0.9, order: int = 12
    ) -> list[Hashable]:
        """New symbols in the style of the sequence.

        `method="walk"` walks from the root to a leaf, by counts, and begins again at the root. `method="suffix"`
        continues the longest of the last symbols (at most `order`) that begins a phrase: with probability `alpha` it
        copies what followed there, otherwise it jumps to a shorter suffix first, from which more continuations are
        possible.

        >>> "".join(phrase_tree("abcabcabcabcabc").generate(6, method="suffix", alpha=1.0)) in "abcabcabcabc"
        True
        """
        length = whole("generate", "length", length)
        check_choice("generate", "method", method, ("walk", "suffix"))
        if not 0 <= alpha <= 1:
            raise ArgumentError(f"generate(alpha={alpha}): is the probability to copy, between 0 and 1")
        order = whole("generate", "order", order, least=0)
        draws = np.random.default_rng(whole("generate", "seed", seed, least=0))
        steps = self._walk(length, draws) if method == "walk" else self._suffixes(length, draws, alpha, order)
        return [self.alphabet[number] for number in steps]

    def _walk(self, length: int, draws: np.random.Generator) -> list[int]:
        found: list[int] = []
        node = 0
        while len(found) < length:
            if not self.children[node]:
                node = 0
            symbol = self._next(node, draws)
            found.append(symbol)
            node = self.children[node][symbol]
        return found

    def _suffixes(self, length: int, draws: np.random.Generator, alpha: float, order: int) -> list[int]:
        found: list[int] = []
        while len(found) < length:
            node, depth = self._longest(found, order)
            if depth and draws.random() >= alpha:
                node, _ = self._longest(found, int(draws.integers(depth)))
            found.append(self._next(node, draws))
        return found

    def _longest(self, past: Sequence[int], order: int) -> tuple[int, int]:
        """The node of the longest suffix, at most `order` symbols, that can be continued; and its length."""
        for depth in range(min(order, len(past)), 0, -1):
            node = 0
            for symbol in past[len(past) - depth :]:
                node = self.children[node].get(symbol, -1)
                if node < 0:
                    break
            if node >= 0 and self.children[node]:
                return node, depth
        return 0, 0

    def _next(self, node: int, draws: np.random.Generator) -> int:
        symbols = list(self.children[node])
        weights = self.counts[list(self.children[node].values())]
        chosen = np.searchsorted(np.cumsum(weights), draws.random() * weights.sum(), side="right")
        return symbols[int(chosen)]

    def __str__(self) -> str:
        return (
            f"{self.length:,} symbols, {len(self.alphabet)} different ones, in {self.phrases:,} phrases: "
            f"{self.code_length / self.length:.4g} bits per symbol as a code"
        )


def phrase_tree(sequence: Any) -> PhraseTree:
    """The LZ78 phrases of a text or of any sequence of symbols.

    >>> print(phrase_tree("abracadabra"))
    11 symbols, 5 different ones, in 7 phrases: 2.596 bits per symbol as a code
    """
    items = list(sequence.tolist() if isinstance(sequence, np.ndarray) else sequence)
    if not items:
        raise ArgumentError("phrase_tree(sequence): is empty", remedy="give at least one symbol")
    if not all(isinstance(item, Hashable) for item in items):
        raise ArgumentError(
            "phrase_tree(sequence): symbols are compared as they are, and lists cannot be",
            remedy="give one symbol after another; several numbers as one symbol are a tuple",
        )
    numbers: dict[Hashable, int] = {}
    coded = [numbers.setdefault(item, len(numbers)) for item in items]
    parents, symbols, counts = [-1], [-1], [0]
    children: list[dict[int, int]] = [{}]
    node = 0
    for symbol in coded:
        child = children[node].get(symbol)
        if child is None:
            children[node][symbol] = len(parents)
            parents.append(node)
            symbols.append(symbol)
            counts.append(1)
            children.append({})
            node = 0
        else:
            counts[child] += 1
            node = child
    counts[0] = len(parents) - 1
    return PhraseTree(
        tuple(numbers),
        len(items),
        np.array(parents),
        np.array(symbols),
        np.array(counts),
        node,
        tuple(children),
    )


__all__ = ["PhraseTree", "phrase_tree"]
