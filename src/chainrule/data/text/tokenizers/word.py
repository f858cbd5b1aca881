"""The word tokenizer: the most frequent words of a text are tokens, all others are one unknown token.

A word is a chunk of the rule "words" and so carries the space in front of it: whatever the vocabulary knows comes
back exactly, and a text takes about one token for a word.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.bpe import pre_tokenizer
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

    def __post_init__(self) -> None:
        if self.unknown not in self.tokens:
            raise ArgumentError(f"unknown={self.unknown!r}: it must be one of the tokens")

    @classmethod
    def train(cls, text: str, vocab: int = 10_000, min_frequency: int = 2) -> "Word":
        """The `vocab` - 1 most frequent words, of equal ones the first in the order of code points.

        Words that come once stay out, so that a model trained on the same text meets the unknown token.
        """
        counts = Counter(split(text, "words"))
        frequent = [word for word, count in counts.items() if count >= min_frequency and word != UNKNOWN]
        frequent.sort(key=lambda word: (-counts[word], word))
        return cls((UNKNOWN, *frequent[: max(vocab - 1, 0)]))

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:  # noqa: ARG002  # it has none
        """The numbers of the words."""
        unknown = self.vocab[self.unknown]
        return np.array([self.vocab.get(word, unknown) for word in split(text, "words")], np.int32)

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The words with these numbers; an unknown one is shown as such."""
        return "".join(self.tokens[i] for i in self.check(ids))

    def to_json(self) -> dict[str, Any]:
        """A file with a model of words."""
        model = {"type": "WordLevel", "vocab": dict(self.vocab), "unk_token": self.unknown}
        return document(model, pre_tokenizer("words"), {"type": "Fuse"})


__all__ = ["UNKNOWN", "Word"]
