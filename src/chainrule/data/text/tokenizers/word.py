"""The word tokenizer: the most frequent words of a text are tokens, all others are one unknown token.

A word is a chunk of the rule "words" and so carries the space in front of it: whatever the vocabulary knows comes
back exactly, and a text takes about one token for a word.
"""

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers import merging
from chainrule.data.text.tokenizers.bpe import pre_tokenizer
from chainrule.data.text.tokenizers.encoding import plain_pieces, special_pieces
from chainrule.data.text.tokenizers.splitting import split
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer, document

UNKNOWN = "<unk>"


@final
@dataclass(frozen=True, repr=False)
class Word(Tokenizer):
    """One token for each known word; `unknown` for the others.

    >>> tokenizer = Word.train("the cat and the dog and the bird", vocab=3)
    >>> tokenizer.tokens
    ('<unk>', ' and', ' the')
    >>> tokenizer.decode(tokenizer.encode("all the cats and the dogs"))
    '<unk> the<unk> and the<unk>'
    """

    tokens: tuple[str, ...]
    unknown: str = UNKNOWN
    special: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.unknown not in self.tokens:
            raise ArgumentError(f"unknown={self.unknown!r}: it must be one of the tokens")
        for token in self.special:
            if token not in self.vocab:
                raise ArgumentError(f"special: {token!r} is not in the vocabulary")

    @classmethod
    def train(
        cls, text: str, vocab: int = 10_000, min_frequency: int = 2, *, special: Iterable[str] = ()
    ) -> "Word":
        """The most frequent words, of equal ones the first in the order of code points.

        Of the `vocab` tokens one is for unknown words and the special ones are for no words. Words that come once stay
        out, so that a model trained on the same text meets the unknown token.
        """
        first = merging.start([UNKNOWN, *special], (), vocab)
        counts = Counter(word for piece in plain_pieces(text, first[1:]) for word in split(piece, "words"))
        frequent = [word for word, count in counts.items() if count >= min_frequency and word not in first]
        frequent.sort(key=lambda word: (-counts[word], word))
        return cls((*first, *frequent[: vocab - len(first)]), special=first[1:])

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Token numbers; with `allow_special`, names of special tokens in the text become these tokens."""
        found: list[int] = []
        for piece, is_special in special_pieces(text, self.special if allow_special else ()):
            if is_special:
                found.append(self.vocab[piece])
            else:
                found += [self._words.get(word, self.vocab[self.unknown]) for word in split(piece, "words")]
        return np.array(found, np.int32)

    @functools.cached_property
    def _words(self) -> dict[str, int]:
        """The words among the tokens."""
        return {token: i for token, i in self.vocab.items() if token not in self.special}

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The words with these numbers; an unknown one is shown as such."""
        return "".join(self.tokens[i] for i in self.check(ids))

    def to_json(self) -> dict[str, Any]:
        """A file with a model of words."""
        model = {"type": "WordLevel", "vocab": dict(self.vocab), "unk_token": self.unknown}
        numbers = {token: self.vocab[token] for token in self.special}
        return document(model, pre_tokenizer("words"), {"type": "Fuse"}, numbers)


__all__ = ["UNKNOWN", "Word"]
