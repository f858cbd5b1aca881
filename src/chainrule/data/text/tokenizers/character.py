"""The character tokenizer: every character of a text is a token.

As a file it is a tokenizer that merges, without any merges.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer, bpe_model, document, unknown_characters


@final
@dataclass(frozen=True, repr=False)
class Character(Tokenizer):
    """One token for each character, in the order of their code points.

    >>> tokenizer = Character.train("abba")
    >>> tokenizer.encode("abba").tolist(), tokenizer.decode([1, 0])
    ([0, 1, 1, 0], 'ba')
    """

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        odd = next((token for token in self.tokens if len(token) != 1), None)
        if odd is not None or len(set(self.tokens)) != len(self.tokens):
            shown = "a token comes twice" if odd is None else f"{odd!r} is not one character"
            raise ArgumentError(f"tokens: {shown}; each must be another single character")

    @classmethod
    def train(cls, text: str) -> "Character":
        """The tokenizer of the characters of a text."""
        return cls(tuple(sorted(set(text))))

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:  # noqa: ARG002  # it has none
        """The numbers of the characters."""
        vocab = self.vocab
        try:
            return np.fromiter((vocab[c] for c in text), np.int32, len(text))
        except KeyError:
            raise unknown_characters(text, vocab) from None

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The characters with these numbers."""
        return "".join(self.tokens[i] for i in self.check(ids))

    def to_json(self) -> dict[str, Any]:
        """A file without merges."""
        return document(bpe_model(self.tokens, ()), None, {"type": "Fuse"})


__all__ = ["Character"]
