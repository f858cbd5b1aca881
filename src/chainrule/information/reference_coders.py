"""Entropy coders that can be read in one sitting: asymmetric numeral systems and Huffman's tree, in whole numbers.

They are slow and exact; compressed files are written by the fast ones of `entropy_coders`. Asymmetric numeral systems
(Duda, 2009) keep all that was coded in one number `state`. A symbol with `share` of `2^precision` parts, of which the
first is number `start`, takes the state to

    state' = (state // share) * 2^precision + start + state % share

which is larger by the factor `2^precision / share`: the symbol costs `-log2` of its probability. The step backwards
finds the symbol in the low bits of the state. Words leave the state at its low end when it gets long, and come back in
reverse.
"""

import heapq
from collections.abc import Sequence
from typing import final

import numpy as np

from chainrule.core.errors import ArgumentError

PRECISION = 24
_WORD = 32


@final
class NumeralStack:
    """Symbols on a stack: the last that went on comes off first."""

    def __init__(self, words: Sequence[int] = ()) -> None:
        """`words` are those of another stack, as `words` gave them."""
        self._words = [int(word) for word in words]
        self._state = 0
        while self._words and self._state < 1 << _WORD:
            self._state = self._state << _WORD | self._words.pop()

    def push(self, start: int, share: int) -> None:
        """Put on the symbol whose parts begin at `start` and are `share` many."""
        if self._state >= share << (2 * _WORD - PRECISION):
            self._words.append(self._state & ((1 << _WORD) - 1))
            self._state >>= _WORD
        self._state = (self._state // share << PRECISION) + start + self._state % share

    def pop(self, ends: np.ndarray) -> int:
        """Take off a symbol of a distribution whose cumulative parts are `ends`, which begin with 0."""
        part = self._state & ((1 << PRECISION) - 1)
        symbol = int(np.searchsorted(ends, part, side="right")) - 1
        start, share = int(ends[symbol]), int(ends[symbol + 1] - ends[symbol])
        self._state = (self._state >> PRECISION) * share + part - start
        if self._state < 1 << _WORD and self._words:
            self._state = self._state << _WORD | self._words.pop()
        return symbol

    def words(self) -> list[int]:
        """All that is on the stack, as 32-bit words."""
        rest, tail = self._state, []
        while rest:
            tail.append(rest & ((1 << _WORD) - 1))
            rest >>= _WORD
        return [*self._words, *tail]


def cumulative_parts(probabilities: np.ndarray) -> np.ndarray:
    """Where the parts of every symbol end, of `2^24` in all; none goes away empty.

    >>> cumulative_parts(np.array([0.5, 0.5, 0.0])).tolist()
    [0, 8388607, 16777215, 16777216]
    """
    free = (1 << PRECISION) - len(probabilities)
    ends = np.floor(np.cumsum(probabilities / probabilities.sum()) * free).astype(np.int64)
    ends[-1] = free
    return np.concatenate([[0], ends + np.arange(1, len(probabilities) + 1)])


def huffman_codewords(probabilities: np.ndarray) -> list[str]:
    """A shortest prefix code: a string of zeros and ones for every symbol (Huffman, 1952).

    >>> huffman_codewords(np.array([0.5, 0.25, 0.25]))
    ['0', '10', '11']
    """
    if len(probabilities) < 2:
        raise ArgumentError("huffman: one symbol alone needs no code", remedy="give at least two")
    words = [""] * len(probabilities)
    heap: list[tuple[float, int, list[int]]] = [(float(p), i, [i]) for i, p in enumerate(probabilities)]
    heapq.heapify(heap)
    for number in range(len(words), 2 * len(words) - 1):
        p, _, low = heapq.heappop(heap)
        q, _, high = heapq.heappop(heap)
        # The later of two stands for a one, so that equal probabilities give codewords in the order of their symbols.
        zeros, ones = sorted((low, high), key=min)
        for bit, symbols in (("0", zeros), ("1", ones)):
            for symbol in symbols:
                words[symbol] = bit + words[symbol]
        heapq.heappush(heap, (p + q, number, low + high))
    return words


__all__ = ["PRECISION", "NumeralStack", "cumulative_parts", "huffman_codewords"]
