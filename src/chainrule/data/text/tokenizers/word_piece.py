"""Word pieces: every word is cut greedily into the longest pieces the vocabulary has, as BERT does it.

Text is cleaned, lower-cased and stripped of accents first, so it does not come back as it was (Devlin et al., 2019).
"""

import functools
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.encoding import special_pieces
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer, document

PREFIX = "##"
"""Stands in front of a piece that continues a word."""
LONGEST = 100
"""A longer word is unknown."""
_CLEAN = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m")),
    *((" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


@final
@dataclass(frozen=True, repr=False)
class WordPiece(Tokenizer):
    """The longest pieces that fit, from left to right.

    >>> tokenizer = WordPiece(("[UNK]", "play", "##ing", "the", "piano", "."))
    >>> [tokenizer.tokens[i] for i in tokenizer.encode("Playing the piáno.")]
    ['play', '##ing', 'the', 'piano', '.']
    >>> tokenizer.decode(tokenizer.encode("Playing the piáno."))
    'playing the piano.'
    """

    tokens: tuple[str, ...]
    special: tuple[str, ...] = ()
    """Tokens that stand for no text, such as "[MASK]"."""
    unknown: str = "[UNK]"
    lowercase: bool = True

    def __post_init__(self) -> None:
        for token in (self.unknown, *self.special):
            if token not in self.vocab:
                raise ArgumentError(f"{token!r} is named as a token but is not in the vocabulary")

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Token numbers; with `allow_special`, names of special tokens in the text become these tokens."""
        found: list[int] = []
        for part, is_special in special_pieces(text, self.special if allow_special else ()):
            if is_special:
                found.append(self.vocab[part])
                continue
            for word in words(part, self.lowercase):
                found += self._pieces(word)
        return np.array(found, np.int32)

    def _pieces(self, word: str) -> list[int]:
        found: list[int] = []
        start = 0
        while start < len(word) <= LONGEST:
            prefix = PREFIX if start else ""
            longest = min(len(word), start + self._longest)
            ends = (end for end in range(longest, start, -1) if prefix + word[start:end] in self.vocab)
            end = next(ends, None)
            if end is None:
                break
            found.append(self.vocab[prefix + word[start:end]])
            start = end
        return found if start == len(word) else [self.vocab[self.unknown]]

    @functools.cached_property
    def _longest(self) -> int:
        return max(map(len, self.tokens))

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The pieces put together, with a space between words and none before marks."""
        text = ""
        for index, i in enumerate(self.check(ids)):
            token = self.tokens[i]
            if index:
                token = token.removeprefix(PREFIX) if token.startswith(PREFIX) else f" {token}"
            for old, new in _CLEAN:
                token = token.replace(old, new)
            text += token
        return text

    def to_json(self) -> dict[str, Any]:
        """A file with a model of word pieces."""
        model = {
            "type": "WordPiece",
            "unk_token": self.unknown,
            "continuing_subword_prefix": PREFIX,
            "max_input_chars_per_word": LONGEST,
            "vocab": dict(self.vocab),
        }
        numbers = {token: self.vocab[token] for token in self.special}
        whole = document(
            model,
            {"type": "BertPreTokenizer"},
            {"type": "WordPiece", "prefix": PREFIX, "cleanup": True},
            numbers,
        )
        return {**whole, "normalizer": normalizer(self.lowercase)}


def normalizer(lowercase: bool) -> dict[str, Any]:
    """How the file of a tokenizer names the cleaning of text."""
    flags = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    return {"type": "BertNormalizer", **flags, "lowercase": lowercase}


def words(text: str, lowercase: bool = True) -> list[str]:
    """The words and marks of a text, cleaned.

    >>> words("Café, 東京!")
    ['cafe', ',', '東', '京', '!']
    """
    cleaned = "".join(map(_cleaned, text))
    if lowercase:
        cleaned = "".join(c for c in unicodedata.normalize("NFD", cleaned) if unicodedata.category(c) != "Mn")
        cleaned = cleaned.lower()
    apart = "".join(f" {c} " if _is_mark(c) else c for c in cleaned)
    return apart.split()


def _cleaned(c: str) -> str:
    if c in "\t\n\r" or c.isspace():
        return " "
    if c in "\0\ufffd" or unicodedata.category(c)[0] == "C":
        return ""
    return f" {c} " if any(first <= ord(c) <= last for first, last in _IDEOGRAPHS) else c


def _is_mark(c: str) -> bool:
    ascii_mark = "!" <= c <= "/" or ":" <= c <= "@" or "[" <= c <= "`" or "{" <= c <= "~"
    return ascii_mark or unicodedata.category(c)[0] == "P"


def describes(values: Mapping[str, Any]) -> bool:
    """Whether a file is that of such a tokenizer."""
    model = values.get("model")
    around = values.get("post_processor")
    return (
        isinstance(model, dict)
        and model.get("type") == "WordPiece"
        and model.get("continuing_subword_prefix") == PREFIX
        and model.get("max_input_chars_per_word") == LONGEST
        and values.get("normalizer") in (normalizer(True), normalizer(False))
        and values.get("pre_tokenizer") == {"type": "BertPreTokenizer"}
        and values.get("decoder") == {"type": "WordPiece", "prefix": PREFIX, "cleanup": True}
        # What it puts around a text is left to the model: no tokenizer here does that.
        and (around is None or (isinstance(around, dict) and around.get("type") == "TemplateProcessing"))
        and all(values.get(part) is None for part in ("truncation", "padding"))
    )


__all__ = ["PREFIX", "WordPiece", "describes", "words"]
