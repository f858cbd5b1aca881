"""Batches of examples, and which examples form the batch of a step: a pure function of (seed, step).

The training stream is the concatenation of epochs, each a fresh permutation of all examples, cut into batches of equal
size; a batch may straddle two epochs, so every example comes exactly once per epoch and no batch is short. Or an epoch
ends with its last full batch (`drop_last`), and each leaves out a few other examples. The
permutation is never written out: a small keyed bijection maps any position to an example number directly, so the
batch of step one million costs what the batch of step zero costs, for ten examples or ten billion.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.core.errors import ArgumentError

_ROUNDS = 6
_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


class Documents(NamedTuple):
    """Beside rows of text that several documents share: whose each token is."""

    numbers: Any
    """The number within its row of the document each token belongs to, -1 for padding."""


class Beginnings(NamedTuple):
    """Beside passages of a text that is read in streams."""

    positions: Any
    """Where in the text each passage begins."""


class Mixed(NamedTuple):
    """Beside images mixed with others of their batch: whose each is, and how much of it."""

    y: Any
    """The targets of the image itself."""
    other_y: Any
    other_weights: Any
    """Target and weight of what was mixed into it."""
    share: Any
    """The share of the image itself."""


class Domains(NamedTuple):
    """Beside examples of one domain: their targets, and as many of another domain, whose targets are hidden."""

    y: Any
    x: Any
    """Examples of the other domain."""
    known: Any
    """Their classes where these were given for training, -1 everywhere else."""


class Batch(NamedTuple):
    """Examples `x` with a leading batch axis and what belongs to them: targets `y`, or what is known of texts."""

    x: Any
    y: Any = None
    weights: Any = None
    """What each example counts for in the loss of a model that predicts, one on average; `None`: all the same."""
    position: Any = None
    """Music: which share of its piece lies before the middle of each excerpt."""

    @property
    def documents(self) -> Any:
        """Text: the number of each token's document; `None` where a row is one text."""
        return self.y.numbers if isinstance(self.y, Documents) else None

    @property
    def begins(self) -> Any:
        """Text read in streams: where each passage begins; `None` otherwise."""
        return self.y.positions if isinstance(self.y, Beginnings) else None

    @property
    def domains(self) -> Domains | None:
        """Examples of another domain beside these; `None` where there is one domain."""
        return self.y if isinstance(self.y, Domains) else None

    def apart(self) -> "list[tuple[Any, Batch]]":
        """The batch with the targets that count, and for what share: of mixed images those of both, in turn."""
        if not isinstance(self.y, Mixed):
            return [(1.0, self)]
        other = self._replace(y=self.y.other_y, weights=self.y.other_weights)
        return [(self.y.share, self._replace(y=self.y.y)), (1.0 - self.y.share, other)]

    @property
    def weight(self) -> int:
        """What the mean over this batch is a mean of: examples, or tokens that are predicted."""
        if self.documents is None:
            return len(self.x)
        return int(predicted(self.documents).sum())


def predicted(documents: Any) -> Any:
    """Whether each token after the first of a row follows another of its own document, and so is predicted.

    >>> import numpy as np
    >>> predicted(np.array([[0, 0, 1, 1, -1, -1]])).astype(int).tolist()
    [[1, 0, 1, 0, 0]]
    """
    return (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] >= 0)


@final
@dataclass(frozen=True)
class Batches:
    """Example numbers for every step.

    With `classes`, the class number of every example, the classes take turns: every batch holds each of them equally
    often, within one. Examples of a class come in an order of their own, each once before any comes again.

    >>> stream = Batches(examples=10, size=4, seed=0)
    >>> sorted(stream.indices(first=0, count=5).ravel()[:10].tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    examples: int
    size: int
    seed: int = 0
    shuffle: bool = True
    classes: np.ndarray | None = field(default=None, repr=False, compare=False)
    drop_last: bool = False
    """Whether an epoch ends with its last full batch instead of sharing one with the next."""

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise ArgumentError("there are no examples to take batches from")
        if not 1 <= self.size <= self.examples:
            raise ArgumentError(
                f"batch={self.size}: a batch must hold between 1 and {self.examples} examples, the size of the split",
                remedy=f"use batch={min(max(self.size, 1), self.examples)}",
            )
        if self.drop_last and self.classes is not None:
            raise ArgumentError(
                "balanced=true, drop_last=true: where classes take turns no epoch leaves a batch unfilled",
                remedy="leave one of them out",
            )

    def indices(self, first: int, count: int) -> np.ndarray:
        """Example numbers of `count` steps from step `first` on, one row a step."""
        positions = np.arange(first * self.size, (first + count) * self.size, dtype=np.uint64)
        if self.classes is None:
            index = self._drawn(positions, self.examples, self.per_epoch, self.seed)
        else:
            index = self._balanced(positions, self.classes)
        return index.astype(np.int32 if self.examples < 2**31 else np.int64).reshape(count, self.size)

    def _drawn(self, positions: np.ndarray, examples: int, per_epoch: int, seed: int) -> np.ndarray:
        """Numbers below `examples`, `per_epoch` of them once in every epoch of the stream."""
        epoch, index = np.divmod(positions, np.uint64(per_epoch))
        return permute(index, examples, seed, epoch) if self.shuffle else index

    def _balanced(self, positions: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Example numbers of classes that take turns."""
        members = np.argsort(classes, kind="stable")
        _, starts, counts = np.unique(classes[members], return_index=True, return_counts=True)
        draw, turn = np.divmod(positions, np.uint64(len(counts)))
        index = np.empty(len(positions), np.int64)
        for number, (start, count) in enumerate(zip(starts, counts, strict=True)):
            own = turn == number
            seed = self.seed + ((number + 1) << 32)  # classes of one size would otherwise move in step
            index[own] = members[
                start + self._drawn(draw[own], int(count), int(count), seed).astype(np.int64)
            ]
        return index

    @property
    def per_epoch(self) -> int:
        """Examples of an epoch."""
        return self.examples // self.size * self.size if self.drop_last else self.examples

    def steps(self, epochs: float) -> int:
        """Steps that cover this many epochs."""
        return max(1, math.ceil(epochs * self.per_epoch / self.size))

    def epoch(self, step: int) -> float:
        """Epochs completed after `step` steps."""
        return step * self.size / self.per_epoch


def permute(index: np.ndarray, examples: int, seed: int, epoch: np.ndarray | int) -> np.ndarray:
    """Image of each index under the permutation of range(examples) that belongs to (seed, epoch).

    A balanced Feistel network on the smallest even number of bits that holds `examples`, walked again while it leads
    outside the range (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The domain is
    less than four times the range, so an index needs fewer than four walks on average.

    >>> sorted(permute(np.arange(7, dtype=np.uint64), 7, seed=1, epoch=3).tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """
    half = np.uint64(max(1, math.ceil(math.log2(max(examples, 2)) / 2)))
    low = np.uint64((1 << int(half)) - 1)
    stream = np.atleast_1d(np.asarray(epoch, dtype=np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    key = _mix(np.uint64(seed % 2**64) ^ _mix(stream))
    key = np.broadcast_to(key, index.shape).copy()
    out = index.astype(np.uint64)
    outside = np.ones(index.shape, dtype=bool)
    while outside.any():
        left, right = out[outside] >> half, out[outside] & low
        for turn in range(_ROUNDS):
            left, right = right, left ^ (_mix(key[outside] + _mix(right + np.uint64(turn << 32))) & low)
        out[outside] = (left << half) | right
        outside = out >= np.uint64(examples)
    return out


def _mix(z: np.ndarray) -> np.ndarray:
    """The splitmix64 finaliser (Steele, Lea and Flood, 2014): a bijection of 64-bit words with good avalanche."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) & _MASK
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB) & _MASK
        return z ^ (z >> np.uint64(31))


__all__ = ["Batch", "Batches", "Beginnings", "Documents", "Domains", "permute", "predicted"]
