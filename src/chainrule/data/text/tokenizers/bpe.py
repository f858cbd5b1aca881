"""Byte pair encoding on characters: frequent neighbours grow into tokens, inside chunks that merges never leave."""

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.data.text.tokenizers import merging
from chainrule.data.text.tokenizers.encoding import Encoder, plain_pieces, special_pieces
from chainrule.data.text.tokenizers.splitting import LOSSY, RULES, WORDS_PATTERN, split
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer, bpe_model, document, unknown_characters

_COMPONENTS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "words": {
        "type": "Split",
        "pattern": {"Regex": WORDS_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    },
    "whitespace": {"type": "Whitespace"},
    "spaces": {"type": "WhitespaceSplit"},
}


@final
@dataclass(frozen=True, repr=False)
class BPE(Tokenizer):
    """Characters and what they were merged into.

    >>> tokenizer = BPE.train("abracadabra", vocab=8, rule="none", min_frequency=0)
    >>> [tokenizer.tokens[i] for i in tokenizer.encode("abracadabra")]
    ['abra', 'c', 'a', 'd', 'abra']
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    rule: str = "words"
    """How a text is cut into chunks first: see `splitting.split`."""
    special: tuple[str, ...] = ()
    unknown: str | None = None
    """The token for characters outside the vocabulary, which are an error without one."""

    def __post_init__(self) -> None:
        check_choice("BPE", "rule", self.rule, RULES)
        for token in (*self.special, *([self.unknown] if self.unknown is not None else [])):
            if token not in self.vocab:
                raise ArgumentError(f"{token!r} is named as a token but is not in the vocabulary")
        Encoder.build(self.vocab, self.merges)  # says what is wrong with the merges

    @classmethod
    def train(
        cls,
        text: str,
        vocab: int = 1000,
        *,
        rule: str = "words",
        min_frequency: int = 2,
        special: Iterable[str] = (),
        alphabet: Iterable[str] = (),
    ) -> "BPE":
        """Learn from a text; characters of `alphabet` are in the vocabulary even where the text lacks them.

        Names of special tokens in the text are no part of what is learnt from.
        """
        special = tuple(special)
        chunks = Counter(chunk for piece in plain_pieces(text, special) for chunk in split(piece, rule))
        first = merging.start(special, sorted({*alphabet, *"".join(chunks)}), vocab)
        tokens, steps = merging.learn(chunks, first, vocab, min_frequency)
        return cls(tokens, tuple((step.left, step.right) for step in steps), rule, special)

    @functools.cached_property
    def _encoder(self) -> Encoder:
        return Encoder.build(self.vocab, self.merges)

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Token numbers; with `allow_special`, names of special tokens in the text become these tokens."""
        found: list[int] = []
        for piece, is_special in special_pieces(text, self.special if allow_special else ()):
            if is_special:
                found.append(self.vocab[piece])
                continue
            chunks = split(piece, self.rule)
            try:
                found += self._encoder.encode(chunks, self._symbols)
            except KeyError:
                raise unknown_characters("".join(chunks), self._letters) from None
        return np.array(found, np.int32)

    @functools.cached_property
    def _letters(self) -> dict[str, int]:
        """The characters among the tokens; a special token is not one, however short its name."""
        return {token: i for token, i in self.vocab.items() if len(token) == 1 and token not in self.special}

    def _symbols(self, chunk: str) -> list[int]:
        letters = self._letters
        if self.unknown is None:
            return [letters[c] for c in chunk]
        other = self.vocab[self.unknown]
        return [letters.get(c, other) for c in chunk]

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text; where the rule drops white space, the tokens with a space between them."""
        return (" " if self.rule in LOSSY else "").join(self.tokens[i] for i in self.check(ids))

    def to_json(self) -> dict[str, Any]:
        """A file with a model of merges."""
        decoder = None if self.rule in LOSSY else {"type": "Fuse"}
        model = bpe_model(self.tokens, self.merges, self.unknown)
        numbers = {token: self.vocab[token] for token in self.special}
        return document(model, pre_tokenizer(self.rule), decoder, numbers)


def pre_tokenizer(rule: str) -> dict[str, Any] | None:
    """How the file of a tokenizer names a rule of splitting."""
    return _COMPONENTS[rule]


def rule_of(component: Any) -> str | None:
    """The rule that a part of a file names, if it is one of ours."""
    return next((rule for rule, known in _COMPONENTS.items() if known == component), None)


__all__ = ["BPE", "pre_tokenizer", "rule_of"]
