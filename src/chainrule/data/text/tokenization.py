"""Tokenization of a text: from its characters to tokens in three splits.

The text is cut into three consecutive pieces first; a tokenizer that is learnt sees the training piece alone, so that
validation and test measure it too. Only the alphabet of tokenizers of characters comes from the whole text: a
character that training lacks would otherwise have no token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Integer

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.division import NAMES, Positions, sizes
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.text import streaming, tokenizers
from chainrule.data.text.packing import Packed, pack
from chainrule.data.text.windows import Windows

_LONGER = "give a longer text, or larger parts: data.split=0.6,0.2,0.2"
"""What helps where a part has no two tokens to predict."""


@final
@dataclass(frozen=True)
class _Tokenized:
    """Windows of tokens, and what the tokens are."""

    splits: Sequence[Windows | Packed]
    tokens: tuple[str, ...]
    tokenizer: str = ""
    """Its JSON; empty where every token is a character."""


def divide(contents: Contents, schema: Schema, shares: Sequence[float]) -> tuple[Schema, list[Split]]:
    """The three splits of a text, and their schema."""
    found = _tokenized(contents, shares)
    window = found.splits[0].length
    schema = replace(schema, shape=(window + 1,), tokens=found.tokens, tokenizer=found.tokenizer)
    return schema, [*found.splits]


def _tokenized(contents: Contents, shares: Sequence[float]) -> _Tokenized:
    if contents.documents is not None:
        return _documents(contents, contents.documents, shares)
    lengths = sizes(len(contents), shares)
    if contents.stream is not None:
        found = streaming.tokenized(contents.stream, lengths, contents.tokenizer, contents.vocab)
        held = [_TextSize(*both) for both in zip(found.bytes, found.characters, strict=True)]
        splits = _windows(contents, found.tokens, held, "tokens")
        return _Tokenized(splits, found.tokenizer.tokens, found.tokenizer.canonical)
    pieces = np.split(contents.x, np.cumsum(lengths)[:-1])
    held = [_size(contents, [piece]) for piece in pieces]
    if of_characters(contents):
        return _Tokenized(_windows(contents, pieces, held, "characters"), contents.alphabet)
    texts = [_text(contents, piece) for piece in pieces]
    tokenizer = choose(contents, texts[0], contents.alphabet)
    kind = np.min_scalar_type(max(len(tokenizer) - 1, 0))
    special = contents.allow_special
    tokens = [tokenizer.encode(text, allow_special=special).astype(kind) for text in texts]
    return _Tokenized(_windows(contents, tokens, held, "tokens"), tokenizer.tokens, tokenizer.canonical)


def of_documents(lengths: Integer[np.ndarray, " documents"], shares: Sequence[float]) -> list[Positions]:
    """Which documents each split has: they stay in their order."""
    return np.split(np.arange(len(lengths)), np.cumsum(sizes(len(lengths), shares))[:-1])


def _documents(
    contents: Contents, lengths: Integer[np.ndarray, " documents"], shares: Sequence[float]
) -> _Tokenized:
    """The three splits of some documents, each of which belongs to one of them; begin marks stand before each."""
    if contents.streams:
        raise ArgumentError(
            f"streams={contents.streams} and packing=true: documents have no order to be read on in",
            remedy="leave one of the two out",
        )
    pieces = np.split(contents.x, np.cumsum(lengths)[:-1])
    parts = [[pieces[at] for at in part.tolist()] for part in of_documents(lengths, shares)]
    held = [_size(contents, part) for part in parts]
    tokens, canonical = contents.alphabet, ""
    if not of_characters(contents):
        texts = [[_text(contents, piece) for piece in part] for part in parts]
        tokenizer = choose(contents, "".join(texts[0]), contents.alphabet)
        first = [] if tokenizer.start is None else [tokenizer.start]
        kind = np.min_scalar_type(max(len(tokenizer) - 1, 0))
        special = contents.allow_special
        parts = [
            [
                np.concatenate([first, tokenizer.encode(one, allow_special=special)]).astype(kind)
                for one in part
            ]
            for part in texts
        ]
        tokens, canonical = tokenizer.tokens, tokenizer.canonical
    splits = [pack(part, contents.window, **size._asdict()) for part, size in zip(parts, held, strict=True)]
    return _Tokenized(splits, tokens, canonical)


def adopted(contents: Contents, schema: Schema, where: str, *, marked: bool = False) -> Split:
    """Another text, or other documents, in the tokens of a schema; every token is predicted once.

    A text shorter than the passages of training is a passage of its own; `marked` puts the mark before it that the
    vocabulary has for the beginning of a text, if any.
    """
    tokenizer, window = tokenizers.of(schema), schema.shape[0] - 1
    size, special = _size(contents, [contents.x]), contents.allow_special
    if contents.documents is not None:
        pieces = np.split(contents.x, np.cumsum(contents.documents)[:-1])
        first = [] if tokenizer.start is None or not schema.tokenizer else [tokenizer.start]
        parts = [
            np.concatenate([first, tokenizer.encode(_text(contents, one), allow_special=special)])
            for one in pieces
        ]
        return pack([part.astype(np.int32) for part in parts], window, **size._asdict())
    tokens = tokenizer.encode(_text(contents, contents.x), allow_special=special)
    if marked and tokenizer.start is not None:
        tokens = np.concatenate([[tokenizer.start], tokens]).astype(np.int32)
    if len(tokens) < 2:
        raise DataError(
            f"{where}: {len(tokens):,} tokens; the first is given, so that none is left to be predicted",
            remedy="give a longer text",
        )
    window = min(window, len(tokens) - 1)
    return Windows({"tokens": tokens}, window, window, size.bytes, characters=size.characters)


class _TextSize(NamedTuple):
    """How much text there is."""

    bytes: int
    characters: int


def _size(contents: Contents, pieces: Sequence[Integer[np.ndarray, " _"]]) -> _TextSize:
    width = np.array([len(token.encode()) for token in contents.alphabet])
    counts = sum((np.bincount(piece, minlength=len(width)) for piece in pieces), np.zeros(len(width), int))
    return _TextSize(int(counts @ width), int(counts.sum()))


def of_characters(contents: Contents) -> bool:
    """Whether the tokens of a text are its characters, and nothing else."""
    return contents.tokenizer == "character" and contents.vocab is None and not contents.special


def choose(contents: Contents, training: str, alphabet: Sequence[str]) -> tokenizers.Tokenizer:
    """The tokenizer that the contents name, learnt from the training text, or the one in a file."""
    name, vocab = contents.tokenizer, contents.vocab
    if name in tokenizers.KINDS:
        return tokenizers.train(name, training, vocab, alphabet, contents.special)
    if vocab is not None:
        raise ArgumentError(
            f"vocab={vocab}: the tokenizer of {Path(name).name} has its own vocabulary",
            remedy="leave vocab out",
        )
    return tokenizers.extended(tokenizers.read(name), contents.special)


def _text(contents: Contents, piece: Integer[np.ndarray, " characters"]) -> str:
    codes = np.array([ord(token) for token in contents.alphabet], "<u4")
    return codes[piece].tobytes().decode("utf-32-le")


def _windows(
    contents: Contents, tokens: Sequence[np.ndarray], held: Sequence[_TextSize], unit: str
) -> list[Windows]:
    window, streams = contents.window, contents.streams
    fitting = min(len(t) for t in tokens if len(t)) - 1
    if contents.shortens and fitting >= 2:
        window = min(window, fitting)
    short = [f"{name} ({len(t):,})" for name, t in zip(NAMES, tokens, strict=True) if 0 < len(t) <= window]
    if short:
        raise DataError(
            f"the text is too short: window={window} predicts that many {unit} after a first one, "
            f"more than there are in {', '.join(short)}",
            remedy=f"use data.window={fitting} or less" if fitting >= 2 else _LONGER,
        )
    if streams * window >= len(tokens[0]):
        raise DataError(
            f"streams={streams}: {len(tokens[0]):,} {unit} of training text have no {streams} windows of {window}",
            remedy=f"use data.streams={(len(tokens[0]) - 1) // window} or less, or a smaller data.window",
        )
    # Training crops anywhere, unless it reads on; judging counts every token once.
    strides = (window if streams else 1, window, window)
    return [
        Windows({"tokens": t}, window, stride, size.bytes, own, size.characters)
        for t, stride, size, own in zip(tokens, strides, held, (streams, 0, 0), strict=True)
    ]


def passages(schema: Schema, rows: Integer[np.ndarray, "rows time"]) -> list[str]:
    """Rows of token numbers as text; a row ends where a number stands that is none of a token, as an end mark.

    >>> passages(Schema("text", (3,), tokens=("a", "b")), np.array([[1, 0, 1], [1, -1, -1]]))
    ['bab', 'b']
    """
    tokenizer, last = tokenizers.of(schema), len(schema.tokens) - 1
    ends = [np.append((row < 0) | (row > last), True).argmax() for row in rows]
    return [tokenizer.decode(row[:end]) for row, end in zip(rows, ends, strict=True)]


__all__ = ["adopted", "choose", "divide", "of_characters", "of_documents", "passages"]
