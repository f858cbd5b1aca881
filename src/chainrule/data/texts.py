"""From the characters of a text to tokens in three splits.

The text is cut into three consecutive pieces first; a tokenizer that is learnt sees the training piece alone, so that
validation and test measure it too. Only the alphabet of tokenizers of characters comes from the whole text: a
character that training lacks would otherwise have no token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Integer

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import tokenizers
from chainrule.data.base import Schema, Split, Windows
from chainrule.data.scan import Contents
from chainrule.data.splits import NAMES, sizes


@final
@dataclass(frozen=True)
class Tokenized:
    """Windows of tokens, and what the tokens are."""

    splits: list[Split]
    symbols: tuple[str, ...]
    tokenizer: str = ""
    """Its JSON; empty where every symbol is a character."""


def tokenize(contents: Contents, shares: Sequence[float]) -> Tokenized:
    """The three splits of a text."""
    lengths = sizes(len(contents), shares)
    pieces = np.split(contents.x, np.cumsum(lengths)[:-1])
    width = np.array([len(symbol.encode()) for symbol in contents.symbols])
    held = [int(np.bincount(piece, minlength=len(width)) @ width) for piece in pieces]
    if contents.tokenizer == "character" and contents.vocab is None:
        return Tokenized(_windows(pieces, held, contents.window, "characters"), contents.symbols)
    texts = [_text(contents, piece) for piece in pieces]
    tokenizer = choose(contents.tokenizer, contents.vocab, texts[0], contents.symbols)
    kind = np.min_scalar_type(max(len(tokenizer) - 1, 0))
    tokens = [tokenizer.encode(text).astype(kind) for text in texts]
    return Tokenized(_windows(tokens, held, contents.window, "tokens"), tokenizer.tokens, tokenizer.canonical)


def choose(name: str, vocab: int | None, training: str, alphabet: Sequence[str]) -> tokenizers.Tokenizer:
    """The tokenizer of that name, learnt from the training text, or the one in a file."""
    if name in tokenizers.KINDS:
        return tokenizers.train(name, training, vocab, alphabet)
    if vocab is not None:
        raise ArgumentError(
            f"vocab={vocab}: the tokenizer of {Path(name).name} has its own vocabulary",
            remedy="leave vocab out",
        )
    return tokenizers.read(name)


def _text(contents: Contents, piece: Integer[np.ndarray, " characters"]) -> str:
    codes = np.array([ord(symbol) for symbol in contents.symbols], "<u4")
    return codes[piece].tobytes().decode("utf-32-le")


def _windows(tokens: Sequence[np.ndarray], held: Sequence[int], window: int, unit: str) -> list[Split]:
    short = [f"{name} ({len(t):,})" for name, t in zip(NAMES, tokens, strict=True) if len(t) <= window]
    if short:
        fitting = min(map(len, tokens)) - 1
        raise DataError(
            f"the text is too short: window={window} predicts that many {unit} after a first one, "
            f"more than there are in {', '.join(short)}",
            remedy=f"use data.window={fitting} or less" if fitting >= 2 else "give a longer text",
        )
    strides = (1, window, window)  # training crops anywhere, judging counts every symbol once
    return [
        Windows({"symbols": t}, window, stride, size)
        for t, stride, size in zip(tokens, strides, held, strict=True)
    ]


def passages(schema: Schema, rows: Integer[np.ndarray, "rows time"]) -> list[str]:
    """Rows of symbol numbers as text; a row ends where a negative number stands.

    >>> passages(Schema("text", (3,), symbols=("a", "b")), np.array([[1, 0, 1], [1, -1, -1]]))
    ['bab', 'b']
    """
    tokenizer = tokenizers.of(schema)
    return [tokenizer.decode(row[: np.argmax(row < 0)] if (row < 0).any() else row) for row in rows]


__all__ = ["Tokenized", "choose", "passages", "tokenize"]
