"""Surprisal of a text under a model, every token counted once.

A text is longer than what a model reads at a time, so it is judged window by window. Windows that follow each other
end `stride` tokens apart, and of each only the tokens that no window before it has judged are counted: with a small
stride every token is predicted from nearly a whole window, with a stride of one window it costs least and the first
tokens of each window are predicted from little. The first token of the text is given, not predicted. Documents that
share windows are judged one by one.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Integer

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Passage
from chainrule.core.types import Array
from chainrule.data.batches import predicted
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import CanPack, HasSurprisal

_LOGITS = 2**26
"""How many logits may be in memory at once."""
_SHOWN = 400
"""Tokens of a passage that is shown."""


class Blocks(NamedTuple):
    """Nats and number of the tokens that each window has judged."""

    nats: Float[np.ndarray, " windows"]
    tokens: Int[np.ndarray, " windows"]
    stride: int

    @property
    def mean(self) -> float:
        """Nats per token, over all tokens."""
        return float(self.nats.sum() / self.tokens.sum())

    @property
    def error(self) -> float:
        """Standard error of the mean over windows, which are of unequal size."""
        spread = np.square(self.nats - self.mean * self.tokens).mean()
        return float(np.sqrt(spread / len(self.nats)) / self.tokens.mean())


def blocks(model: HasSurprisal, split: Windows, vocabulary: int, stride: int | None = None) -> Blocks:
    """Judge every token of a text but the first; half a window apart unless a stride is given."""
    length = split.length
    stride = max(1, length // 2) if stride is None else stride
    _check_stride(stride, length)
    starts, counts = window_spans(len(split.arrays["tokens"]), length, stride)
    nats = _by_window(model, split.arrays["tokens"], starts, counts, length, vocabulary)
    return Blocks(nats, counts, stride)


def _check_stride(stride: int, length: int) -> None:
    if not 1 <= stride <= length:
        raise ArgumentError(
            f"stride={stride}: windows of {length} tokens that end {stride} apart do not judge every token once",
            remedy=f"use a stride from 1 (slow, exact) to {length} (fast)",
        )


def _by_window(
    model: HasSurprisal,
    tokens: Integer[np.ndarray, " tokens"],
    starts: Int[np.ndarray, " windows"],
    counts: Int[np.ndarray, " windows"],
    length: int,
    vocabulary: int,
) -> Float[np.ndarray, " windows"]:
    """Nats of the last tokens of each window, as many as it is to judge."""
    size = max(1, min(512, len(starts), _LOGITS // (length * vocabulary)))
    nats = []
    for first in range(0, len(starts), size):
        chosen = np.resize(starts[first : first + size], size)  # the last batch is filled up, so that it fits
        x = tokens[chosen[:, None] + np.arange(length + 1)[None, :]].astype(np.int32)
        nats.append(np.asarray(_surprisal(model, jnp.asarray(x)), np.float64))
    every = np.concatenate(nats)[: len(starts)]
    judged = np.arange(length)[None, :] >= length - counts[:, None]
    return np.where(judged, every, 0.0).sum(axis=1)


def documents(model: CanPack, split: Packed, vocabulary: int, stride: int | None = None) -> Blocks:
    """Judge every document by itself; nats and tokens are those of each, whether or not it had to be cut.

    Pieces of a document that is longer than a window follow each other unless a smaller stride is given: its windows
    then end `stride` tokens apart, as those of a text do.
    """
    if stride is not None:
        _check_stride(stride, split.length)
    size = max(1, min(512, len(split), _LOGITS // (split.length * vocabulary)))
    nats, tokens = np.zeros(len(split.starts)), np.zeros(len(split.starts), np.int64)
    for first in range(0, len(split), size):
        rows = np.arange(first, min(first + size, len(split)))
        batch = split.batch(rows)
        found = np.asarray(
            _packed_surprisal(model, jnp.asarray(batch.x), jnp.asarray(batch.documents)), np.float64
        )
        counted = predicted(batch.documents)
        owner = split.document_of(split.arrays["positions"][rows][:, 1:][counted])
        nats += np.bincount(owner, found[counted], len(nats))
        tokens += np.bincount(owner, minlength=len(nats))
    if stride is not None and stride < split.length:
        nats = np.where(tokens > split.length, _long_documents(model, split, vocabulary, stride), nats)
    judged = tokens > 0
    return Blocks(nats[judged], tokens[judged], split.length if stride is None else stride)


def _long_documents(
    model: CanPack, split: Packed, vocabulary: int, stride: int
) -> Float[np.ndarray, " documents"]:
    """Nats of each document that no window holds, read in windows that overlap; zero for the others."""
    text, nats = split.arrays["tokens"], np.zeros(len(split.starts))
    sizes = np.diff(split.starts, append=len(text))
    longer = np.flatnonzero(sizes > split.length + 1)
    if not len(longer):
        return nats
    spans = [window_spans(int(sizes[one]), split.length, stride) for one in longer]
    starts = np.concatenate(
        [split.starts[one] + begins for one, (begins, _) in zip(longer, spans, strict=True)]
    )
    counts = np.concatenate([counts for _, counts in spans])
    owner = np.repeat(longer, [len(begins) for begins, _ in spans])
    return np.bincount(
        owner, _by_window(model, text, starts, counts, split.length, vocabulary), len(split.starts)
    )


def window_spans(
    tokens: int, length: int, stride: int
) -> tuple[Int[np.ndarray, " windows"], Int[np.ndarray, " windows"]]:
    """Where each window begins, and how many tokens at its end are judged by it and by no other.

    >>> starts, counts = window_spans(tokens=12, length=4, stride=3)
    >>> starts.tolist(), counts.tolist()
    ([0, 3, 6, 7], [4, 3, 3, 1])
    """
    ends = np.append(np.arange(length, tokens - 1, stride), tokens - 1)
    return ends - length, np.diff(ends, prepend=0)


def passage(model: HasSurprisal, tokens: Integer[np.ndarray, " tokens"], schema: Schema) -> Passage:
    """A text with the surprisal of each token, the first of which is given; what is too long to show is left out."""
    shown = tokens[: _SHOWN + 1].astype(np.int32)
    nats = np.asarray(_surprisal(model, jnp.asarray(shown)[None, :])[0], np.float64)
    mean = float(nats.mean())
    return Passage(
        "surprisal",
        "Surprisal token by token",
        tokenizers.of(schema).pieces(shown),
        np.insert(nats / np.log(2), 0, np.nan),
        "bits",
        caption=f"{mean:.2f} nats ({mean / np.log(2):.2f} bits) per token on average.",
    )


@eqx.filter_jit
def _surprisal(model: HasSurprisal, x: Array) -> Array:
    return model.surprisal(x)


@eqx.filter_jit
def _packed_surprisal(model: CanPack, x: Array, documents: Array) -> Array:
    return model.packed_surprisal(x, documents)


__all__ = ["Blocks", "blocks", "documents", "passage", "window_spans"]
