"""Two recurrent networks: one reads the source, the other writes the target from what the first remembers."""

from typing import Any, Literal, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, DecodingState
from chainrule.models.text.encoder_decoder import EncoderDecoder, shifted, within
from chainrule.models.text.seq2seq.aligning import Aligner
from chainrule.nn import GRU, LSTM, RNN, Dropout, Embedding, Linear, Recurrent
from chainrule.nn.recurrent import Bidirectional

_CELLS = {"lstm": LSTM, "gru": GRU, "rnn": RNN}


@final
class Seq2SeqConfig(Config):
    """Settings of the sequence-to-sequence model."""

    cell: Literal["gru", "lstm", "rnn"] = Field("gru", description="recurrent cell of both networks")
    width: int = Field(128, ge=1, description="units of each network")
    embedding: int = Field(64, ge=1, description="size of the vectors that stand for tokens")
    attention: Literal["none", "dot", "bilinear", "additive"] = Field(
        "bilinear",
        description="how the decoder looks back at the source; none leaves it the last state alone",
    )
    bidirectional: bool = Field(
        True, description="read the source in both directions, with half of the units each"
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="share of units dropped before the logits while training"
    )
    feedback: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of tokens that the decoder, while training, reads from its own draws (scheduled sampling)",
    )


class EncodedSource(NamedTuple):
    """Encoder states, what the scores need of them, and which are no padding."""

    prepared: tuple[Float[Array, "batch source width"], Float[Array, "batch source width"]]
    valid: Bool[Array, "batch source"]


@final
class Seq2SeqState(DecodingState):
    """What the decoder remembers, beginning with the last state of the encoder."""

    position: Int[Array, ""]
    hidden: tuple[Float[Array, "batch width"], ...]
    source: EncodedSource | None
    """What it looks back at; nothing without attention."""

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        hidden, source = jax.tree.map(lambda array: array[rows], (self.hidden, self.source))
        return type(self)(self.position, hidden, source)

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """Refused: earlier states are not kept."""
        raise CapabilityError(
            f"rewind({position}): a recurrent network does not keep its earlier states",
            remedy="keep the state from before, or read the tokens again",
        )


@final
class Seq2Seq(EncoderDecoder):
    """Encoder and decoder with, between them, the last state and, unless switched off, attention."""

    source: Embedding
    target: Embedding
    encoder: Recurrent | Bidirectional
    decoder: Recurrent
    aligner: Aligner | None
    head: Linear
    dropout: Dropout
    config: Seq2SeqConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: Seq2SeqConfig, schema: Schema, key: Key) -> None:
        keys = jax.random.split(key, 6)
        ways, width = 1 + config.bidirectional, config.width
        if width % ways:
            raise ArgumentError(
                f"width={width}: it cannot be divided between two directions",
                remedy="use an even width, or bidirectional=false",
            )
        cell, vocabulary = _CELLS[config.cell], len(schema.target_tokens) + 1
        self.source = Embedding(len(schema.tokens) + 1, config.embedding, deviation=1.0, key=keys[0])
        self.target = Embedding(vocabulary + 1, config.embedding, deviation=1.0, key=keys[1])
        read = [cell(config.embedding, width // ways, key=k) for k in jax.random.split(keys[2], ways)]
        self.encoder = Bidirectional(*read) if config.bidirectional else read[0]
        self.aligner = (
            None
            if config.attention == "none"
            else Aligner(config.attention, queries=width, keys=width, key=keys[3])
        )
        looked = 0 if self.aligner is None else width
        self.decoder = cell(config.embedding + looked, width, key=keys[4])
        self.head = Linear(width + looked, vocabulary, initializer="xavier", key=keys[5])
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema

    def start(self, x: Int[Array, "batch source"]) -> Seq2SeqState:
        """The last state of the encoder, which starts the decoder, and the states it can look back at."""
        valid = within(x, self.source_end)
        states, hidden = self.encoder(self.source(x), lengths=valid.sum(axis=1))
        if isinstance(self.encoder, Bidirectional):
            hidden = tuple(jnp.concatenate(both, axis=-1) for both in zip(*hidden, strict=True))
        source = None if self.aligner is None else EncodedSource(self.aligner.prepare(states), valid)
        return Seq2SeqState(jnp.zeros((), jnp.int32), hidden, source)

    def logits(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"], key: Key | None = None
    ) -> Float[Array, "batch target vocabulary"]:
        """Logits of every token of the targets given those before it.

        A key switches dropout on, and the reading of own draws, where these are asked for.
        """
        begun, read = self.start(x), shifted(y, self.begin)
        if key is not None and self.config.feedback and not self.dropout.inference:
            return self._from_own_draws(begun, read, key)
        out, _, _ = self._write(begun, read)
        return self.head(out if key is None else self.dropout(out, key))

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], Seq2SeqState]:
        """Read target tokens: logits of the token after each, and the state after the last."""
        assert isinstance(state, Seq2SeqState)
        out, _, hidden = self._write(state, tokens)
        return self.head(out), Seq2SeqState(state.position + tokens.shape[1], hidden, state.source)

    def alignment_names(self) -> tuple[str, ...]:
        """One map, unless the model was built without attention."""
        return () if self.aligner is None else ("attention",)

    def alignment(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"]
    ) -> Float[Array, "batch maps target source"]:
        """The weights of the attention to the source."""
        if self.aligner is None:
            raise CapabilityError(
                "this model writes from the last state of its encoder alone",
                remedy="train with attention=bilinear",
            )
        _, weights, _ = self._write(self.start(x), shifted(y, self.begin))
        assert weights is not None
        return weights[:, None]

    def _write(
        self, state: Seq2SeqState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time out"], Float[Array, "batch time source"] | None, tuple[Array, ...]]:
        """What the logits are made of after each token, the weights of the attention, and the last state."""
        if self.aligner is None:
            out, hidden = self.decoder(self.target(tokens), state.hidden)
            return out, None, hidden

        def move(hidden: tuple[Array, ...], token: Array) -> tuple[tuple[Array, ...], tuple[Array, Any]]:
            hidden, out, weights = self._step(hidden, token, state.source)
            return hidden, (out, weights)

        last, (out, weights) = jax.lax.scan(move, state.hidden, tokens.T)
        out, weights = jax.tree.map(lambda array: jnp.moveaxis(array, 0, 1), (out, weights))
        return out, weights, last

    def _step(
        self, hidden: tuple[Array, ...], token: Int[Array, " batch"], source: EncodedSource | None
    ) -> tuple[tuple[Array, ...], Float[Array, "batch out"], Float[Array, "batch source"] | None]:
        """One token: look back with the state so far, read the token beside what was seen, move on."""
        looked: list[Array] = []
        weights = None
        if self.aligner is not None and source is not None:
            mean, weights = self.aligner(hidden[0], source.prepared, source.valid)
            looked = [mean]
        hidden = self.decoder.step(jnp.concatenate([self.target(token), *looked], axis=-1), hidden)
        return hidden, jnp.concatenate([hidden[0], *looked], axis=-1), weights

    def _from_own_draws(
        self, state: Seq2SeqState, tokens: Int[Array, "batch time"], key: Key
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits where some of the tokens read are drawn from the logits before them (Bengio et al., 2015)."""
        batch, time = tokens.shape

        def move(
            carry: tuple[Any, Array], given: tuple[Array, Key, Array]
        ) -> tuple[tuple[Any, Array], Array]:
            hidden, before = carry
            token, key, own = given
            flip, draw, drop = jax.random.split(key, 3)
            chosen = jax.random.bernoulli(flip, self.config.feedback, (batch,)) & own
            token = jnp.where(chosen, jax.random.categorical(draw, before).astype(token.dtype), token)
            hidden, out, _ = self._step(hidden, token, state.source)
            logits = self.head(self.dropout(out, drop))
            return (hidden, logits), logits

        blank = jnp.zeros((batch, self.end + 1), self.head.weight.dtype)
        given = (tokens.T, jax.random.split(key, time), jnp.arange(time) > 0)  # the begin mark is always read
        _, logits = jax.lax.scan(move, (state.hidden, blank), given)
        return jnp.moveaxis(logits, 0, 1)


__all__ = ["Seq2Seq", "Seq2SeqConfig", "Seq2SeqState"]
