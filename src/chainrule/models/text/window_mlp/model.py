"""A perceptron over the last few tokens, each an embedding from one shared table (Bengio et al., 2003)."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, DecodingState, HasEmbedding, HasPictures
from chainrule.models.text.language_model import LanguageModel
from chainrule.models.text.token_history import TokenHistory
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.nn import Dropout, Embedding, Linear


@final
class WindowMLPConfig(Config):
    """Settings of the perceptron over a window of tokens."""

    context: int = Field(16, ge=1, description="tokens it looks back on")
    embedding: int = Field(48, ge=1, description="numbers that stand for a token")
    width: int = Field(384, ge=1, description="units of each hidden layer")
    depth: int = Field(
        2, ge=0, le=100, description="hidden layers; 0 makes logits bilinear in the embeddings"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="share of hidden units dropped while training")
    tie: bool = Field(True, description="one table for the embedding of tokens and their logits")


@final
class WindowMLP(LanguageModel, HasEmbedding, HasPictures):
    """`softmax(D W tanh(... tanh(W1 [C x_1, ..., C x_n])))`; with `tie` the decoder `D` is the embedding `C`."""

    embedding: Embedding
    decoder: Embedding | None
    """Rows of the logits where they are not tied to the embedding."""
    hidden: tuple[Linear, ...]
    out: Linear
    dropout: Dropout
    config: WindowMLPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: None = eqx.field(static=True)

    def __init__(self, config: WindowMLPConfig, schema: Schema, key: Key) -> None:
        for_tokens, for_decoder, for_out, *keys = jax.random.split(key, 3 + config.depth)
        count = len(schema.tokens)
        self.embedding = Embedding(count, config.embedding, key=for_tokens)
        self.decoder = None if config.tie else Embedding(count, config.embedding, key=for_decoder)
        widths = [config.context * config.embedding] + [config.width] * config.depth
        self.hidden = tuple(
            Linear(inputs, config.width, key=k, initializer="xavier")
            for inputs, k in zip(widths[:-1], keys, strict=True)
        )
        self.out = Linear(widths[-1], config.embedding, key=for_out, initializer="xavier")
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema
        self.context = None

    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits of the token after each position; a key switches dropout on."""
        nothing = jnp.zeros(
            (len(x), self.config.context - 1, self.config.embedding), self.embedding.weight.dtype
        )
        return self._predicted(jnp.concatenate([nothing, self.embedding(x)], axis=1), key)

    def start(self, batch: int, room: int) -> DecodingState:
        """Nothing read yet."""
        return TokenHistory.blank(batch, room)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        """Embed the last tokens again."""
        assert isinstance(state, TokenHistory), "the state comes from start"
        before = state.last(self.config.context - 1, missing=-1)
        known = jnp.where((before >= 0)[:, :, None], self.embedding(jnp.maximum(before, 0)), 0.0)
        vectors = jnp.concatenate([known, self.embedding(tokens)], axis=1)
        return self._predicted(vectors, None), state.read(tokens)

    def _predicted(
        self, vectors: Float[Array, "batch tokens embedding"], key: Key | None
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits from embeddings, at each position that has `context` of them up to itself."""
        context = self.config.context
        time = vectors.shape[1] - context + 1
        x = jnp.concatenate([vectors[:, i : i + time] for i in range(context)], axis=-1)
        for i, layer in enumerate(self.hidden):
            x = jnp.tanh(layer(x))
            if key is not None:
                x = self.dropout(x, jax.random.fold_in(key, i))
        return (self.embedding if self.decoder is None else self.decoder).logits(self.out(x))

    def embeddings(self) -> Float[Array, "tokens features"]:
        """One row for each token."""
        return self.embedding.weight

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Where the tokens lie, and which lie close to each other."""
        del key
        table = np.asarray(self.embedding.weight)
        tokenizer = self.tokenizer
        return [
            token_pictures.embedding_map(table, tokenizer, data),
            token_pictures.neighbours(table, tokenizer, data),
        ]


__all__ = ["WindowMLP", "WindowMLPConfig"]
