"""Answers of models that end in logits, by name: tokens, tokens of a target and its end, classes."""

import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data import kinds, targets
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import Tokenizer

END = "end"
"""What the end of a target is called, which is no text."""


def tokenizer_of(schema: Schema) -> Tokenizer | None:
    """That of the tokens that are answers; none where classes are."""
    if targets.of(schema).has_tokens:
        return tokenizers.of_target(schema)
    return tokenizers.of(schema) if kinds.of(schema).has_tokens else None


def name_of(schema: Schema, number: int) -> str:
    """What an answer is called, with white space made visible.

    >>> name_of(Schema("image", (8, 8, 1), "class", classes=("cat", "dog")), 1)
    'dog'
    """
    tokenizer = tokenizer_of(schema)
    if tokenizer is None:
        return schema.classes[number]
    if number >= len(tokenizer):
        return END
    (text,) = tokenizer.pieces(np.array([number]))
    return repr(text)[1:-1].replace(" ", "␣")


def number_of(schema: Schema, name: str, what: str) -> int:
    """The number of an answer; `what` is the setting it came from.

    >>> number_of(Schema("image", (8, 8, 1), "class", classes=("cat", "dog")), "cot", "answer")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: answer: unknown class 'cot' (did you mean 'cat'?)
           known: cat, dog
    """
    tokenizer = tokenizer_of(schema)
    if tokenizer is None:
        if name not in schema.classes:
            known = list(schema.classes)
            raise ArgumentError(
                f"{what}: unknown class {name!r}{suggest(name, known)}", remedy=f"known: {', '.join(known)}"
            )
        return schema.classes.index(name)
    if targets.of(schema).has_tokens and name == END:
        return len(tokenizer)
    found = tokenizer.encode(name)
    if len(found) != 1:
        raise ArgumentError(
            f"{what}: {name!r} is {len(found)} tokens for this model",
            remedy="take one that is a single token",
        )
    return int(found[0])


__all__ = ["END", "name_of", "number_of", "tokenizer_of"]
