"""Texts of one's own as the tokens of a model."""

import numpy as np
from jaxtyping import Int, Num

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers


def tokens_of(
    schema: Schema, text: str, *, most: int, least: int = 2, what: str = "text"
) -> Int[np.ndarray, " tokens"]:
    """The tokens of a text, no fewer and no more than can be read; `what` is the setting it came from.

    >>> from chainrule.data import load
    >>> tokens_of(load("shakespeare", window=8).schema, "To be or not", most=8)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: text: 12 tokens; this model reads from 2 to 8 at a time
           shorten it
    """
    if not kinds.of(schema).has_tokens:
        raise ArgumentError(f"{what}: the model reads {schema.kind} data, not text", remedy="leave it out")
    tokens = tokenizers.of(schema).encode(text).astype(np.int32)
    check_length(tokens, most=most, least=least, what=what)
    return tokens


def check_length(
    tokens: Int[np.ndarray, " tokens"], *, most: int, least: int = 2, what: str = "text"
) -> None:
    """Raise unless there are no fewer and no more tokens than can be read."""
    if not least <= len(tokens) <= most:
        raise ArgumentError(
            f"{what}: {len(tokens)} tokens; this model reads from {least} to {most} at a time",
            remedy="shorten it" if len(tokens) > most else "give a longer text",
        )


def passages(data: Data, text: str, count: int) -> tuple[Num[np.ndarray, "batch time *rest"], str]:
    """A text of one's own, or so many sequences of the validation split; and what they are called."""
    if text:
        return tokens_of(data.schema, text, most=data.schema.shape[0])[None, :], "the text"
    x = data.val.batch(np.arange(min(count, len(data.val)))).x
    return np.asarray(x), f"{len(x)} validation sequences"


__all__ = ["check_length", "passages", "tokens_of"]
