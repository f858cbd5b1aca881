"""Copies: examples with exactly the same input.

A held-out example that training has too says nothing about new data. Copies are found by their contents, in pieces, so
that arrays larger than memory can be looked through. What the targets are does not matter: one input with two targets
is as much of a leak.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from chainrule.data.division import NAMES, Positions
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents

HELD_OUT = "validation or test input that training has too"
LEFT_OUT = "left out, because its input is held out too"
ANYWHERE, TOGETHER = CHOICES = ("anywhere", "together")
"""Where copies may be: wherever they fall, or all in one split."""

_WORD = 8
"""Bytes of a word."""
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shifts and factors of the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""


def inputs(contents: Contents) -> Int[np.ndarray, " examples"]:
    """For each example the number of the first that has the same input; documents are examples of their text.

    >>> inputs(Contents("table", np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))).tolist()
    [0, 1, 0]
    """
    if contents.documents is not None:
        texts = np.split(contents.x, np.cumsum(contents.documents)[:-1])
        codes = np.concatenate([_hashes(np.append(text, len(text))[None]) for text in texts])
    else:
        codes = np.concatenate([_hashes(piece) for piece in chunks(contents.x, contents.rows)])
    _, first, number = np.unique(codes, return_index=True, return_inverse=True)
    return first[number]


def noted(contents: Contents, parts: Sequence[Positions], where: str) -> list[Problem]:
    """Held-out examples whose input training has too, each with the example it is a copy of.

    Where copies are kept together there are none; training examples that were left out for it are named instead.
    """
    if contents.consecutive:  # what repeats itself in time is no copy
        return []
    if contents.together:
        left = np.setdiff1d(np.arange(len(contents)), np.concatenate(parts))
        return [Problem(LEFT_OUT, f"{where} example {at + 1}", effect="note") for at in left.tolist()]
    first = inputs(contents)
    in_training = np.full(len(first), -1)
    in_training[first[parts[0]][::-1]] = parts[0][::-1]
    remedy = _remedy(contents)
    return [
        Problem(
            HELD_OUT,
            f"{where} example {at + 1} ({name})",
            f"the same input as example {in_training[first[at]] + 1} (train)",
            "note",
            remedy,
        )
        for name, part in zip(NAMES[1:], parts[1:], strict=True)
        for at in part[in_training[first[part]] >= 0].tolist()
    ]


def _remedy(contents: Contents) -> str:
    if contents.documents is not None:
        return "take the copies out of the text"
    if contents.parts is not None:
        return "let training do without them: data.copies=together"
    return "keep copies in one split: data.copies=together"


def check_together(contents: Contents, where: str) -> None:
    """Refuse to keep copies together where the order of the examples decides."""
    if contents.together and (contents.consecutive or contents.window):
        raise Refused(
            "in order",
            where,
            "copies=together: validation and test are the last pieces of these data, whatever they hold",
            "leave data.copies out",
        )


def _hashes(rows: np.ndarray) -> np.ndarray:
    """A number of 64 bits for each row: the sum of its words, each times an odd number of its own, modulo 2^64.

    Rows that differ in one word never agree; others do by accident in one of about 10^18 pairs.
    """
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    short = -flat.shape[1] % _WORD
    if short:
        flat = np.pad(flat, ((0, 0), (0, short)))
    words = flat.view(np.uint64)
    for shift, factor in _MIX:  # so that every bit of a word counts for all of the sum
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64)
    return (words ^ (words >> np.uint64(31))) @ (np.uint64(2) * factors + np.uint64(1))


__all__ = ["ANYWHERE", "CHOICES", "HELD_OUT", "LEFT_OUT", "TOGETHER", "check_together", "inputs", "noted"]
