"""Skip-gram with negative sampling (Mikolov et al., 2013)."""

from collections.abc import Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data import tokenizers
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanEncode, Config, HasEmbedding, HasPictures, HasState, Metrics
from chainrule.networks.pictures import tokens
from chainrule.nn import Embedding


@final
class SkipGramConfig(Config):
    """Settings of the vectors."""

    embedding: int = Field(64, ge=1, description="numbers in a vector")
    reach: int = Field(4, ge=1, description="neighbours on either side that a word is to tell")
    negatives: int = Field(5, ge=1, description="words drawn at random for each neighbour")
    power: float = Field(
        0.75,
        ge=0,
        le=1,
        description="they are drawn by their frequency to this power: 1 as they are, 0 all alike",
    )


@final
class SkipGram(HasState, HasEmbedding, CanEncode, HasPictures):
    """Two tables, one for words and one for their neighbours, and how often each word has been met."""

    embedding: Embedding
    around: Embedding
    counts: Float[Array, " tokens"]
    config: SkipGramConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SkipGramConfig, schema: Schema, key: Key) -> None:
        first, second = jax.random.split(key)
        count = len(schema.tokens)
        self.embedding = Embedding(count, config.embedding, deviation=0.1, key=first)
        self.around = Embedding(count, config.embedding, deviation=0.1, key=second)
        self.counts = jnp.zeros(count)
        self.config = config
        self.schema = schema

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """Mean nats per pair of neighbours, `softplus(-u·v) + Σ softplus(u·v_noise)`; the words met are counted."""
        met = jnp.zeros_like(self.counts).at[batch.x.reshape(-1)].add(1.0)
        moved = eqx.tree_at(lambda model: model.counts, self, self.counts + met)
        own, total, pairs = self.embedding(batch.x), jnp.zeros(()), 0
        length = batch.x.shape[1]
        for distance in range(1, min(self.config.reach, length - 1) + 1):
            here, there = slice(0, length - distance), slice(distance, length)
            for side, (word, other) in enumerate(((here, there), (there, here))):
                drawn = moved.noise(
                    jax.random.fold_in(key, 2 * distance + side),
                    (len(own), length - distance, self.config.negatives),
                )
                right = jnp.einsum("btd,btd->bt", own[:, word], self.around(batch.x[:, other]))
                wrong = jnp.einsum("btd,btnd->btn", own[:, word], self.around(drawn))
                total += jax.nn.softplus(-right).sum() + jax.nn.softplus(wrong).sum()
                pairs += right.size
        return total / max(pairs, 1), {}, moved

    def noise(self, key: Key, shape: tuple[int, ...]) -> Int[Array, "..."]:
        """Words drawn by how often they have been met, to the power of the settings."""
        shares = jnp.cumsum(jnp.where(self.counts > 0, self.counts**self.config.power, 0.0))
        drawn = jnp.searchsorted(shares, jax.random.uniform(key, shape) * shares[-1], side="right")
        return jnp.minimum(drawn, len(shares) - 1)

    def state(self) -> Sequence[Tree]:
        """How often each word has been met."""
        return [self.counts]

    def encode(self, x: Int[Array, "batch tokens"]) -> Float[Array, "batch features"]:
        """The mean vector of the words of a passage."""
        return self.embedding(x).mean(axis=1)

    def embeddings(self) -> Float[Array, "tokens features"]:
        """The vector of each word."""
        return self.embedding.weight

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Where words lie, and which lie close to each other."""
        del key
        table, tokenizer = np.asarray(self.embedding.weight), tokenizers.of(self.schema)
        return [
            tokens.embedding_map(table, tokenizer, data),
            tokens.neighbours(table, tokenizer, data),
        ]


__all__ = ["SkipGram", "SkipGramConfig"]
