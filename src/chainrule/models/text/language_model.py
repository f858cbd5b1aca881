"""Language models: the probability of each token given those before it, and all that follows from it.

A model says how its logits come about, for all positions of a text at once and for one more token; loss, exact
likelihood, sampling and streaming follow. The first token of a passage is given, not predicted.
"""

import abc
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data import tokenizers
from chainrule.data.batches import Batch, predicted
from chainrule.data.schema import Schema
from chainrule.data.text.packing import padded_left
from chainrule.data.text.tokenization import passages
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.information.compression.direct import TextCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.protocol import (
    CanPack,
    CanPad,
    CanSearch,
    DecodingState,
    HasSurprisal,
    Hypothesis,
    Metrics,
    OptionGroup,
    StreamedToken,
)
from chainrule.models.text import decoding
from chainrule.models.text.coding import text_code
from chainrule.models.text.decoding import Decoding
from chainrule.nn import losses


class LanguageModel(CanSearch, HasSurprisal, HasCode):
    """A model over the tokens of a vocabulary."""

    schema: eqx.AbstractVar[Schema]
    context: eqx.AbstractVar[int | None]
    """The most tokens it can read; `None` where it reads on for ever."""

    @abc.abstractmethod
    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits of the token after each position, all positions at once; a key switches dropout on."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes tokens out of text and text out of tokens."""
        return tokenizers.of(self.schema)

    def surprisal(
        self, x: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """Default: minus the log-probability of each token after the first, in nats, from all logits at once."""
        return losses.cross_entropy(self.logits(x[:, :-1], key), x[:, 1:])

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean nats per predicted token; of several documents in a row, each is read by itself."""
        if batch.documents is None:
            return self.surprisal(batch.x, key).mean(), {}
        assert isinstance(self, CanPack), "models.build refuses packed data for others"
        nats, counted = self.packed_surprisal(batch.x, batch.documents, key), predicted(batch.documents)
        return jnp.sum(nats, where=counted) / jnp.maximum(counted.sum(), 1), {}

    def log_prob(self, x: Int[Array, "batch tokens"]) -> Float[Array, " batch"]:
        """Log-probability of each passage given its first token, in nats."""
        return -self.surprisal(x).sum(axis=1)

    def code(self) -> TextCode:
        """Token after token, each by its probability given those before it."""
        return text_code(self)

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """Where a text begins and ends, what may be drawn, and beams: see `decoding.options`."""
        return decoding.GROUPS

    def sample(self, key: Key, n: int, **options: Any) -> Int[Array, "n tokens"]:
        """Texts that go on from `prompt`, each with `length` new tokens (as many as an example predicts).

        A row holds the prompt and what follows; without a prompt it begins with a new line, or with any token where
        there is none. It is filled up with -1 where a string of `stop` has ended it; that string is not kept. A
        sequence of `n` prompts gives each row one of its own, and each row is what it would be with that prompt alone.

        `temperature` (0.8), `top_k`, `top_p` (0.95), `min_p`, `repetition`, `banned` and `bias` are the rules of
        `decoding.rules`, with tokens by their text or number. `overflow` says what happens past the context: "crop"
        reads the last tokens afresh for each new one, "window" slides (where the model can), "error" refuses.

        `beams` keeps that many texts at once and returns the first `n`: by `search` "best" the likeliest
        (`length_penalty` favours longer ones), by "gumbel" distinct draws from the model, by "survivors" distinct
        draws at every step; each is extended by its `branch` likeliest tokens, or by all.
        """
        how = Decoding.read(options)
        prompt, beams = how.text.prompt, how.beam.beams
        if not isinstance(prompt, str):
            return self._from_each(key, n, prompt, how)
        begun = self._opening(key, n, prompt, how)
        tokens = (
            self._write(key, begun, n, how).tokens if beams is None else self._best(key, begun[:1], n, how)
        )
        cut = decoding.cut(self.tokenizer, np.asarray(begun), np.asarray(tokens), how.text.stops)
        return jnp.concatenate([jnp.broadcast_to(begun, (n, begun.shape[1])), jnp.asarray(cut)], axis=1)

    def search(
        self, key: Key, prompt: str = "", *, beams: int = 4, length: int | None = None, **options: Any
    ) -> list[Hypothesis]:
        """All texts that a search with `beams` ends with, the first in its order first; options as for `sample`."""
        how = Decoding.read({"beams": beams, "length": length, **options})
        begun = self._opening(key, 1, prompt, how)
        found = self._search(key, begun, how)
        tokens = decoding.cut(self.tokenizer, np.asarray(begun), np.asarray(found.tokens[0]), how.text.stops)
        texts = passages(self.schema, tokens)
        numbers = zip(
            np.asarray(found.log_probs[0]).tolist(), np.asarray(found.ranks[0]).tolist(), strict=True
        )
        each = zip(texts, numbers, strict=True)
        return [Hypothesis(text, log_prob, rank) for text, (log_prob, rank) in each if log_prob > -np.inf]

    def next_log_probs(
        self, logits: Float[Array, "*batch vocabulary"], **options: Any
    ) -> Float[Array, "*batch vocabulary"]:
        """Log-probabilities from which the next token is drawn under these rules."""
        return decoding.rules(len(self.tokenizer), **options).apply(logits)

    def stream(
        self, key: Key, prompt: str = "", length: int | None = None, **options: Any
    ) -> Iterator[StreamedToken]:
        """Write one text token by token, with the options of `sample`; stop reading and the writing stops."""
        how = Decoding.read({"length": length, **options})
        if how.beam.beams is not None:
            raise ArgumentError(
                f"beams={how.beam.beams}: beams are compared when they are complete, they cannot be streamed",
                remedy="leave beams out, or use sample",
            )
        begun = self._opening(key, 1, prompt, how)
        rules = how.rules(self.tokenizer)
        advance, state, logits = self._begin(begun, 1, how)
        return decoding.stream(
            advance,
            state,
            logits,
            key,
            rules,
            length=self._length(how),
            seen=self._seen(begun, 1, how),
            reader=decoding.Detokenizer(self.tokenizer, how.text.stops, [int(i) for i in begun[0]]),
            tokenizer=self.tokenizer,
        )

    def _from_each(self, key: Key, n: int, prompts: Sequence[str], how: Decoding) -> Int[Array, "n tokens"]:
        """One text from each prompt: they end together while they are written, and begin together in the result."""
        if len(prompts) != n:
            raise ArgumentError(
                f"prompt: {len(prompts)} prompts for n={n} texts",
                remedy=f"use n={len(prompts)}, or a single prompt",
            )
        rows = decoding.RowDraws.of_each(prompts)
        numbers = np.asarray(rows.numbers)
        openings = {
            prompt: np.asarray(self._opening(key, prompts.count(prompt), prompt, how)) for prompt in prompts
        }
        own = [
            openings[one][min(at, len(openings[one]) - 1)] for one, at in zip(prompts, numbers, strict=True)
        ]
        tokens = np.zeros((n, self._length(how)), np.int32)
        for group in self._groups(own, prompts, how):
            tokens[group] = self._go_on(key, [own[i] for i in group], [prompts[i] for i in group], how)
        cut = [
            decoding.cut(self.tokenizer, row[None], new[None], how.text.stops)[0]
            for row, new in zip(own, tokens, strict=True)
        ]
        widest = max(map(len, own))
        whole = [
            np.concatenate([row, new, np.full(widest - len(row), decoding.END, np.int32)])
            for row, new in zip(own, cut, strict=True)
        ]
        return jnp.asarray(np.stack(whole).astype(np.int32))

    def _groups(
        self, own: Sequence[Int[np.ndarray, " _"]], prompts: Sequence[str], how: Decoding
    ) -> list[list[int]]:
        """Which rows are written at once: those of one prompt where beams compete, all that the context has room for
        where the model can pad, and otherwise those of equal length."""
        if (
            how.beam.beams is None
            and isinstance(self, CanPad)
            and not self._overflows(max(map(len, own)), how)
        ):
            return [list(range(len(own)))]
        by: dict[Any, list[int]] = {}
        for row, (begun, prompt) in enumerate(zip(own, prompts, strict=True)):
            by.setdefault(len(begun) if how.beam.beams is None else prompt, []).append(row)
        return list(by.values())

    def _go_on(
        self, key: Key, own: Sequence[Int[np.ndarray, " _"]], prompts: Sequence[str], how: Decoding
    ) -> Int[np.ndarray, "rows length"]:
        """What follows each of some beginnings that are written at once."""
        if how.beam.beams is not None:
            return np.asarray(self._best(key, jnp.asarray(own[0])[None], len(own), how))
        begun, padding = padded_left(own)
        rows = decoding.RowDraws.of_each(prompts, jnp.asarray(padding))
        padded = jnp.asarray(padding) if padding.any() else None
        return np.asarray(self._write(key, jnp.asarray(begun), len(own), how, padded, rows).tokens)

    def _best(self, key: Key, begun: Int[Array, "1 time"], n: int, how: Decoding) -> Int[Array, "n length"]:
        """The first `n` texts of a search; the best stands in for those that are missing."""
        beams = how.beam.beams
        assert beams is not None, "there are beams"
        if n > beams:
            raise ArgumentError(f"n={n}: {beams} beams give at most {beams} texts", remedy=f"use beams={n}")
        found = self._search(key, begun, how)
        there = jnp.isfinite(found.log_probs[0, :n, None])
        return jnp.where(there, found.tokens[0, :n], found.tokens[0, :1])

    def _write(
        self,
        key: Key,
        begun: Int[Array, "rows time"],
        n: int,
        how: Decoding,
        padding: Int[Array, " n"] | None = None,
        rows: decoding.RowDraws | None = None,
    ) -> decoding.GeneratedTokens:
        rules = how.rules(self.tokenizer)
        advance, state, logits = self._begin(begun, n, how, padding)
        seen, ends = self._seen(begun, n, how, padding), how.text.end_tokens(self.tokenizer)
        written: decoding.GeneratedTokens = decoding.write(
            advance, state, logits, key, rules, length=self._length(how), stop=ends, seen=seen, rows=rows
        )
        return written

    def _search(self, key: Key, begun: Int[Array, "1 time"], how: Decoding) -> decoding.Beams:
        rules, order = how.rules(self.tokenizer), how.beam_order()
        advance, state, logits = self._begin(begun, 1, how)
        found: decoding.Beams = decoding.search(
            advance,
            state,
            logits,
            key,
            rules,
            order,
            length=self._length(how),
            beams=how.beam.beams or 1,
            branch=how.beam.branch,
            stop=how.text.end_tokens(self.tokenizer),
            seen=self._seen(begun, 1, how),
        )
        return found

    def _seen(
        self,
        begun: Int[Array, "rows time"],
        n: int,
        how: Decoding,
        padding: Int[Array, " rows"] | None = None,
    ) -> Bool[Array, "n vocabulary"] | None:
        """The tokens of the beginning, where repetition matters; padding is none."""
        if how.tokens.repetition == 1:
            return None
        if padding is not None:  # the last token, which every beginning has, in place of padding
            begun = jnp.where(jnp.arange(begun.shape[1])[None, :] < padding[:, None], begun[:, -1:], begun)
        return decoding.present(begun, n, len(self.schema.tokens))

    def _overflows(self, begun: int, how: Decoding) -> bool:
        """Whether a beginning of so many tokens and what follows outgrow the context; the last is written, not read."""
        return self.context is not None and begun + self._length(how) - 1 > self.context

    def _length(self, how: Decoding) -> int:
        return self.schema.shape[0] - 1 if how.text.length is None else how.text.length

    def _opening(self, key: Key, n: int, prompt: str, how: Decoding) -> Int[Array, "rows time"]:
        """The tokens of the prompt in one row, or what stands in for it."""
        first = self.tokenizer.start
        if prompt or first is not None:
            own = self.tokenizer.encode(prompt, allow_special=how.text.allow_special)
            return jnp.array([[*(() if first is None else (first,)), *own.tolist()]], jnp.int32)
        vocab = self.tokenizer.vocab
        for newline in ("\n", "Ċ"):  # the second is how tokenizers of bytes spell the first
            if newline in vocab:
                return jnp.full((1, 1), vocab[newline], jnp.int32)
        rows = jax.vmap(lambda row: random.at(random.named(key, "opening"), row))(jnp.arange(n))
        return jax.vmap(lambda row: jax.random.randint(row, (1,), 0, len(vocab), jnp.int32))(rows)

    def _begin(
        self,
        begun: Int[Array, "rows time"],
        n: int,
        how: Decoding,
        padding: Int[Array, " rows"] | None = None,
    ) -> tuple[decoding.Advance, DecodingState, Float[Array, "n vocabulary"]]:
        """How to read on, the state after the beginning for each of `n` rows, and the logits of what follows."""
        length, overflow = self._length(how), how.text.overflow
        read = begun.shape[1] + length - 1  # the last token is written but not read
        if overflow == "error" and self._overflows(begun.shape[1], how):
            raise ArgumentError(
                f"length={length}: {begun.shape[1]} tokens and {length} more do not fit into a context of "
                f"{self.context}",
                remedy='shorten the prompt or length, or use overflow="crop"',
            )
        room = read if self.context is None or overflow == "window" else min(read, self.context)
        if padding is not None:
            assert isinstance(self, CanPad), "others read beginnings of equal length"
            state, logits = _read_padded(self, begun, padding, room)
            return self.advance, state, logits
        state, logits = _read(self, begun, n, room, crop=room < read)
        return self.advance if room == read else decoding.RereadContext(self, room), state, logits


@eqx.filter_jit
def _read(
    model: LanguageModel, begun: Int[Array, "rows time"], n: int, room: int, *, crop: bool
) -> tuple[DecodingState, Float[Array, "n vocabulary"]]:
    """Read a beginning, or as much of its end as there is room for; what many rows share is read once."""
    kept = begun[:, -room:]
    logits, state = model.advance(model.start(len(kept), room), kept)
    rows = jnp.arange(n) if len(kept) == n else jnp.zeros(n, jnp.int32)
    state = state.fork(rows)
    return decoding.RereadContext(model, room).start(state, kept[rows]) if crop else state, logits[rows, -1]


@eqx.filter_jit
def _read_padded(
    model: CanPad, begun: Int[Array, "rows time"], padding: Int[Array, " rows"], room: int
) -> tuple[DecodingState, Float[Array, "rows vocabulary"]]:
    """Read beginnings of different length, which end together."""
    logits, state = model.advance(model.start_padded(padding, room), begun)
    return state, logits[:, -1]


__all__ = ["LanguageModel"]
