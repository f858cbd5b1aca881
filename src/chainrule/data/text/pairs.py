"""Pairs of texts: from two columns of characters to rows of tokens with an end mark, and back to text.

The end mark is the number after the last of the vocabulary. It closes every row and fills it up to the common length,
so a row says itself how long it is, and no text, whatever it contains, can be mistaken for a mark.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, final

import numpy as np
from jaxtyping import Int, Integer

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.batches import Batch
from chainrule.data.division import Positions
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenization import choose, of_characters
from chainrule.data.text.tokenizers import Tokenizer


@final
@dataclass(frozen=True, repr=False)
class Pairs(Split):
    """Texts and the texts they become: tokens of the one along `arrays["x"]`, of the other along `arrays["y"]`.

    A row holds its tokens, then, up to the full length, the number after the last of the vocabulary: the end mark.
    """

    arrays: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.arrays["x"])

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Pairs by number, as int32."""
        return Batch(arrays["x"][index].astype(np.int32), arrays["y"][index].astype(np.int32))


def divide(contents: Contents, schema: Schema, positions: Sequence[Positions]) -> tuple[Schema, list[Split]]:
    """The splits of some pairs, and their schema; tokenizers that are learnt see the training pairs alone.

    Alphabets of tokenizers of characters come from all pairs, as those of any text.
    """
    assert contents.y is not None, "pairs have two sides"
    if of_characters(contents):
        sides = [contents.x, contents.y]
    else:
        both = ((contents.x, contents.alphabet), (contents.y, contents.target_alphabet))
        made = [tokenized(rows, alphabet, contents, positions[0]) for rows, alphabet in both]
        sides = [rows for rows, _ in made]
        source, target = (tokenizer for _, tokenizer in made)
        schema = replace(
            schema,
            tokens=source.tokens,
            tokenizer=source.canonical,
            target_tokens=target.tokens,
            target_tokenizer=target.canonical,
        )
    schema = replace(schema, shape=sides[0].shape[1:], target_shape=sides[1].shape[1:])
    return schema, [Pairs({"x": sides[0][part], "y": sides[1][part]}) for part in positions]


def labelled(
    contents: Contents, schema: Schema, positions: Sequence[Positions]
) -> tuple[Schema, list[Split]]:
    """The splits of texts that each belong to a class, and their schema; the texts are those of pairs."""
    assert contents.y is not None, "every text has a class"
    x = contents.x
    if not of_characters(contents):
        x, tokenizer = tokenized(x, contents.alphabet, contents, positions[0])
        schema = replace(schema, tokens=tokenizer.tokens, tokenizer=tokenizer.canonical)
    schema = replace(schema, shape=x.shape[1:])
    return schema, [Pairs({"x": x[part], "y": contents.y[part]}) for part in positions]


def padded(rows: Sequence[Integer[np.ndarray, " _"]], end: int) -> Integer[np.ndarray, "rows length"]:
    """Rows of token numbers, each closed by the end mark and filled up with it, in the smallest type.

    >>> padded([np.array([0, 1]), np.array([1])], end=2).tolist()
    [[0, 1, 2], [1, 2, 2]]
    """
    out = np.full((len(rows), max(map(len, rows), default=0) + 1), end, np.min_scalar_type(end))
    for index, row in enumerate(rows):
        out[index, : len(row)] = row
    return out


def encode(schema: Schema, text: str, *, allow_special: bool = False) -> Int[np.ndarray, " length"]:
    """A text to be translated, as a row of `x`; with `allow_special`, names of special tokens become these tokens.

    >>> encode(Schema("text", (5,), "text", (3,), tokens=("a", "b"), target_tokens=("c",)), "bab").tolist()
    [1, 0, 1, 2, 2]
    """
    return _row(tokenizers.of(schema), text, *schema.shape, allow_special=allow_special)


def encode_target(schema: Schema, text: str, *, allow_special: bool = False) -> Int[np.ndarray, " length"]:
    """A text that another one becomes, as a row of `y`; special tokens as in `encode`.

    >>> encode_target(Schema("text", (5,), "text", (4,), target_tokens=("c", "d")), "dc").tolist()
    [1, 0, 2, 2]
    """
    return _row(tokenizers.of_target(schema), text, *schema.target_shape, allow_special=allow_special)


def _row(tokenizer: Tokenizer, text: str, length: int, *, allow_special: bool) -> Int[np.ndarray, " length"]:
    ids = tokenizer.encode(text, allow_special=allow_special)
    if len(ids) >= length:
        raise ArgumentError(
            f"the text has {len(ids)} tokens; the model was made for {length - 1} at most",
            remedy="give it in shorter pieces, or train on longer ones",
        )
    return np.concatenate([ids, np.full(length - len(ids), len(tokenizer), np.int32)]).astype(np.int32)


def adopted(
    contents: Contents, rows: Positions, schema: Schema, where: str
) -> Int[np.ndarray, "rows length"]:
    """Texts of another source as rows of the tokens of a schema."""
    letters = tokenizers.Character(tuple(contents.alphabet))
    found = []
    for row in rows.tolist():
        try:
            text = _text(letters, contents.x[row])
            found.append(encode(schema, text, allow_special=contents.allow_special))
        except ArgumentError as error:
            raise DataError(f"{where}: text {row + 1}: {error.message}", remedy=error.remedy) from None
    return np.stack(found)


def source_text(schema: Schema, row: Iterable[SupportsIndex]) -> str:
    """The text of a row of `x`, up to its end mark."""
    return _text(tokenizers.of(schema), row)


def target_text(schema: Schema, row: Iterable[SupportsIndex]) -> str:
    """The text of a row of `y`, up to its end mark.

    >>> target_text(Schema("text", (5,), "text", (4,), target_tokens=("c", "d")), [1, 0, 2, 2])
    'dc'
    """
    return _text(tokenizers.of_target(schema), row)


def pieces(tokenizer: Tokenizer, row: Iterable[SupportsIndex]) -> list[str]:
    """The text of each token of a row by itself, up to its end mark."""
    return tokenizer.pieces(_up_to_the_end(row, len(tokenizer)))


def _text(tokenizer: Tokenizer, row: Iterable[SupportsIndex]) -> str:
    return tokenizer.decode(_up_to_the_end(row, len(tokenizer)))


def _up_to_the_end(row: Iterable[SupportsIndex], end: int) -> list[int]:
    ids = [operator.index(i) for i in row]
    return ids[: ids.index(end)] if end in ids else ids


def tokenized(
    rows: Integer[np.ndarray, "rows length"], alphabet: Sequence[str], contents: Contents, train: Positions
) -> tuple[Integer[np.ndarray, "rows tokens"], Tokenizer]:
    """Rows of characters as rows of tokens, with the tokenizer that the contents name."""
    letters = tokenizers.Character(tuple(alphabet))
    texts = [_text(letters, row) for row in rows]
    # Each text on a line of its own: chunks that merges cannot leave do not reach over the end of a line.
    training = "\n".join(texts[index] for index in train)
    tokenizer = choose(contents, training, alphabet)
    ids = [tokenizer.encode(text, allow_special=contents.allow_special) for text in texts]
    return padded(ids, len(tokenizer)), tokenizer


__all__ = [
    "Pairs",
    "adopted",
    "divide",
    "encode",
    "encode_target",
    "labelled",
    "padded",
    "pieces",
    "source_text",
    "target_text",
    "tokenized",
]
