"""Merges over a text whose spaces are characters, with bytes for what has no token: the tokenizer of Llama's family.

A text gets a space in front, every space becomes "▁", and pairs are merged across the whole text (Kudo and Richardson,
2018). No token has a "▁" behind another character, so merges never cross the border of a word, and words can be
encoded one at a time. A character without a token becomes the tokens of its UTF-8 bytes, so nothing is unknown.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.encoding import Encoder, special_pieces
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer, bpe_model, document

SPACE = "▁"
UNKNOWN = "<unk>"
START = "<s>"
NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    ],
}
DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""How the vocabulary spells bytes."""
_WORDS = re.compile(f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+")


@final
@dataclass(frozen=True, repr=False)
class SentencePiece(Tokenizer):
    """Words with their space in front, and bytes for the rest.

    >>> tokenizer = SentencePiece.scored(("<unk>", *BYTES, "▁", "a", "▁a"), [0.0] * 257 + [-2, -3, -1])
    >>> [tokenizer.tokens[i] for i in tokenizer.encode("a b")]
    ['▁a', '▁', '<0x62>']
    >>> tokenizer.decode(tokenizer.encode("a b"))
    'a b'
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    special: tuple[str, ...] = ()
    """Tokens that stand for no text, such as "<s>" at the start."""

    def __post_init__(self) -> None:
        lacking = [token for token in (*BYTES, UNKNOWN, *self.special) if token not in self.vocab]
        if lacking:
            raise ArgumentError(f"{lacking[0]!r} is named as a token but is not in the vocabulary")
        crossing = next((t for t in self.tokens if re.search(f"[^{SPACE}]{SPACE}", t)), None)
        if crossing is not None:
            raise ArgumentError(f"token {crossing!r} reaches from one word into the next")
        _ = self._encoder  # says what is wrong with the merges

    @classmethod
    def scored(
        cls, tokens: Sequence[str], scores: Sequence[float], special: Iterable[str] = ()
    ) -> "SentencePiece":
        """From the score of every token: of two pairs, the one whose token has the higher score is merged first."""
        vocab = {token: i for i, token in enumerate(tokens)}
        plain = {*special, *BYTES, UNKNOWN}
        found = []
        for number, token in enumerate(tokens):
            for cut in range(1, len(token)) if token not in plain else ():
                pair = token[:cut], token[cut:]
                if pair[0] in vocab and pair[1] in vocab:
                    found.append((-scores[number], vocab[pair[0]], vocab[pair[1]], pair))
        return cls(tuple(tokens), tuple(pair for *_, pair in sorted(found)), tuple(special))

    @functools.cached_property
    def _encoder(self) -> Encoder:
        return Encoder.build(self.vocab, self.merges)

    @functools.cached_property
    def _values(self) -> Mapping[int, int]:
        """The byte that a token stands for."""
        return {self.vocab[token]: byte for byte, token in enumerate(BYTES)}

    @property
    def start(self) -> int | None:
        """The token "<s>", where it is a special one."""
        return self.vocab[START] if START in self.special else None

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Token numbers; with `allow_special`, names of special tokens in the text become these tokens."""
        found: list[int] = []
        for piece, is_special in special_pieces(text, self.special if allow_special else ()):
            if is_special:
                found.append(self.vocab[piece])
            elif piece:
                words = _WORDS.findall(SPACE + piece.replace(" ", SPACE))
                found += self._encoder.encode(words, self._symbols)
        return np.array(found, np.int32)

    def _symbols(self, word: str) -> list[int]:
        found: list[int] = []
        for c in word:
            number = self.vocab.get(c)
            found += [self.vocab[BYTES[b]] for b in c.encode()] if number is None else [number]
        return found

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text without "<s>" and the space in front; bytes that are no UTF-8 become replacement characters."""
        text = "".join(self.pieces(ids))
        return (text.removeprefix(START) if START in self.special else text).removeprefix(" ")

    def pieces(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """The text of each token, spaces in front included; that of several bytes stands at the last of them."""
        numbers = self.check(ids)
        found, pending = [], b""
        for index, number in enumerate(numbers):
            if number not in self._values:
                found.append(self.tokens[number].replace(SPACE, " "))
                continue
            pending += bytes([self._values[number]])
            last = index + 1 == len(numbers) or numbers[index + 1] not in self._values
            found.append(_text(pending) if last else "")
            pending = b"" if last else pending
        return found

    def to_json(self) -> dict[str, Any]:
        """A file with a model of merges and bytes."""
        model = {**bpe_model(self.tokens, self.merges, UNKNOWN), "byte_fallback": True, "fuse_unk": True}
        numbers = {token: self.vocab[token] for token in self.special}
        return {**document(model, None, DECODER, numbers), "normalizer": NORMALIZER}


def _text(raw: bytes) -> str:
    """All of the bytes as text, or one replacement character for each, as the package has it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "\ufffd" * len(raw)


def describes(values: Mapping[str, Any]) -> bool:
    """Whether a file is that of such a tokenizer."""
    model = values.get("model")
    return (
        isinstance(model, dict)
        and model.get("byte_fallback") is True
        and model.get("unk_token") == UNKNOWN
        and not model.get("ignore_merges")
        and not model.get("dropout")
        and values.get("normalizer") == NORMALIZER
        and values.get("pre_tokenizer") is None
        and values.get("decoder") == DECODER
        and all(values.get(part) is None for part in ("truncation", "padding", "post_processor"))
    )


__all__ = ["BYTES", "SPACE", "SentencePiece", "describes"]
