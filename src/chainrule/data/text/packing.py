"""Documents of any length in rows of one length: side by side, or with others of their size.

A compiled program wants rows of one length; documents have any. `Packed` puts several documents into one row, each to
be read by itself: a model that sees who belongs to whom gives them the likelihoods they have alone, and hardly any
position is lost to padding. `buckets` sorts texts by length instead, so that few programs serve all of them.
"""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Int, Integer

from chainrule.core.errors import DataError
from chainrule.data.batches import Batch, Documents
from chainrule.data.splits import Split


class DocumentPiece(NamedTuple):
    """A document, or as much of a long one as fits into a row: where it begins in the text, and its tokens."""

    first: int
    tokens: int


@final
@dataclass(frozen=True, repr=False)
class Packed(Split):
    """Rows of `length + 1` tokens that hold whole documents, padding at their ends.

    `arrays["tokens"]` is the text, `arrays["positions"]` where in it each token of a row stands (-1 for padding) and
    `arrays["numbers"]` to which document of the row it belongs (-1 for padding). A document longer than a row is cut;
    its pieces share one token, as consecutive windows do, so that every token but the first is predicted once.
    """

    arrays: Mapping[str, np.ndarray]
    length: int
    starts: Int[np.ndarray, " documents"]
    """Where each document begins in the text."""
    bytes: int = 0
    """Bytes of the text in UTF-8, for likelihoods per byte, which compare across vocabularies."""
    characters: int = 0
    """Characters of the text, for likelihoods per character."""

    def __len__(self) -> int:
        return len(self.arrays["positions"])

    @property
    def bytes_per_token(self) -> float:
        """How much text a token stands for."""
        return self.bytes / max(len(self.arrays["tokens"]), 1)

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Rows by number: tokens, 0 where there is padding, and the documents they belong to, both as int32."""
        positions, numbers = arrays["positions"][index], arrays["numbers"][index].astype(np.int32)
        # Padding is position -1, the last token of the text, and becomes token 0.
        return Batch(arrays["tokens"][positions].astype(np.int32) * (numbers >= 0), Documents(numbers))

    def document_of(self, positions: Integer[np.ndarray, "*any"]) -> Integer[np.ndarray, "*any"]:
        """The number of the document in which each position of the text lies."""
        return np.searchsorted(self.starts, positions, side="right") - 1


def pack(
    documents: Sequence[Integer[np.ndarray, " _"]], length: int, *, bytes: int = 0, characters: int = 0
) -> Packed:
    """Documents in rows of `length + 1` tokens.

    >>> rows = pack([np.array([5, 6, 7]), np.array([8, 9]), np.array([1, 2, 3, 4])], length=4)
    >>> rows.x.tolist(), rows.batch([0, 1]).documents.tolist()
    ([[1, 2, 3, 4, 0], [5, 6, 7, 8, 9]], [[0, 0, 0, 0, -1], [0, 0, 0, 1, 1]])
    """
    sizes = np.array([len(document) for document in documents], np.int64)
    starts = np.cumsum(sizes) - sizes
    # Of a piece of one token nothing is predicted: there is none.
    pieces = [
        DocumentPiece(int(start) + first, int(min(size - first, length + 1)))
        for start, size in zip(starts, sizes, strict=True)
        for first in range(0, int(size) - 1, length)
    ]
    if documents and not pieces:
        raise DataError(
            "no document has two tokens, so that nothing is predicted", remedy="give longer documents"
        )
    rows = _best_fit([piece.tokens for piece in pieces], length + 1)
    most = max(map(len, rows), default=0)
    positions = np.full((len(rows), length + 1), -1, np.int32 if sizes.sum() < 2**31 else np.int64)
    numbers = np.full((len(rows), length + 1), -1, np.int8 if most < 2**7 else np.int32)
    for row, chosen in enumerate(rows):
        at = 0
        for number, piece in enumerate(pieces[one] for one in chosen):
            positions[row, at : at + piece.tokens] = np.arange(piece.first, piece.first + piece.tokens)
            numbers[row, at : at + piece.tokens] = number
            at += piece.tokens
    tokens = np.concatenate(documents) if documents else np.zeros(0, np.uint8)
    arrays = {"tokens": tokens, "positions": positions, "numbers": numbers}
    return Packed(arrays, length, starts, bytes, characters)


def _best_fit(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Which pieces share a row: the longest first, each into the row it fills best (Johnson, 1973).

    >>> _best_fit([2, 5, 3, 4, 1], room=6)
    [[1, 4], [3, 0], [2]]
    """
    rows: list[list[int]] = []
    waiting: dict[int, list[int]] = {}
    """Rows by the room that is left in them."""
    spaces: list[int] = []
    """What is left in some row, in ascending order."""
    for piece in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        size = sizes[piece]
        best = bisect.bisect_left(spaces, size)
        if best == len(spaces):
            row, left = len(rows), room - size
            rows.append([])
        else:
            space = spaces[best]
            row, left = waiting[space].pop(), space - size
            if not waiting[space]:
                del waiting[space], spaces[best]
        rows[row].append(piece)
        if left:
            if left not in waiting:
                waiting[left] = []
                bisect.insort(spaces, left)
            waiting[left].append(row)
    return rows


def buckets(sizes: Sequence[int]) -> dict[int, list[int]]:
    """Which texts go together: their numbers by the common width, the next power of two.

    Padding then at most doubles the work, and a thousand lengths need no more than ten programs.

    >>> buckets([3, 9, 4, 16])
    {4: [0, 2], 16: [1, 3]}
    """
    found: dict[int, list[int]] = {}
    for number, size in enumerate(sizes):
        found.setdefault(1 << max(size - 1, 0).bit_length(), []).append(number)
    return found


def padded_left(
    rows: Sequence[Integer[np.ndarray, " _"]],
) -> tuple[Int[np.ndarray, "rows width"], Int[np.ndarray, " rows"]]:
    """Rows that end together, for reading on from: zeros before the shorter ones, and how many.

    >>> rows, padding = padded_left([np.array([7]), np.array([4, 5, 6])])
    >>> rows.tolist(), padding.tolist()
    ([[0, 0, 7], [4, 5, 6]], [2, 0])
    """
    width = max(map(len, rows))
    padding = np.array([width - len(row) for row in rows], np.int32)
    whole = [np.concatenate([np.zeros(n, np.int32), row]) for n, row in zip(padding, rows, strict=True)]
    return np.stack(whole).astype(np.int32), padding


def padded_right(
    rows: Sequence[Integer[np.ndarray, " _"]], width: int | None = None
) -> tuple[Int[np.ndarray, "rows width"], Int[np.ndarray, " rows"]]:
    """Rows that begin together, for training and scoring: zeros after the shorter ones, and how many.

    >>> rows, padding = padded_right([np.array([7]), np.array([4, 5, 6])])
    >>> rows.tolist(), padding.tolist()
    ([[7, 0, 0], [4, 5, 6]], [2, 0])
    """
    width = max(map(len, rows)) if width is None else width
    padding = np.array([width - len(row) for row in rows], np.int32)
    whole = [np.concatenate([row, np.zeros(n, np.int32)]) for n, row in zip(padding, rows, strict=True)]
    return np.stack(whole).astype(np.int32), padding


__all__ = ["Packed", "buckets", "pack", "padded_left", "padded_right"]
