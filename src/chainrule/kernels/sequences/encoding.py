"""Sequences of letters as numbers, checked once: all of them in one array, and where each begins."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.quoting import plain
from chainrule.core.types import Int

PROTEIN = "ACDEFGHIKLMNPQRSTVWY"
"""The twenty amino acids."""
DNA = "ACGT"


class EncodedSequences(NamedTuple):
    """Sequences one after the other, letters as numbers."""

    letters: Int[np.ndarray, " total"]
    owner: Int[np.ndarray, " total"]
    """The number of the sequence that each letter belongs to."""
    starts: Int[np.ndarray, " bounds"]
    """Where each sequence begins, and after the last one where it ends."""
    alphabet: str

    @property
    def size(self) -> int:
        """How many sequences there are."""
        return len(self.starts) - 1

    def text(self, start: int, length: int) -> str:
        """A stretch of letters."""
        return "".join(self.alphabet[i] for i in self.letters[start : start + length])


def encoded(where: str, sequences: Any, least: int, alphabet: str | None = None) -> EncodedSequences:
    """Sequences of at least so many letters, of the alphabet if one is given, else of whatever letters they have.

    >>> encoded("Spectrum", ["GAT", "TA"], 2).letters.tolist()
    [1, 0, 2, 2, 0]
    >>> encoded("Spectrum", ["GAT", "TA"], 3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Spectrum: sequence 1 has 2 letters, fewer than k=3
           leave it out, or use a smaller k
    """
    checked = _checked(where, sequences, least)
    lengths = np.array([len(one) for one in checked], np.int64)
    # Halves of surrogate pairs cannot be encoded strictly; here every code is a letter like any other.
    codes = np.frombuffer("".join(checked).encode("utf-32-le", "surrogatepass"), "<u4")
    starts = np.concatenate([[0], np.cumsum(lengths)])
    owner = np.repeat(np.arange(len(checked)), lengths)
    if alphabet is None:
        known, letters = np.unique(codes, return_inverse=True)
        return EncodedSequences(letters.astype(np.int64), owner, starts, "".join(map(chr, known.tolist())))
    if len(set(alphabet)) != len(alphabet) or not alphabet:
        raise ArgumentError(f"{where}(alphabet={plain(alphabet, 60)!r}): needs different letters, each once")
    order = np.argsort([ord(letter) for letter in alphabet])
    known = np.array([ord(alphabet[i]) for i in order], "<u4")
    at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    strange = np.flatnonzero(known[at] != codes)
    if len(strange):
        first = int(strange[0])
        number = int(owner[first])
        letter, shown = chr(codes[first]), plain(alphabet, 60)
        other = letter.swapcase()
        raise ArgumentError(
            f"{where}: sequence {number} has the letter {letter!r} at position {first - int(starts[number])}, which is "
            f"not in the alphabet {shown!r}",
            remedy="convert the sequences: use upper()" if other in alphabet and other.isupper() else "",
        )
    return EncodedSequences(order[at].astype(np.int64), owner, starts, alphabet)


def _checked(where: str, sequences: Any, least: int) -> list[str]:
    if isinstance(sequences, str) or not isinstance(sequences, Sequence | np.ndarray):
        raise ArgumentError(
            f"{where}: needs a list of sequences, not {type(sequences).__name__}",
            remedy="wrap it: [sequence]" if isinstance(sequences, str) else "use list(...)",
        )
    for number, one in enumerate(sequences):
        if not isinstance(one, str):
            raise ArgumentError(f"{where}: sequence {number} is of type {type(one).__name__}, not text")
        if len(one) < least:
            raise ArgumentError(
                f"{where}: sequence {number} has {len(one)} letters, fewer than k={least}",
                remedy="leave it out, or use a smaller k" if least > 1 else "leave it out",
            )
    if not len(sequences):
        raise ArgumentError(f"{where}: no sequences")
    return [str(one) for one in sequences]


__all__ = ["DNA", "PROTEIN", "EncodedSequences", "encoded"]
