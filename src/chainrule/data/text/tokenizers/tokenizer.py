"""The abstract tokenizer: a vocabulary, the way from text to token numbers, and the way back.

A tokenizer is one JSON document in the format of the `tokenizers` package; its fingerprint is the hash of that
document, so two tokenizers with the same fingerprint give the same numbers.
"""

import abc
import functools
import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError
from chainrule.data.schema import compact

_LISTED = 10

Ids = Int[np.ndarray, " tokens"]


class Tokenizer(abc.ABC):
    """Text to token numbers and back."""

    tokens: tuple[str, ...]
    """Every token as the file of the tokenizer spells it, by its number."""
    special: tuple[str, ...] = ()
    """Tokens that stand for no text; `encode` makes them out of their names only where it is told to."""

    @abc.abstractmethod
    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """The numbers of the tokens of a text, as int32.

        The name of a special token in it, such as "<|endoftext|>", is text like any other unless `allow_special`.
        """

    @abc.abstractmethod
    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text of some tokens."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The document `from_json` reads, which the `tokenizers` package reads too."""

    def pieces(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """Default: the text of each token by itself."""
        return [self.decode([i]) for i in ids]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} tokens)"

    @property
    def start(self) -> int | None:
        """Default: no token stands before every text that the vocabulary was made for."""
        return None

    @functools.cached_property
    def vocab(self) -> Mapping[str, int]:
        """The number of every token."""
        return {token: i for i, token in enumerate(self.tokens)}

    @functools.cached_property
    def canonical(self) -> str:
        """The document as compact text with sorted keys: equal for equal tokenizers."""
        return compact(self.to_json())

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the document."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    def check(self, ids: Iterable[SupportsIndex]) -> list[int]:
        """The numbers as a list, unless one is outside the vocabulary."""
        numbers = [operator.index(i) for i in ids]
        if numbers and not (min(numbers) >= 0 and max(numbers) < len(self)):
            index, i = next((p, i) for p, i in enumerate(numbers) if not 0 <= i < len(self))
            raise ArgumentError(f"ids[{index}]={i}: a token number must be from 0 to {len(self) - 1}")
        return numbers


def document(
    model: Mapping[str, Any],
    pre_tokenizer: Mapping[str, Any] | None,
    decoder: Mapping[str, Any] | None,
    special: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """A whole tokenizer file around its model."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": token, **plain} for token, i in (special or {}).items()]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": None if pre_tokenizer is None else dict(pre_tokenizer),
        "post_processor": None,
        "decoder": None if decoder is None else dict(decoder),
        "model": dict(model),
    }


def bpe_model(
    tokens: Sequence[str], merges: Iterable[tuple[str, str]], unknown: str | None = None
) -> dict[str, Any]:
    """The model part of the file of a tokenizer that merges."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": [list(pair) for pair in merges],
    }


def unknown_characters(text: str, known: Iterable[str]) -> ArgumentError:
    """The error for characters that have no token, listed in the order in which they come.

    >>> raise unknown_characters("naïve 🙂", "aenv ")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: the text holds characters that the tokenizer does not know: 'ï', '🙂'
           leave them out, or train with data.tokenizer=byte-bpe, which knows every character
    """
    inside = set(known)
    strange = list(dict.fromkeys(c for c in text if c not in inside))
    shown = ", ".join(map(repr, strange[:_LISTED]))
    more = f" and {len(strange) - _LISTED} more" if len(strange) > _LISTED else ""
    return ArgumentError(
        f"the text holds characters that the tokenizer does not know: {shown}{more}",
        remedy="leave them out, or train with data.tokenizer=byte-bpe, which knows every character",
    )


def listed(vocab: Mapping[str, int]) -> tuple[str, ...]:
    """Tokens by number; the numbers must be 0, 1, 2 and so on, each once."""
    tokens = sorted(vocab, key=vocab.__getitem__)
    gap = next((i for i, token in enumerate(tokens) if vocab[token] != i), None)
    if gap is not None:
        raise ArgumentError(f"vocab: token number {gap} is missing or given twice")
    half = next((token for token in tokens if any("\ud800" <= c <= "\udfff" for c in token)), None)
    if half is not None:
        raise ArgumentError(f"vocab: {half!r} holds half of a surrogate pair, which is no character")
    return tuple(tokens)


__all__ = ["Ids", "Tokenizer", "bpe_model", "document", "listed", "unknown_characters"]
