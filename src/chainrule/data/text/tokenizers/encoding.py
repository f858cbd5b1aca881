"""Applying merges to many chunks: the same words come again and again, so their tokens are remembered."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.merging import Pair, apply

_REMEMBERED = 2**17
_LONG = 64


@final
@dataclass(frozen=True)
class Encoder:
    """Merges by the numbers of their parts, and the chunks seen so far."""

    ranks: Mapping[Pair, tuple[int, int]]
    seen: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def build(cls, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> "Encoder":
        """From merges as text.

        >>> Encoder.build({"a": 0, "b": 1}, [("a", "b")])
        Traceback (most recent call last):
        chainrule.core.errors.ArgumentError: merge 0 ('a', 'b'): 'ab' is not in the vocabulary
        """
        ranks = {}
        for rank, (left, right) in enumerate(merges):
            for token in (left, right, left + right):
                if token not in vocab:
                    raise ArgumentError(
                        f"merge {rank} ({left!r}, {right!r}): {token!r} is not in the vocabulary"
                    )
            ranks[vocab[left], vocab[right]] = rank, vocab[left + right]
        return cls(ranks)

    def encode(self, chunks: Iterable[str], symbols: Callable[[str], list[int]]) -> list[int]:
        """The tokens of some chunks, one after the other; `symbols` gives the numbers of a chunk's first symbols."""
        seen = self.seen
        found: list[int] = []
        for chunk in chunks:
            known = seen.get(chunk)
            if known is None:
                known = apply(symbols(chunk), self.ranks)
                if len(seen) >= _REMEMBERED:
                    seen.clear()
                if len(chunk) <= _LONG:
                    seen[chunk] = known
            found += known
        return found


def special_pieces(text: str, special: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The text cut at the names of special tokens, of which the longest counts, and whether a piece is such a name.

    >>> list(special_pieces("one<end>two", ["<end>"]))
    [('one', False), ('<end>', True), ('two', False)]
    """
    names = sorted(special, key=len, reverse=True)
    if not names:
        yield text, False
        return
    for index, piece in enumerate(re.split(f"({'|'.join(map(re.escape, names))})", text)):
        if piece:
            yield piece, index % 2 == 1


def plain_pieces(text: str, special: Iterable[str]) -> Iterator[str]:
    """The text between the names of special tokens."""
    return (piece for piece, is_special in special_pieces(text, special) if not is_special)


__all__ = ["Encoder", "plain_pieces", "special_pieces"]
