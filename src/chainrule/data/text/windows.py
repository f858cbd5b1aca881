"""Windows of one long text: overlapping, side by side, or in streams that go on from batch to batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.data.batches import Batch, Beginnings
from chainrule.data.splits import Split

WINDOW = 128
"""Tokens that an example predicts unless told otherwise."""


@final
@dataclass(frozen=True)
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
        return Batch(tokens, Beginnings(begins) if self.streams else None)


__all__ = ["WINDOW", "Windows"]
