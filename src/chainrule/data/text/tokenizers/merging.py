"""Byte pair encoding proper: learning merges from counted chunks, and applying them to a new chunk.

Gage, "A new algorithm for data compression", 1994; Sennrich, Haddow and Birch, "Neural machine translation of rare
words with subword units", 2016. Learning is incremental: a pair knows which chunks may hold it, so that a merge
touches these alone, and a heap with stale entries gives the most frequent pair. Pairs are counted at every position,
also overlapping; they are replaced from left to right without overlap.
"""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from chainrule.core.errors import ArgumentError

Pair: TypeAlias = tuple[int, int]


@final
@dataclass(frozen=True)
class Step:
    """One merge: the pair, how often it was there, and how many of them became the new token."""

    left: str
    right: str
    count: int
    replaced: int

    @property
    def token(self) -> str:
        """The new token."""
        return self.left + self.right


def start(special: Iterable[str], alphabet: Iterable[str], vocab: int) -> tuple[str, ...]:
    """The tokens before any merge: special ones first, then the alphabet; none may come twice.

    >>> start(["<end>"], "ab", vocab=2)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: vocab=2: the alphabet and the special tokens alone are 3 tokens
           use data.vocab=3 or more
    """
    tokens = (*special, *alphabet)
    if "" in tokens or len(set(tokens)) < len(tokens):
        raise ArgumentError(
            f"special={tuple(special)!r}: special tokens must not be empty, come twice or be in the alphabet"
        )
    if vocab < len(tokens):
        raise ArgumentError(
            f"vocab={vocab}: the alphabet and the special tokens alone are {len(tokens)} tokens",
            remedy=f"use data.vocab={len(tokens)} or more",
        )
    return tokens


def learn(
    chunks: Mapping[str, int], first: Sequence[str], vocab: int, min_frequency: int
) -> tuple[tuple[str, ...], tuple[Step, ...]]:
    """Tokens (those of `first`, then the new ones) and the merges in their order.

    `chunks` counts the chunks, whose characters are the first symbols. The most frequent pair is merged, of equally
    frequent ones that with the smallest (left number, right number), until there are `vocab` tokens or no pair comes
    `min_frequency` times. A token that two merges spell is one token.

    >>> tokens, steps = learn({"abracadabra": 1}, "abcdr", vocab=8, min_frequency=0)
    >>> [step.token for step in steps], tokens[-1]
    (['ab', 'ra', 'abra'], 'abra')
    """
    tokens = list(first)
    number = {token: i for i, token in enumerate(tokens)}
    words = [[number[symbol] for symbol in chunk] for chunk in chunks]
    weights = list(chunks.values())
    counts, occurrences = _count(words, weights)
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    steps: list[Step] = []
    while heap and len(tokens) < vocab:
        negative, pair = heapq.heappop(heap)
        count = counts.get(pair, 0)
        if count != -negative:
            if (
                0 < count < -negative
            ):  # it has lost occurrences since; one that gained some was pushed again then
                heapq.heappush(heap, (-count, pair))
            continue
        if count < max(min_frequency, 1):
            break
        left, right = (tokens[part] for part in pair)
        new = number.setdefault(left + right, len(tokens))
        if new == len(tokens):
            tokens.append(left + right)
        changed: dict[Pair, int] = {}
        replaced = 0
        for index in occurrences.pop(pair):
            times = _replace(words[index], pair, new, weights[index], changed, occurrences, index)
            replaced += times * weights[index]
        del counts[pair]
        changed.pop(pair, None)  # it may have overlapped itself; all of it is gone
        for other, change in changed.items():
            counts[other] = now = counts.get(other, 0) + change
            if change > 0:
                heapq.heappush(heap, (-now, other))
        steps.append(Step(left, right, count, replaced))
    return tuple(tokens), tuple(steps)


def _count(
    words: Sequence[Sequence[int]], weights: Sequence[int]
) -> tuple[dict[Pair, int], dict[Pair, set[int]]]:
    """How often each pair of neighbours comes, and in which words."""
    counts: dict[Pair, int] = {}
    occurrences: dict[Pair, set[int]] = {}
    for index, (word, weight) in enumerate(zip(words, weights, strict=True)):
        for pair in itertools.pairwise(word):
            counts[pair] = counts.get(pair, 0) + weight
            occurrences.setdefault(pair, set()).add(index)
    return counts, occurrences


def _replace(
    word: list[int],
    pair: Pair,
    new: int,
    weight: int,
    changed: dict[Pair, int],
    occurrences: dict[Pair, set[int]],
    index: int,
) -> int:
    """Merge a pair in one word, in place; note how the counts change and where new pairs are; return how often."""
    left, right = pair
    out: list[int] = []
    times = done = i = 0
    while True:
        try:
            i = word.index(left, i, -1)
        except ValueError:
            break
        if word[i + 1] != right:
            i += 1
            continue
        out += word[done:i]
        if out:
            before = out[-1]
            changed[before, left] = changed.get((before, left), 0) - weight
            changed[before, new] = changed.get((before, new), 0) + weight
            occurrences.setdefault((before, new), set()).add(index)
        if i + 2 < len(word):
            after = word[i + 2]
            changed[right, after] = changed.get((right, after), 0) - weight
            changed[new, after] = changed.get((new, after), 0) + weight
            occurrences.setdefault((new, after), set()).add(index)
        out.append(new)
        times += 1
        i = done = i + 2
    if times:
        word[:] = out + word[done:]
    return times


def apply(symbols: Sequence[int], ranks: Mapping[Pair, tuple[int, int]]) -> list[int]:
    """Merge the present pair of lowest rank, of equal ones the leftmost, until none is left.

    `ranks` gives for a pair its position among the merges and the number of the token it becomes.

    Taking the longest token that fits would give other tokens than those the merges were learnt with. Neighbours are
    linked and candidates kept in a heap, so a chunk of n symbols costs n log n, also where a whole text is one chunk.

    >>> apply([0, 0, 0, 0, 0], {(0, 0): (0, 1), (1, 1): (1, 2)})
    [2, 0]
    """
    ids = list(symbols)
    end = len(ids)
    following, previous = list(range(1, end + 1)), list(range(-1, end - 1))
    heap = []
    for i in range(end - 1):
        found = ranks.get((ids[i], ids[i + 1]))
        if found is not None:
            heap.append((found[0], i, ids[i], ids[i + 1], found[1]))
    heapq.heapify(heap)
    gone = -1
    while heap:
        _, i, left, right, new = heapq.heappop(heap)
        j = following[i]
        if ids[i] != left or j >= end or ids[j] != right:
            continue  # one of the two has been merged since
        ids[i], ids[j] = new, gone
        k = following[i] = following[j]
        if k < end:
            previous[k] = i
            found = ranks.get((new, ids[k]))
            if found is not None:
                heapq.heappush(heap, (found[0], i, new, ids[k], found[1]))
        h = previous[i]
        if h >= 0:
            found = ranks.get((ids[h], new))
            if found is not None:
                heapq.heappush(heap, (found[0], h, ids[h], new, found[1]))
    return [i for i in ids if i != gone]


__all__ = ["Pair", "Step", "apply", "learn", "start"]
