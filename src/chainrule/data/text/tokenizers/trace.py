"""The growth of a vocabulary merge by merge, and what its size buys.

The tokens of a text under the first k merges are what training had in hand after k of them, so one training gives
the whole trade-off: a larger vocabulary means fewer tokens for the same text, hence a shorter context and less
attention, at the price of more rows in the embedding and the output.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data.text.tokenizers import byte_bpe, merging
from chainrule.data.text.tokenizers.bpe import BPE
from chainrule.data.text.tokenizers.byte_bpe import ByteBPE
from chainrule.data.text.tokenizers.encoding import plain_pieces
from chainrule.data.text.tokenizers.splitting import LOSSY, split

SPAN = 4096
"""Bytes of text whose length in tokens the picture states."""
_ROWS = 30
_POINTS = 200
_SAMPLE = 32
_STAGES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)


@final
@dataclass(frozen=True)
class Trace:
    """Every merge learnt from a text, with the size of the text in all units."""

    first: tuple[str, ...]
    """The tokens before any merge."""
    steps: tuple[merging.Step, ...]
    symbols: int
    """Tokens of the text before any merge."""
    bytes: int
    words: int
    """What white space separates."""
    kind: str
    rule: str
    sample: str
    """The beginning of the text."""
    special: tuple[str, ...] = ()

    @property
    def vocab(self) -> Int[np.ndarray, " points"]:
        """Tokens in the vocabulary, before any merge and after each."""
        return len(self.first) + np.arange(len(self.steps) + 1)

    @property
    def tokens(self) -> Int[np.ndarray, " points"]:
        """Tokens of the text, before any merge and after each."""
        return self.symbols - np.cumsum([0, *(step.replaced for step in self.steps)])

    @property
    def bytes_per_token(self) -> Float[np.ndarray, " points"]:
        """How much text a token holds."""
        return self.bytes / self.tokens

    @property
    def tokens_per_word(self) -> Float[np.ndarray, " points"]:
        """How many tokens a word takes."""
        return self.tokens / max(self.words, 1)

    def tokenizer(self, merges: int) -> BPE | ByteBPE:
        """The tokenizer after that many merges.

        >>> found = trace("abracadabra", vocab=8, rule="none")
        >>> [found.tokenizer(k).pieces(found.tokenizer(k).encode("abra")) for k in range(4)]
        [['a', 'b', 'r', 'a'], ['ab', 'r', 'a'], ['ab', 'ra'], ['abra']]
        """
        if not 0 <= merges <= len(self.steps):
            raise ArgumentError(f"merges={merges}: merges must be from 0 to {len(self.steps)}")
        steps = self.steps[:merges]
        tokens = tuple(dict.fromkeys((*self.first, *(step.token for step in steps))))
        pairs = tuple((step.left, step.right) for step in steps)
        if self.kind == "bpe":
            return BPE(tokens, pairs, self.rule, self.special)
        return ByteBPE(tokens, pairs, self.special)

    def pictures(self) -> list[Picture]:
        """The first merges, a sample of the text as it grows together, and what a vocabulary of each size buys."""
        return [self.table(), self._growth(), *self._bought()]

    def table(self) -> Table:
        """The first merges: the pair, the new token, how often it came and how long it is."""
        rows: list[list[str | float | int]] = [
            [k + 1, _seen(step.left), _seen(step.right), _seen(step.token), step.count, len(step.token)]
            for k, step in enumerate(self.steps[:_ROWS])
        ]
        title = f"The first {len(rows)} of {len(self.steps):,} merges"
        return Table("merges", title, ["merge", "left", "right", "token", "count", "length"], rows)

    def _growth(self) -> Table:
        counts = sorted({0, *(k for k in _STAGES if k < len(self.steps)), len(self.steps)})
        rows: list[list[str | float | int]] = []
        for k in counts:
            tokenizer = self.tokenizer(k)
            ids = tokenizer.encode(self.sample, allow_special=True)
            rows.append([k, len(ids), "|".join(_seen(piece) for piece in tokenizer.pieces(ids))])
        return Table("merged-text", "The text grows together", ["merges", "tokens", "text"], rows)

    def _bought(self) -> list[Lines]:
        shown = np.unique(np.linspace(0, len(self.steps), _POINTS).astype(int))
        sizes = self.vocab[shown]
        share = self.tokens[shown] / max(self.symbols, 1)
        context = [SPAN / ratio for ratio in (self.bytes_per_token[0], self.bytes_per_token[-1])]
        return [
            Lines(
                "vocabulary-text",
                "What a token holds",
                "tokens in the vocabulary",
                "ratio",
                {
                    "bytes per token": (sizes, self.bytes_per_token[shown]),
                    "tokens per word": (sizes, self.tokens_per_word[shown]),
                },
                log_x=True,
            ),
            Lines(
                "vocabulary-context",
                "What the same text takes",
                "tokens in the vocabulary",
                "share of what it takes before any merge",
                {"context (tokens)": (sizes, share), "attention (pairs of tokens)": (sizes, share**2)},
                log_x=True,
                caption=f"{SPAN:,} bytes of text are {context[0]:,.0f} tokens before any merge and {context[1]:,.0f} "
                "after the last. The output layer, which grows with the vocabulary, is not counted.",
            ),
        ]


def trace(
    text: str,
    vocab: int = 1000,
    *,
    kind: str = "bpe",
    rule: str = "words",
    min_frequency: int = 0,
    alphabet: Iterable[str] = (),
    special: Sequence[str] = (),
) -> Trace:
    """Learn the merges of the tokenizer "bpe" or "byte-bpe" and keep the count of each.

    The bytes of "byte-bpe" are always split with the rule "words"; `alphabet` adds characters to that of "bpe". Names
    of `special` tokens in the text are no part of what is learnt from.

    >>> found = trace("abracadabra", vocab=8, rule="none")
    >>> [(step.token, step.count) for step in found.steps], found.tokens.tolist()
    ([('ab', 2), ('ra', 2), ('abra', 2)], [11, 9, 7, 5])
    """
    check_choice("trace", "kind", kind, ["bpe", "byte-bpe"])
    if not text:
        raise ArgumentError("text='': there is nothing to learn merges from")
    if kind == "bpe":
        chunks = dict(Counter(chunk for piece in plain_pieces(text, special) for chunk in split(piece, rule)))
        letters = sorted({*alphabet, *"".join(chunks)})
    elif rule == "words":
        chunks, letters = byte_bpe.count(text, special), sorted(byte_bpe.BYTES)
    else:
        raise ArgumentError(f'rule={rule!r}: byte-bpe splits with rule="words"')
    first = merging.start(special, letters, vocab)
    _, steps = merging.learn(chunks, first, vocab, min_frequency)
    symbols = sum(len(chunk) * count for chunk, count in chunks.items())
    plain = " ".join(plain_pieces(text, special)) if special else text
    kept = "".join(split(plain, "spaces")) if rule in LOSSY else plain
    sizes = symbols, len(kept.encode()), len(plain.split())
    return Trace(first, steps, *sizes, kind, rule, text[:_SAMPLE], tuple(special))


def _seen(token: str) -> str:
    """A token with its white space made visible."""
    return repr(token)[1:-1].replace(" ", "␣")


__all__ = ["SPAN", "Trace", "trace"]
