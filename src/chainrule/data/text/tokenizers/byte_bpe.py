"""Byte pair encoding on bytes: the first symbols are the 256 values of a byte of UTF-8, so nothing is ever unknown.

Files name each byte by a printable character (a space is "Ġ"), and the numbers of the first tokens follow the code
points of these characters. A text comes back exactly, whatever it holds.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers import merging
from chainrule.data.text.tokenizers.encoding import Encoder, plain_pieces, special_pieces
from chainrule.data.text.tokenizers.splitting import split
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer, bpe_model, document

COMPONENT = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
"""How the file of a tokenizer names the bytes."""


def _printable() -> tuple[str, ...]:
    """The character that stands for each byte: itself where Latin-1 prints it, else the next from code point 256 on."""
    itself = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in itself else next(others)) for byte in range(256))


BYTES = _printable()
"""The printable character of each byte."""
_FROM_BYTES = dict(enumerate(BYTES))
_TO_BYTES = {character: byte for byte, character in enumerate(BYTES)}


def spell(text: str) -> str:
    """The bytes of a text in printable characters.

    >>> spell("naïve 🙂")
    'naÃ¯veĠðŁĻĤ'
    """
    try:
        return text.encode().decode("latin-1").translate(_FROM_BYTES)
    except UnicodeEncodeError as error:
        shown = f"{ord(text[error.start]):#06x}"
        raise ArgumentError(
            f"the text holds half of a surrogate pair ({shown}), which is no character"
        ) from None


def count(text: str, special: Iterable[str] = ()) -> dict[str, int]:
    """How often each chunk of a text, without names of special tokens, comes, spelled in printable characters."""
    chunks = Counter(chunk for piece in plain_pieces(text, special) for chunk in split(piece, "words"))
    return {spell(chunk): times for chunk, times in chunks.items()}


@final
@dataclass(frozen=True, repr=False)
class ByteBPE(Tokenizer):
    """Bytes and what they were merged into, in chunks of the rule "words".

    >>> tokenizer = ByteBPE.train("", vocab=256)
    >>> len(tokenizer.encode("naïve 🙂")), tokenizer.decode(tokenizer.encode("naïve 🙂"))
    (11, 'naïve 🙂')
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    special: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for token in self.special:
            if token not in self.vocab:
                raise ArgumentError(f"special: {token!r} is not in the vocabulary")
        for token in self.tokens:
            if token not in self.special and not _TO_BYTES.keys() >= set(token):
                raise ArgumentError(
                    f"tokens: {token!r} is not spelled in the characters that stand for bytes"
                )
        Encoder.build(self.vocab, self.merges)  # says what is wrong with the merges

    @classmethod
    def train(
        cls, text: str, vocab: int = 1000, *, min_frequency: int = 2, special: Iterable[str] = ()
    ) -> "ByteBPE":
        """Learn from a text; names of special tokens in it are no part of what is learnt from."""
        special = tuple(special)
        return cls.from_counts(count(text, special), vocab, min_frequency=min_frequency, special=special)

    @classmethod
    def from_counts(
        cls, chunks: Mapping[str, int], vocab: int, *, min_frequency: int = 2, special: Iterable[str] = ()
    ) -> "ByteBPE":
        """Learn from how often each chunk of a text comes, as `count` counts them."""
        special = tuple(special)
        first = merging.start(special, sorted(BYTES), vocab)
        tokens, steps = merging.learn(chunks, first, vocab, min_frequency)
        return cls(tokens, tuple((step.left, step.right) for step in steps), special)

    @functools.cached_property
    def _encoder(self) -> Encoder:
        return Encoder.build(self.vocab, self.merges)

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Token numbers; with `allow_special`, names of special tokens in the text become these tokens."""
        found: list[int] = []
        for piece, is_special in special_pieces(text, self.special if allow_special else ()):
            if is_special:
                found.append(self.vocab[piece])
            else:
                found += self._encoder.encode(split(piece, "words"), self._symbols)
        return np.array(found, np.int32)

    def _symbols(self, chunk: str) -> list[int]:
        try:
            return [self.vocab[c] for c in spell(chunk)]
        except KeyError:
            # Only tokenizers from elsewhere can lack some of the 256.
            missing = next(c for c in spell(chunk) if c not in self.vocab)
            raise ArgumentError(
                f"byte {_TO_BYTES[missing]:#04x} of {chunk!r} has no token in this vocabulary",
                remedy="the file of the tokenizer lacks it; one trained here knows all 256 bytes",
            ) from None

    @functools.cached_property
    def _raw(self) -> tuple[bytes, ...]:
        names = set(self.special)
        return tuple(t.encode() if t in names else bytes(_TO_BYTES[c] for c in t) for t in self.tokens)

    def raw(self, ids: Iterable[SupportsIndex]) -> bytes:
        """The bytes of some tokens, which may end inside a character."""
        return b"".join(self._raw[i] for i in self.check(ids))

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text; bytes that are no UTF-8, such as half a character, become U+FFFD."""
        return self.raw(ids).decode(errors="replace")

    def to_json(self) -> dict[str, Any]:
        """A file with a model of merges on bytes."""
        numbers = {token: self.vocab[token] for token in self.special}
        return document(bpe_model(self.tokens, self.merges), COMPONENT, COMPONENT, numbers)


__all__ = ["BYTES", "COMPONENT", "ByteBPE", "count", "spell"]
