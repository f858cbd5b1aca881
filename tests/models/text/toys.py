"""Small models of text whose probabilities are known or easily changed."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import DecodingState
from chainrule.models.text.language_model import LanguageModel
from chainrule.models.text.token_history import TokenHistory

LETTERS = Schema("text", (9,), tokens=("\n", "a", "b", "c", "d"))
TRACED: list[tuple[int, ...]] = []
"""One entry for every time a `Chain` is traced."""


@final
class Chain(LanguageModel):
    """A Markov chain of first order: its state is the last token, and it reads on for ever."""

    schema: Schema = eqx.field(static=True)
    table: Float[Array, "vocabulary vocabulary"]
    context: None = eqx.field(static=True, default=None)

    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        return self.table[x]

    def start(self, batch: int, room: int) -> DecodingState:
        return TokenHistory.blank(batch, room)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        assert isinstance(state, TokenHistory)
        TRACED.append(tokens.shape)
        return self.table[tokens], state.read(tokens)


@final
class Positional(LanguageModel):
    """Looks at every token of its context by its position: what a text says depends on where it begins."""

    schema: Schema = eqx.field(static=True)
    weights: Float[Array, "context vocabulary vocabulary"]
    context: int = eqx.field(static=True)

    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        terms = self.weights[jnp.arange(x.shape[1])[None, :], x]
        return jnp.cumsum(terms, axis=1)

    def start(self, batch: int, room: int) -> DecodingState:
        if room > self.context:
            raise CapabilityError("positions are absolute: a window cannot slide")
        return TokenHistory.blank(batch, room)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        assert isinstance(state, TokenHistory)
        after = state.read(tokens)
        logits = jax.lax.dynamic_slice_in_dim(
            self.logits(after.tokens), state.position, tokens.shape[1], axis=1
        )
        return logits, after


@final
class Script(LanguageModel):
    """Writes the tokens it was given, whatever it reads, and almost surely nothing else."""

    schema: Schema = eqx.field(static=True)
    script: Int[Array, " length"]
    context: None = eqx.field(static=True, default=None)

    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        rows = 50.0 * jax.nn.one_hot(self.script[: x.shape[1]], len(self.schema.tokens))
        return jnp.broadcast_to(rows[None, :, :], (len(x), *rows.shape))

    def start(self, batch: int, room: int) -> DecodingState:
        return TokenHistory.blank(batch, room)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        assert isinstance(state, TokenHistory)
        said = jax.lax.dynamic_slice_in_dim(self.script, state.position, tokens.shape[1])
        rows = 50.0 * jax.nn.one_hot(said, len(self.schema.tokens))
        return jnp.broadcast_to(rows[None, :, :], (len(tokens), *rows.shape)), state.read(tokens)


def script(tokenizer: Tokenizer, text: str) -> Script:
    """A model that goes on with this text after a prompt of one token."""
    ids = tokenizer.encode(text)
    schema = Schema("text", (len(ids) + 1,), tokens=tokenizer.tokens, tokenizer=tokenizer.canonical)
    return Script(schema, jnp.asarray(ids))


def chain(schema: Schema = LETTERS, seed: int = 0) -> Chain:
    size = len(schema.tokens)
    return Chain(schema, jnp.asarray(np.random.default_rng(seed).normal(size=(size, size)) * 1.5))


def positional(context: int, schema: Schema = LETTERS, seed: int = 0) -> Positional:
    size = len(schema.tokens)
    weights = np.random.default_rng(seed).normal(size=(context, size, size))
    return Positional(schema, jnp.asarray(weights), context)
