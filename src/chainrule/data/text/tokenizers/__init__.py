"""Tokenizers: characters, words, byte pair encoding on characters and on bytes, and their files.

>>> tokenizer = train("byte-bpe", "low lower lowest, slow slower slowest", vocab=260)
>>> [tokenizer.tokens[i] for i in tokenizer.encode("slowly")]
['s', 'low', 'l', 'y']
"""

import functools
import json
from collections.abc import Iterable, Sequence

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers.bpe import BPE
from chainrule.data.text.tokenizers.byte_bpe import ByteBPE
from chainrule.data.text.tokenizers.character import Character
from chainrule.data.text.tokenizers.encoding import plain_pieces
from chainrule.data.text.tokenizers.files import from_json, read, write
from chainrule.data.text.tokenizers.folders import extended, padded, read_folder
from chainrule.data.text.tokenizers.package import Packaged
from chainrule.data.text.tokenizers.sentence_piece import SentencePiece
from chainrule.data.text.tokenizers.splitting import split
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.data.text.tokenizers.trace import Trace, trace
from chainrule.data.text.tokenizers.word import Word
from chainrule.data.text.tokenizers.word_piece import WordPiece

KINDS = ("character", "word", "bpe", "byte-bpe")
"""The tokenizers that `train` makes, by name."""
VOCAB = {"word": 10_000, "bpe": 1000, "byte-bpe": 1000}
"""How many tokens they have unless told otherwise."""


def train(
    kind: str,
    text: str,
    vocab: int | None = None,
    alphabet: Iterable[str] = (),
    special: Sequence[str] = (),
) -> Tokenizer:
    """A tokenizer learnt from a text.

    Characters of `alphabet` get a token in the tokenizers of characters even where the text lacks them. Tokens of
    `special` come on top of what is learnt, which their names in the text are no part of.
    """
    check_choice("train", "kind", kind, KINDS)
    if kind == "character":
        if vocab is not None:
            raise ArgumentError(
                f"vocab={vocab}: a character tokenizer has as many tokens as there are characters",
                remedy="leave data.vocab out, or use data.tokenizer=bpe or byte-bpe",
            )
        return extended(Character(tuple(sorted({*"".join(plain_pieces(text, special)), *alphabet}))), special)
    size = VOCAB[kind] if vocab is None else vocab
    if kind == "word":
        return Word.train(text, size, special=special)
    if kind == "byte-bpe":
        return ByteBPE.train(text, size, special=special)
    return BPE.train(text, size, alphabet=alphabet, special=special)


def of(schema: Schema) -> Tokenizer:
    """The tokenizer of some text data, from their schema alone.

    >>> of(Schema("text", (8,), tokens=("a", "b"))).decode([1, 0, 1])
    'bab'
    """
    if not schema.tokens:
        raise ArgumentError(f"{schema.kind} data have no tokenizer; only text has one")
    return _parsed(schema.tokenizer) if schema.tokenizer else Character(schema.tokens)


def of_target(schema: Schema) -> Tokenizer:
    """The tokenizer of the texts that are targets.

    >>> of_target(Schema("text", (8,), "text", (3,), target_tokens=("a", "b"))).decode([1, 0])
    'ba'
    """
    if not schema.target_tokens:
        raise ArgumentError(f"the target of these data is {schema.target}; only a text has a tokenizer")
    return _parsed(schema.target_tokenizer) if schema.target_tokenizer else Character(schema.target_tokens)


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> Tokenizer:
    return from_json(json.loads(text))


__all__ = [
    "BPE",
    "KINDS",
    "VOCAB",
    "ByteBPE",
    "Character",
    "Packaged",
    "SentencePiece",
    "Tokenizer",
    "Trace",
    "Word",
    "WordPiece",
    "extended",
    "from_json",
    "of",
    "of_target",
    "padded",
    "read",
    "read_folder",
    "split",
    "trace",
    "train",
    "write",
]
