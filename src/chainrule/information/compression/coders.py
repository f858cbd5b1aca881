"""The two entropy coders of compressed files, of the package constriction: a stack (ANS) and a queue (range coder).

What went onto a stack last comes off first, and symbols can come off that nobody put there: that is how bits come back.
A queue gives symbols in the order in which they went in, as models need that predict each from those before it.
"""

import abc
import contextlib
from collections.abc import Iterator
from typing import Any, final

import numpy as np
from jaxtyping import UInt32

from chainrule.core.errors import CapabilityError, DataError

Words = UInt32[np.ndarray, " words"]

PRECISION = 24
"""Probabilities are whole numbers out of two to this power; no symbol has none."""
_LEAST = 3
"""A stack with fewer words is about to run out."""


def constriction() -> Any:
    """The package with the coders, or what to do where it is not installed."""
    try:
        import constriction  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise CapabilityError(
            "compressing needs the package constriction, which is not installed",
            remedy="install it: pip install 'chainrule[compress]'",
        ) from None
    return constriction


def no_probabilities() -> DataError:
    """What to say of networks that give no numbers."""
    return DataError(
        "the model gives probabilities that are not finite: its weights went astray",
        remedy="train again with a smaller learning rate: optimizer.lr=1e-4",
    )


@contextlib.contextmanager
def _coding() -> Iterator[None]:
    """Says in words of the library what a coder refuses: tables of probabilities that are none, words that are none."""
    try:
        yield
    except ValueError:
        raise no_probabilities() from None
    except AssertionError:
        raise _no_code() from None


def _no_code() -> DataError:
    """What to say of words that no coder has written."""
    return DataError("its words are the code of nothing", remedy="fetch the file again")


class EntropyCoder(abc.ABC):
    """Takes symbols in at the cost that their probabilities say, and gives them back."""

    @abc.abstractmethod
    def put(self, symbols: np.ndarray, model: Any, *parameters: np.ndarray) -> None:
        """Take symbols in, each by the distribution whose parameters stand at its position."""

    @abc.abstractmethod
    def take(self, model: Any, *parameters: np.ndarray) -> np.ndarray:
        """Give back one symbol for every position."""

    @abc.abstractmethod
    def bits(self) -> int:
        """How much it holds."""


@final
class AnsStack(EntropyCoder):
    """Last in, first out; opened on words that are no code of anything, it is sealed so that all of them come back."""

    def __init__(self, words: Words, *, seal: bool) -> None:
        stack = constriction().stream.stack
        try:
            self._coder = stack.AnsCoder(words, seal)
        except ValueError:  # a zero at the end
            raise _no_code() from None

    @classmethod
    def seeded(cls, seed: tuple[int, ...], count: int) -> "AnsStack":
        """A stack of words that a seed says."""
        return cls(initial_words(seed, count), seal=True)

    def put(self, symbols: np.ndarray, model: Any, *parameters: np.ndarray) -> None:
        """The last of them first, so that they come off in their order."""
        with _coding():
            self._coder.encode_reverse(symbols, model, *parameters)

    def take(self, model: Any, *parameters: np.ndarray) -> np.ndarray:
        """Off the top."""
        with _coding():
            return np.asarray(self._coder.decode(model, *parameters))

    def bits(self) -> int:
        """Those on the stack, to the bit."""
        return int(self._coder.num_valid_bits())

    @property
    def runs_out(self) -> bool:
        """Whether so little is left that what came off may not have been there."""
        return int(self._coder.num_words()) < _LEAST

    def shake(self, count: int, *key: int) -> None:
        """Flip bits of the topmost words, as a key says; a second time brings them back.

        What was put on last by one distribution would otherwise come off by another as numbers that are not random.
        """
        words = self.words()
        # The last two words are the number that the coder works on; it must not become shorter.
        end = max(len(words) - 2, 0)
        first = max(end - count, 0)
        words[first:end] ^= _keystream(end - first, key)
        self._coder = constriction().stream.stack.AnsCoder(words, False)

    def words(self) -> Words:
        """All that is on the stack."""
        return np.asarray(self._coder.get_compressed(), np.uint32)

    def unsealed(self) -> Words:
        """The words it was opened on, where everything else has come off."""
        try:
            return np.asarray(self._coder.get_compressed(unseal=True), np.uint32)
        except (AssertionError, ValueError):
            raise DataError("the bits that the code began with do not come back") from None


@final
class RangeWriter(EntropyCoder):
    """First in, first out: the end where symbols go in."""

    def __init__(self) -> None:
        self._coder = constriction().stream.queue.RangeEncoder()

    def put(self, symbols: np.ndarray, model: Any, *parameters: np.ndarray) -> None:
        """In their order."""
        with _coding():
            self._coder.encode(symbols, model, *parameters)

    def take(self, model: Any, *parameters: np.ndarray) -> np.ndarray:
        """Nothing comes out of this end."""
        raise NotImplementedError("symbols come out of a `RangeReader`")

    def bits(self) -> int:
        """Those written, in whole words."""
        return int(self._coder.num_bits())

    def words(self) -> Words:
        """All that was written."""
        return np.asarray(self._coder.get_compressed(), np.uint32)


@final
class RangeReader(EntropyCoder):
    """The end where symbols come out."""

    def __init__(self, words: Words) -> None:
        self._coder = constriction().stream.queue.RangeDecoder(words)
        self._bits = 32 * len(words)

    def put(self, symbols: np.ndarray, model: Any, *parameters: np.ndarray) -> None:
        """Nothing goes in at this end."""
        raise NotImplementedError("symbols go into a `RangeWriter`")

    def take(self, model: Any, *parameters: np.ndarray) -> np.ndarray:
        """In the order in which they went in."""
        with _coding():
            return np.asarray(self._coder.decode(model, *parameters))

    def bits(self) -> int:
        """Those it was opened with."""
        return self._bits


def initial_words(seed: tuple[int, ...], count: int) -> Words:
    """Words that stand in for a message sent before, the same for a seed on every machine.

    >>> initial_words((0,), 2).tolist()
    [2735729615, 1158725112]
    """
    return _keystream(count, seed)


def _keystream(count: int, key: tuple[int, ...]) -> Words:
    # The bit generator itself: its numbers are fixed, those of distributions may change between versions.
    raw = np.random.PCG64(np.random.SeedSequence(key)).random_raw(count)
    return (np.asarray(raw, np.uint64) >> np.uint64(32)).astype(np.uint32)


__all__ = [
    "PRECISION",
    "AnsStack",
    "EntropyCoder",
    "RangeReader",
    "RangeWriter",
    "Words",
    "constriction",
    "initial_words",
    "no_probabilities",
]
