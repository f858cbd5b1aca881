"""Models as codes: which distribution every symbol has, and in which order symbols go to a coder.

A code is made of plain functions of arrays, so that it knows no model. All networks run on one number of rows, the
last batch filled up, by the same calls on the way in and on the way out: the same program on the same
numbers gives the same bits.
"""

import abc
import dataclasses
import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.types import Tree
from chainrule.data.schema import Schema
from chainrule.information.compression.coders import Words, initial_words

ROWS = 256
"""Examples that go through the networks together, at most."""
_FEWEST_ROWS = 16
_AT_ONCE = 2**23
"""Probabilities that are in memory at a time, about."""

LEVELS_WANTED = (
    "train on data with levels: images, one WAV file, or whole numbers from 0 on with data.levels=N"
)
"""What to do where a model knows continuous numbers."""

Item = TypeVar("Item")
Ledger: TypeAlias = dict[str, float]
"""Bits by what they were spent on; those that came back are negative."""
Watch: TypeAlias = Callable[[int], None]
"""Called with how many symbols or examples are done."""
Seed: TypeAlias = tuple[int, ...]
"""Decides what a coder begins with: the seed of a file, and the number of the lane."""


class CodedStream(NamedTuple):
    """What a coder has written: words, and what it takes to read them."""

    words: Words
    initial: int
    """Words that the stack began with."""
    ledger: Ledger
    model_bits: float | None = None
    """What the probabilities of the model say, before they were rounded; none where a bound says it."""


class Code(abc.ABC):
    """A model as a code of rows of whole numbers, or of one long row."""

    schema: Schema
    rows: int
    """How many go through the networks together."""
    weights: Tree
    """The arrays that decide every probability."""

    @property
    @abc.abstractmethod
    def route(self) -> str:
        """How symbols are coded: "bits-back" or "direct"."""

    def with_rows(self, rows: int) -> Self:
        """The same code with so many rows at a time."""
        return self._with(rows=rows)

    def suited_rows(self, symbols: np.ndarray) -> int:
        """Default: so many rows at a time as memory has room for."""
        return fitting_rows(self.schema, len(symbols))

    def fitted(self, symbols: np.ndarray, **options: Any) -> Self:
        """Default: as it is. With what a code has to know of the data, which `settings` hold."""
        del symbols
        if options:
            raise ArgumentError(
                f"{next(iter(options))}: {self.route} coding has no such option", remedy="leave it out"
            )
        return self

    def settings(self) -> dict[str, Any]:
        """Default: nothing. What `opened` needs beside the weights."""
        return {}

    def opened(self, settings: Mapping[str, Any]) -> Self:
        """Default: as it is. The code that a file was written with."""
        del settings
        return self

    def _with(self, **changes: Any) -> Self:
        """A copy with some fields changed: every code is a dataclass."""
        code: Any = self
        found: Self = dataclasses.replace(code, **changes)
        return found

    @abc.abstractmethod
    def encode(self, symbols: np.ndarray, seed: Seed, watch: Watch) -> CodedStream:
        """The words of some symbols."""

    @abc.abstractmethod
    def decode(self, coded: CodedStream, count: int, seed: Seed, watch: Watch) -> np.ndarray:
        """The `count` examples, or symbols of one long row, that some words stand for."""

    @abc.abstractmethod
    def by_example(self, symbols: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
        """What every symbol costs in bits by what it is spent on, a row for each example; returned ones negative."""

    @abc.abstractmethod
    def steps(self, count: int) -> int:
        """How many calls of networks, one after another, reading so many examples or symbols takes."""

    @abc.abstractmethod
    def outputs(self) -> Iterator[np.ndarray]:
        """What the networks make of made-up data, to the last bit."""

    @property
    @abc.abstractmethod
    def probed(self) -> int:
        """How many calls of networks `outputs` makes."""

    def fingerprint(self) -> str:
        """SHA-256 of what the networks make of made-up data: equal where probabilities are."""
        digest = hashlib.sha256()
        for array in self.outputs():
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def blocks(count: int, rows: int, pace: float = 1.0) -> list[slice]:
    """Which examples go through the networks together: few at first, then as many as there are rows.

    The codes of a block come off before anything goes on: off the examples before it, or off bits that stand in for an
    earlier message and make the file longer. So a block grows with what is there, `pace` examples for each before it.

    >>> [block.stop - block.start for block in blocks(10, 4)]
    [1, 2, 4, 3]
    >>> [block.stop - block.start for block in blocks(10, 4, 0.5)]
    [1, 1, 1, 2, 3, 2]
    """
    found, first = [], 0
    while first < count:
        size = max(1, min(rows, int(pace * (first + 1)), count - first))
        found.append(slice(first, first + size))
        first += size
    return found


def fitting_rows(schema: Schema, count: int, held: int | None = None, most: int = ROWS) -> int:
    """How many examples go through the networks together: as many as there are, and memory has room for.

    `held` are the entries of an example whose probabilities are in memory at a time, all of them by default.

    >>> fitting_rows(Schema("image", (28, 28, 1), levels=256), 1000)
    41
    """
    each = (held or schema.dimensions) * (schema.levels if schema.levels > 2 else 1)
    return max(1, min(count, most, max(_FEWEST_ROWS, _AT_ONCE // each)))


def ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The same items, each made by a thread of its own while the one before it is used.

    Networks and coders keep different cores busy: where an item needs none of what is done with those before it, its
    networks run while a coder works.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def filled(some: np.ndarray, rows: int) -> np.ndarray:
    """So many rows, those that are missing all zeros."""
    missing = rows - len(some)
    return some if not missing else np.concatenate([some, np.zeros((missing, *some.shape[1:]), some.dtype)])


def probe_symbols(schema: Schema, rows: int, count: int) -> Int[np.ndarray, "rows count"]:
    """Made-up symbols, the same on every machine.

    >>> probe_symbols(Schema("image", (2, 1, 1), levels=4), 2, 2).tolist()
    [[1, 1], [3, 3]]
    """
    raw = np.random.PCG64(1).random_raw(rows * count) >> np.uint64(33)
    return (raw % np.uint64(alphabet(schema))).astype(np.int32).reshape(rows, count)


def alphabet(schema: Schema) -> int:
    """How many symbols there are: levels, or tokens."""
    return schema.levels or len(schema.tokens)


def check_rest(found: np.ndarray, seed: Seed, count: int) -> None:
    """Raise unless the words that a stack began with are what is left of it."""
    # A file may claim any number of them: none are made before it is the right one.
    if len(found) != count or not np.array_equal(found, initial_words(seed, count)):
        raise DataError("the bits that the code began with do not come back")


__all__ = [
    "LEVELS_WANTED",
    "ROWS",
    "Code",
    "CodedStream",
    "Ledger",
    "Seed",
    "Watch",
    "ahead",
    "alphabet",
    "blocks",
    "check_rest",
    "filled",
    "fitting_rows",
    "probe_symbols",
]
