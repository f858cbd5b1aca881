"""Captions: texts that say what an image shows, as rows of tokens with an end mark, and back.

A row holds the tokens of a caption and then, up to the common length, the number after the last of the vocabulary, as
in pairs of texts. A row of end marks alone is the empty caption, which says nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import SupportsIndex

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data.division import Positions
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.text import pairs, tokenizers


def spelled(caption: str) -> str:
    """A caption with one space before every word, so that a word is the same token wherever it stands.

    >>> spelled("a  three\\n")
    ' a three'
    """
    return "".join(f" {word}" for word in caption.split())


def tokenise(contents: Contents, schema: Schema, train: Positions) -> tuple[Schema, Contents]:
    """Captions in tokens instead of characters, and the schema with their vocabulary; training alone decides it."""
    assert contents.y is not None, "captions are there"
    rows, tokenizer = pairs.tokenized(contents.y, contents.target_alphabet, contents, train)
    schema = replace(
        schema,
        target_shape=rows.shape[1:],
        target_tokens=tokenizer.tokens,
        target_tokenizer=tokenizer.canonical,
    )
    return schema, replace(contents, y=rows.astype(np.int32))


def encode(schema: Schema, caption: str) -> Int[np.ndarray, " length"]:
    """A caption as a row of `y`; a word that has no token of its own is an error, for it would say nothing.

    >>> import chainrule.data
    >>> schema = chainrule.data.load("captioned-digits").schema
    >>> text(schema, encode(schema, "two threes"))
    'two threes'
    >>> encode(schema, "a tree")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: no caption in training has the word 'tree' (did you mean 'three'?)
    """
    tokenizer = tokenizers.of_target(schema)
    if isinstance(tokenizer, tokenizers.Word):
        words = [word.strip() for word in tokenizer.tokens if word != tokenizer.unknown]
        for word in tokenizers.split(spelled(caption), "words"):
            if word not in tokenizer.vocab:
                shown = word.strip()
                raise ArgumentError(f"no caption in training has the word {shown!r}{suggest(shown, words)}")
    ids = tokenizer.encode(spelled(caption))
    (length,) = schema.target_shape
    if len(ids) >= length:
        raise ArgumentError(
            f"the caption has {len(ids)} tokens; the longest in training has {length - 1}",
            remedy="say it in fewer words",
        )
    return np.concatenate([ids, np.full(length - len(ids), len(tokenizer))]).astype(np.int32)


def text(schema: Schema, row: Iterable[SupportsIndex]) -> str:
    """The caption of a row of `y`."""
    return pairs.target_text(schema, row).strip()


__all__ = ["encode", "spelled", "text", "tokenise"]
