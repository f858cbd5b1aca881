"""A recurrent network over tokens: it reads one at a time and remembers in a state of fixed size."""

from collections.abc import Sequence
from typing import Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    Config,
    DecodingState,
    HasEmbedding,
    HasPictures,
    HasRecurrence,
    HasState,
    Metrics,
)
from chainrule.models.text.language_model import LanguageModel
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.nn import Embedding, Linear, Recurrent, Stack, losses


@final
class CharRNNConfig(Config):
    """Settings of the recurrent network."""

    cell: Literal["rnn", "gru", "lstm"] = Field(
        "rnn", description="rnn: tanh of a sum; gru and lstm: gates decide what is kept"
    )
    embedding: int = Field(64, ge=1, description="size of the vector of each token")
    width: int = Field(128, ge=1, description="units of each layer: the size of its state")
    depth: int = Field(1, ge=1, le=100, description="recurrent layers on top of each other")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the outputs of each layer dropped while training"
    )
    recurrent_initializer: Literal["xavier", "orthogonal", "torch"] = Field(
        "orthogonal", description="recurrent weights before training, gate by gate"
    )
    truncate: int | None = Field(
        None,
        ge=1,
        description="steps after which gradients through the state are cut; the state itself is carried on",
    )
    segment: int | None = Field(
        None,
        ge=0,
        description="steps between states held for the backward pass, which repeats the others; 0: the root of all",
    )


@final
class CharRNNState(DecodingState):
    """The states of every layer."""

    position: Int[Array, ""]
    layers: tuple[tuple[Float[Array, "batch width"], ...], ...]

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        return type(self)(self.position, jax.tree.map(lambda state: state[rows], self.layers))

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """Refused: earlier states are not kept."""
        raise CapabilityError(
            f"rewind({position}): a recurrent network does not keep its earlier states",
            remedy="keep the state from before, or read the tokens again",
        )


@final
class CharRNN(LanguageModel, HasState, HasRecurrence, HasEmbedding, HasPictures):
    """Embedding, recurrent layers, one affine map to the logits."""

    embedding: Embedding
    body: Stack
    head: Linear
    carried: tuple[tuple[Float[Array, "streams width"], ...], ...] | None
    """Where training reads in streams: the states of every layer after the last passage of each."""
    ended: Int[Array, " streams"] | None
    """And where in the text that passage ended."""
    config: CharRNNConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: int | None = eqx.field(static=True)

    def __init__(self, config: CharRNNConfig, schema: Schema, key: Key) -> None:
        tokens = len(schema.tokens)
        key_embedding, key_body, key_head = jax.random.split(key, 3)
        self.embedding = Embedding(tokens, config.embedding, deviation=1.0, key=key_embedding)
        self.body = Stack(
            config.embedding,
            config.width,
            depth=config.depth,
            cell=config.cell,
            dropout=config.dropout,
            recurrent_initializer=config.recurrent_initializer,
            recurrent_bias=False,
            key=key_body,
        )
        self.head = Linear(config.width, tokens, initializer="xavier", key=key_head)
        streams = schema.streams
        self.carried = self.body.initial((streams,)) if streams else None
        self.ended = jnp.full((streams,), -1, jnp.int32) if streams else None
        self.config = config
        self.schema = schema
        self.context = None

    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits of the token after each position."""
        return self.head(self._outputs(self.embedding(x), key)[0])

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """Mean nats per predicted token; a passage that goes on where the last one ended takes up its state."""
        if self.carried is None or self.ended is None or batch.begins is None:
            return *self.loss(batch, key), self
        goes_on = (batch.begins == self.ended)[:, None]
        before = jax.tree.map(lambda state: jnp.where(goes_on, state, 0), self.carried)
        out, after = self._outputs(self.embedding(batch.x[:, :-1]), key, before)
        nats = losses.cross_entropy(self.head(out), batch.x[:, 1:])
        carried = jax.tree.map(lambda new, old: new.astype(old.dtype), after, self.carried)
        ended = (batch.begins + batch.x.shape[1] - 1).astype(self.ended.dtype)
        moved = eqx.tree_at(lambda model: (model.carried, model.ended), self, (carried, ended))
        return nats.mean(), {}, moved

    def state(self) -> Sequence[Tree]:
        """What is carried from one passage to the next."""
        return jax.tree.leaves((self.carried, self.ended))

    def start(self, batch: int, room: int) -> CharRNNState:
        """Nothing read yet; there is room for any number of tokens."""
        del room
        return CharRNNState(jnp.zeros((), jnp.int32), self.body.initial((batch,)))

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], CharRNNState]:
        """Read on from a state."""
        assert isinstance(state, CharRNNState)
        out, layers = self.body(self.embedding(tokens), state.layers)
        return self.head(out), CharRNNState(state.position + tokens.shape[1], layers)

    def recurrence(
        self, x: Int[Array, "batch time"]
    ) -> list[tuple[Recurrent, Float[Array, "batch time inputs"]]]:
        """Every layer with its inputs over time."""
        return self.body.inputs(self.embedding(x))

    def embeddings(self) -> Float[Array, "tokens features"]:
        """The vector of each token."""
        return self.embedding.weight

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Where tokens lie."""
        del key
        return [token_pictures.embedding_map(np.asarray(self.embeddings()), self.tokenizer, data)]

    def _outputs(
        self,
        h: Float[Array, "batch time features"],
        key: Key | None,
        states: tuple[tuple[Float[Array, "batch width"], ...], ...] | None = None,
    ) -> tuple[Float[Array, "batch time width"], tuple[tuple[Float[Array, "batch width"], ...], ...]]:
        """Outputs of the last layer at every step, and the states after the last, to which no gradient goes back."""
        segment, outputs = self.config.segment, []
        carried = self.body.initial((len(h),)) if states is None else states
        piece = self.config.truncate or max(h.shape[1], 1)
        for first in range(0, h.shape[1], piece):
            # One key for all pieces would drop the same units in each of them.
            key_piece = None if key is None else jax.random.fold_in(key, first)
            out, carried = self.body(h[:, first : first + piece], carried, segment=segment, key=key_piece)
            carried = jax.lax.stop_gradient(carried)
            outputs.append(out if key_piece is None else self.body.dropout(out, key_piece))
        if not outputs:
            return self.body(h, carried)
        return jnp.concatenate(outputs, axis=1), carried


__all__ = ["CharRNN", "CharRNNConfig", "CharRNNState"]
