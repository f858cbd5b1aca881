"""Models of text: the probability of each symbol given those before it, and all that follows from it.

A model says how its logits come about, for all places of a text at once and for one more symbol; loss, exact
likelihood, sampling and streaming follow. The first symbol of a passage is given, not predicted.
"""

import abc
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data import tokenizers
from chainrule.data.base import Batch, Schema
from chainrule.data.tokenizers import Tokenizer
from chainrule.models.autoregressive import decoding
from chainrule.models.autoregressive.decoding import Choices
from chainrule.models.base import CanContinue, HasSurprise, Metrics, Piece, State
from chainrule.nn import losses


class Text(CanContinue, HasSurprise):
    """A model over the symbols of a vocabulary."""

    schema: eqx.AbstractVar[Schema]
    context: eqx.AbstractVar[int | None]
    """The most symbols it can read; `None` where it reads on for ever."""

    @abc.abstractmethod
    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits of the symbol after each place, all places at once; a key switches dropout on."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes symbols out of text and text out of symbols."""
        return tokenizers.of(self.schema)

    def surprise(
        self, x: Int[Array, "batch symbols"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """Minus the log-probability of each symbol after the first, in nats."""
        return losses.cross_entropy(self.logits(x[:, :-1], key), x[:, 1:])

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean nats per predicted symbol."""
        return self.surprise(batch.x, key).mean(), {}

    def log_prob(self, x: Int[Array, "batch symbols"]) -> Float[Array, " batch"]:
        """Log-probability of each passage given its first symbol, in nats."""
        return -self.surprise(x).sum(axis=1)

    def sample(  # type: ignore[override]  # the options of these models, by name
        self,
        key: Key,
        n: int,
        *,
        prompt: str = "",
        length: int | None = None,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = 0.95,
        min_p: float | None = None,
        repetition: float = 1.0,
        banned: str | tuple[str, ...] = (),
        stop: str | tuple[str, ...] = (),
        overflow: str = "crop",
    ) -> Int[Array, "n symbols"]:
        """Texts that go on from `prompt`, each with `length` new symbols (as many as an example predicts).

        A row holds the prompt and what follows; without a prompt it begins with a new line, or with any symbol where
        there is none. It is filled up with -1 where a string of `stop` has ended it; that string is not kept.
        `temperature` to `banned` are the rules of `decoding.rules`, with symbols by their text. `overflow` says what
        happens past the context: "crop" reads the last symbols afresh for each new one, "window" slides (where the
        model can), "error" refuses.
        """
        choices = Choices(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition=repetition,
            banned=banned,
            stop=stop,
            overflow=overflow,
        )
        begun, length = self._opening(key, n, prompt), self._length(length)
        rules = choices.rules(self.tokenizer)
        advance, state, logits = self._begin(begun, n, length, choices)
        seen = decoding.present(begun, n, len(self.schema.symbols)) if repetition != 1 else None
        written = decoding.write(advance, state, logits, key, rules, length=length, seen=seen)
        tokens = decoding.cut(self.tokenizer, np.asarray(begun), np.asarray(written.tokens), choices.stops)
        return jnp.concatenate([jnp.broadcast_to(begun, (n, begun.shape[1])), jnp.asarray(tokens)], axis=1)

    def stream(
        self, key: Key, prompt: str = "", length: int | None = None, **options: Any
    ) -> Iterator[Piece]:
        """Write one text symbol by symbol, with the options of `sample`; stop reading and the writing stops."""
        choices = Choices.of("stream", options)
        begun, length = self._opening(key, 1, prompt), self._length(length)
        rules = choices.rules(self.tokenizer)
        advance, state, logits = self._begin(begun, 1, length, choices)
        seen = decoding.present(begun, 1, len(self.schema.symbols)) if choices.repetition != 1 else None
        before = [int(i) for i in begun[0]] if prompt else []
        reader = decoding.Reader(self.tokenizer, choices.stops, before)
        return decoding.stream(
            advance,
            state,
            logits,
            key,
            rules,
            length=length,
            seen=seen,
            reader=reader,
            tokenizer=self.tokenizer,
        )

    def _length(self, length: int | None) -> int:
        if length is None:
            return self.schema.shape[0] - 1
        if length < 1:
            raise ArgumentError(f"length={length}: write at least one symbol")
        return length

    def _opening(self, key: Key, n: int, prompt: str) -> Int[Array, "rows time"]:
        """The symbols of the prompt in one row, or what stands in for it."""
        if prompt:
            return jnp.asarray(self.tokenizer.encode(prompt))[None, :]
        vocab = self.tokenizer.vocab
        for newline in ("\n", "Ċ"):  # the second is how tokenizers of bytes spell the first
            if newline in vocab:
                return jnp.full((1, 1), vocab[newline], jnp.int32)
        rows = jax.vmap(lambda row: random.at(random.named(key, "opening"), row))(jnp.arange(n))
        return jax.vmap(lambda row: jax.random.randint(row, (1,), 0, len(vocab), jnp.int32))(rows)

    def _begin(
        self, begun: Int[Array, "rows time"], n: int, length: int, choices: Choices
    ) -> tuple[decoding.Advance, State, Float[Array, "n vocabulary"]]:
        """How to read on, the state after the beginning for each of `n` rows, and the logits of what follows."""
        read = begun.shape[1] + length - 1  # the last symbol is written but not read
        over = self.context is not None and read > self.context
        if over and choices.overflow == "error":
            raise ArgumentError(
                f"length={length}: {begun.shape[1]} symbols and {length} more do not fit into a context of "
                f"{self.context}",
                remedy='shorten the prompt or length, or use overflow="crop"',
            )
        crop = over and choices.overflow == "crop"
        room = self.context if crop and self.context is not None else read
        kept = begun[:, -room:]
        state, logits = _prefill(self, kept, room)
        rows = jnp.arange(n) if len(begun) == n else jnp.zeros(n, jnp.int32)
        state, logits = state.fork(rows), logits[rows]
        if not crop:
            return self.advance, state, logits
        receding = decoding.Receding(self.advance, self.start(1, room), room)
        return receding, receding.start(state, kept[rows]), logits


@eqx.filter_jit
def _prefill(
    model: Text, tokens: Int[Array, "rows time"], room: int
) -> tuple[State, Float[Array, "rows vocabulary"]]:
    logits, state = model.advance(model.start(len(tokens), room), tokens)
    return state, logits[:, -1]


__all__ = ["Text"]
