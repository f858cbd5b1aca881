"""Windows of one long text: overlapping, side by side, or in streams that go on from batch to batch."""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Int

from chainrule.data.batches import Batch, Beginnings
from chainrule.data.loading.moments import chunks
from chainrule.data.splits import Split

WINDOW = 128
"""Tokens that an example predicts unless told otherwise."""


@final
@dataclass(frozen=True, repr=False)
class Windows(Split):
    """Passages of one long `arrays["tokens"]`, one every `stride` tokens.

    A passage holds `length + 1` tokens: a model reads the first `length` and predicts the last `length`. With
    `stride=1` there is one for every position of the text, none of which is ever written out; with `stride=length` they
    share only their ends, so that every token but the very first is predicted once. A rest that is shorter than the
    stride is left out.

    With `streams` the text is cut into so many long pieces that are read side by side: of a batch of that size, each
    passage goes on where the one at its position in the batch before has ended.

    >>> passages = Windows({"tokens": np.arange(8)}, length=3, stride=3)
    >>> passages.x.tolist()
    [[0, 1, 2, 3], [3, 4, 5, 6]]
    >>> Windows({"tokens": np.arange(13)}, length=3, stride=3, streams=2).x[:, 0].tolist()
    [0, 6, 3, 9]
    """

    arrays: Mapping[str, np.ndarray]
    length: int
    stride: int = 1
    bytes: int = 0
    """Bytes of the text in UTF-8, for likelihoods per byte, which compare across vocabularies."""
    streams: int = 0
    characters: int = 0
    """Characters of the text, for likelihoods per character."""

    def __len__(self) -> int:
        every = max(0, (len(self.arrays["tokens"]) - self.length - 1) // self.stride + 1)
        return every // self.streams * self.streams if self.streams else every

    @property
    def apart(self) -> "Windows":
        """Passages that share only their ends.

        >>> Windows({"tokens": np.arange(8)}, length=3).apart.x.tolist()
        [[0, 1, 2, 3], [3, 4, 5, 6]]
        """
        return replace(self, stride=self.length) if self.stride < self.length else self

    @property
    def mapped(self) -> bool:
        """Whether the tokens lie in a file."""
        return isinstance(self.arrays["tokens"], np.memmap)

    @property
    def bytes_per_token(self) -> float:
        """How much text a token stands for: bits per byte are bits per token divided by this.

        >>> Windows({"tokens": np.zeros(10, np.uint8)}, length=5, bytes=25).bytes_per_token
        2.5
        """
        return self.bytes / max(len(self.arrays["tokens"]), 1)

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Passages by number, as int32."""
        if self.streams:
            index = index % self.streams * (len(self) // self.streams) + index // self.streams
        begins = index * self.stride
        positions = begins[:, None] + np.arange(self.length + 1)[None, :]
        tokens = arrays["tokens"][positions].astype(np.int32)
        release(arrays["tokens"])
        return Batch(tokens, Beginnings(begins) if self.streams else None)


def release(tokens: Any) -> None:
    """Let go of the pages of a mapped file that were read: they stay in the system's cache, not in this process."""
    base = tokens
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def counts(tokens: np.ndarray, vocabulary: int) -> Int[np.ndarray, " vocabulary"]:
    """How often each token comes, piece by piece.

    >>> counts(np.array([0, 2, 2], np.uint8), 4).tolist()
    [1, 0, 2, 0]
    """
    found = np.zeros(vocabulary, np.int64)
    for piece in chunks(tokens):
        found += np.bincount(piece, minlength=vocabulary)
        release(tokens)
    return found


__all__ = ["WINDOW", "Windows", "counts", "release"]
