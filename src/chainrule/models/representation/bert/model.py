"""The masked language model (Devlin et al., 2019).

It knows no probability of a text, because each guess sees what comes after as well as before; what it gives are
guesses for gaps, and vectors for texts.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.quoting import plain
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data import tokenizers
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import HasAttention, HasEmbedding, HasTokenStream, Posed, StreamQuestions
from chainrule.models.representation.bert.gaps import MASK, Gaps, draw_gaps
from chainrule.models.representation.bert.masked import (
    AllowSpecial,
    BERTConfig,
    Guesses,
    MaskedModel,
    Temperature,
    checked,
)
from chainrule.networks.pictures import tokens
from chainrule.networks.transformer import TokenTransformer, encoder_layers
from chainrule.nn import Dropout, Embedding, LayerNorm, TransformerBlock, losses
from chainrule.nn.attention import Mask, Padding
from chainrule.nn.positions import Learned


@final
class BERT(MaskedModel, TokenTransformer, HasAttention, HasTokenStream, HasEmbedding):
    """Embeddings, blocks in which every token sees all others, and logits from the same embeddings."""

    embedding: Embedding
    """One row for each token, and one more for a hidden token where the vocabulary has none."""
    positions: Learned | None
    segments: Embedding | None
    embedding_norm: LayerNorm | None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm | None
    dropout: Dropout
    config: BERTConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: int = eqx.field(static=True)

    def __init__(self, config: BERTConfig, schema: Schema, key: Key) -> None:
        width = config.width
        for_tokens, for_positions, for_segments, for_blocks = jax.random.split(key, 4)
        self.context = schema.shape[0] if config.context is None else config.context
        self.embedding = Embedding(len(schema.tokens) + (MASK not in schema.tokens), width, key=for_tokens)
        self.segments = Embedding(config.segments, width, key=for_segments) if config.segments else None
        between = encoder_layers(config, self.context, for_positions, for_blocks)
        self.positions, self.embedding_norm, self.blocks, self.norm = between
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes tokens out of text and text out of tokens."""
        return tokenizers.of(self.schema)

    @property
    def gaps(self) -> Gaps:
        """How gaps are written and read."""
        return Gaps(self.tokenizer)

    # ------------------------------------------------------------------ learning

    def guesses(self, x: Int[Array, "batch time"], key: Key) -> Guesses:
        """Hide some tokens of each text, and guess them."""
        for_gaps, for_dropping = jax.random.split(key)
        positions, seen = draw_gaps(
            for_gaps, x, self.config.hide, len(self.schema.tokens), self.gaps.mask, self.gaps.special
        )
        features = self.features(seen, key=for_dropping)
        # Only hidden tokens are judged, so only their logits are computed.
        chosen = jnp.take_along_axis(features, positions[:, :, None], axis=1)
        wanted = jnp.take_along_axis(x, positions, axis=1)
        logits = self.read_out(chosen)
        right = (logits.argmax(axis=-1) == wanted).astype(jnp.float32)
        return Guesses(losses.cross_entropy(logits, wanted).mean(axis=1), right.mean(axis=1))

    @property
    def unit(self) -> str:
        """Guesses are about tokens."""
        return "token"

    def logits(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time vocabulary"]:
        """What each position holds, in logits; a position that is not hidden knows the answer."""
        return self.read_out(self.features(x))

    def features(
        self, x: Int[Array, "batch time"], *, mask: Mask | None = None, key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of each position."""
        return self.read(self.vectors(x), mask=mask, key=key)

    def vectors(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
        """The vectors of tokens, before positions are added."""
        self.check_length(x)
        return self.embedding(x)

    def read_out(self, features: Float[Array, "batch time width"]) -> Float[Array, "batch time vocabulary"]:
        """Logits of the tokens of the vocabulary; a hidden token is never the answer."""
        return self.embedding.logits(features)[..., : len(self.schema.tokens)]

    # ------------------------------------------------------------------ gaps

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        prompt: str = "",
        temperature: Temperature = 1.0,
        allow_special: AllowSpecial = False,
    ) -> Int[Array, "n tokens"]:
        """`n` texts in which every gap of the prompt, written [MASK], is filled; without a prompt, all is gaps.

        Gaps are filled one at a time in a random order, each drawn from what the model guesses given the others
        filled so far. Temperature 0 takes the likeliest.
        """
        ids = (
            self.gaps.encode(prompt, allow_special=allow_special)
            if prompt
            else np.full(self.schema.shape, self.gaps.mask, np.int32)
        )
        begun = jnp.broadcast_to(jnp.asarray(ids)[None, :], (n, len(ids)))
        holes = jnp.asarray(np.flatnonzero(ids == self.gaps.mask))
        return _filled(self, begun, holes, key, checked(temperature))

    def fill(self, text: str, top: int = 5) -> list[list[tuple[str, float]]]:
        """For each gap of a text, written [MASK], the likeliest tokens and their probabilities."""
        ids = self.gaps.encode(text)
        if not (ids == self.gaps.mask).any():
            raise ArgumentError(
                f"fill({plain(repr(text), 60)}): the text has no gap",
                remedy=f"write {MASK} where a token is to be guessed",
            )
        if top < 1:
            raise ArgumentError(f"fill(top={top}): at least one token is shown for each gap")
        p = np.asarray(jax.nn.softmax(eqx.filter_jit(self.logits)(jnp.asarray(ids)[None, :])[0], axis=-1))
        found = []
        for position in np.flatnonzero(ids == self.gaps.mask):
            best = np.argsort(-p[position])[:top]
            found.append(list(zip(self.tokenizer.pieces(best), p[position, best].tolist(), strict=True)))
        return found

    def vary(
        self, key: Key, text: str, start: int, stop: int, *, n: int = 4, temperature: float = 1.0
    ) -> list[str]:
        """`n` texts in which the tokens `start` to `stop` - 1 of a text are drawn anew."""
        ids = self.gaps.encode(text)
        if not 0 <= start < stop <= len(ids):
            raise ArgumentError(f"vary({start}, {stop}): the text has {len(ids)} tokens")
        begun = (
            jnp.broadcast_to(jnp.asarray(ids)[None, :], (n, len(ids))).at[:, start:stop].set(self.gaps.mask)
        )
        filled = _filled(self, begun, jnp.arange(start, stop), key, checked(temperature))
        return [self.tokenizer.decode(row) for row in np.asarray(filled)]

    def pseudo_log_likelihood(self, x: Int[Array, "batch time"]) -> Float[Array, " batch"]:
        """Sum over tokens of the log-probability of each given all others, in nats. This is not a likelihood.

        The guesses do not belong to one distribution over texts and their product does not sum to one. It ranks texts
        (Salazar et al., 2020) and takes one pass for each token.
        """

        def at(position: Array) -> Array:
            hidden = x.at[:, position].set(self.gaps.mask)
            logits = self.read_out(jnp.take(self.features(hidden), position, axis=1)[:, None])
            return -losses.cross_entropy(logits, jnp.take(x, position, axis=1)[:, None])[:, 0]

        return jax.lax.map(at, jnp.arange(x.shape[1])).sum(axis=0)

    # ------------------------------------------------------------------ vectors

    def encode(self, x: Int[Array, "batch time"]) -> Float[Array, "batch width"]:
        """A vector for each example, of its features pooled as the settings say."""
        return self.pooled(self.features(x), jnp.ones(x.shape, bool))

    def embed(self, texts: Sequence[str]) -> Float[Array, "texts width"]:
        """A vector of length one for each text; the inner product of two says how close they are."""
        ids = [self.gaps.encode(text, whole=True)[: self.context] for text in texts]
        longest = max(map(len, ids), default=0)
        if not longest:
            raise ArgumentError("embed: there is no text")
        x = np.zeros((len(ids), longest), np.int32)
        valid = np.arange(longest)[None, :] < np.array([len(row) for row in ids])[:, None]
        x[valid] = np.concatenate(ids)
        features = eqx.filter_jit(self.features)(jnp.asarray(x), mask=Padding(jnp.asarray(valid)))
        pooled = self.pooled(features, jnp.asarray(valid))
        return pooled / jnp.maximum(jnp.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)

    # ------------------------------------------------------------------ looking inside

    def attention(self, x: Int[Array, "batch time"]) -> Float[Array, "batch layers heads time time"]:
        """How much each position takes from each, in every head of every layer."""
        return self.attention_maps(self.with_positions(self.vectors(x)))

    def questions(self, batch: Batch, key: Key) -> StreamQuestions:
        """What some positions hold, most of which are hidden as in training."""
        x = batch.x
        positions, seen = draw_gaps(
            key, x, self.config.hide, len(self.schema.tokens), self.gaps.mask, self.gaps.special
        )
        asked = jnp.zeros(x.shape, bool).at[jnp.arange(len(x))[:, None], positions].set(True)
        return StreamQuestions((seen,), x, asked)

    def posed(self, *given: str | Shaped[np.ndarray, "..."]) -> Posed:
        """What the first gap of a text holds; without one the token in the middle is hidden."""
        (text,) = given
        tokens = self.gaps.encode(text) if isinstance(text, str) else np.array(text, np.int32)
        holes = np.flatnonzero(tokens == self.gaps.mask)
        position = int(holes[0]) if len(holes) else len(tokens) // 2
        tokens[position : position + 1] = self.gaps.mask  # none to hide in an empty text
        return Posed((tokens,), position)

    @property
    def adds_positions(self) -> bool:
        """Learned positions and segments are added, or normalised with the vectors."""
        return self.positions is not None or self.segments is not None

    def embeddings(self) -> Float[Array, "tokens features"]:
        """The vector of each token."""
        return self.embedding.weight[: len(self.schema.tokens)]

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Attention of every head on a passage, and the map of the tokens."""
        del key
        x = jnp.asarray(data.val.batch(np.arange(1)).x[:, : tokens.LONGEST])
        weights = np.asarray(eqx.filter_jit(self.attention)(x)[0])
        names = tokens.names(self.tokenizer, np.asarray(x[0]))
        return [
            tokens.attention(weights, names),
            tokens.heads(weights, names),
            tokens.embedding_map(np.asarray(self.embeddings()), self.tokenizer, data),
        ]


@eqx.filter_jit
def _filled(
    model: BERT,
    begun: Int[Array, "n time"],
    holes: Int[Array, " holes"],
    key: Key,
    temperature: Float[Array, ""],
) -> Int[Array, "n time"]:
    """Each row with its holes filled one at a time, in a random order of its own."""
    rows = jnp.arange(len(begun))
    orders, draws = jax.random.split(key)

    def order(row: Array) -> Array:
        return jax.random.permutation(jax.random.fold_in(orders, row), holes)

    def step(x: Array, visit: tuple[Array, Array]) -> tuple[Array, None]:
        positions, number = visit
        features = jnp.take_along_axis(model.features(x), positions[:, None, None], axis=1)
        logits = model.read_out(features)[:, 0]
        own = jax.vmap(lambda row: jax.random.fold_in(jax.random.fold_in(draws, row), number))(rows)
        noise = jax.vmap(lambda key: jax.random.gumbel(key, logits.shape[1:], logits.dtype))(own)
        # The largest of logits / T + noise; multiplied by T so that zero is allowed.
        token = (logits + temperature.astype(logits.dtype) * noise).argmax(axis=-1)
        return x.at[rows, positions].set(token.astype(x.dtype)), None

    visits = (jax.vmap(order)(rows).T, jnp.arange(len(holes)))
    return jax.lax.scan(step, begun, visits)[0]


__all__ = ["BERT"]
