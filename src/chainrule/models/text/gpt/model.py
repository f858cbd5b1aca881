"""The decoder-only transformer as a language model (Radford et al., 2019)."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanPack,
    CanPad,
    HasAttention,
    HasEmbedding,
    HasLens,
    HasPictures,
    HasTokenStream,
    Posed,
    StreamQuestions,
)
from chainrule.models.text.gpt.config import GPTConfig
from chainrule.models.text.gpt.state import GPTState, restarted
from chainrule.models.text.language_model import LanguageModel
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.networks.transformer import TransformerDecoder, decoder_layers
from chainrule.nn import Dropout, Embedding, Linear, Norm, TransformerBlock, losses
from chainrule.nn.attention import LeftPadding, PackedDocuments
from chainrule.nn.hooks import inside, tap
from chainrule.nn.positions import Learned, Sinusoids


@final
class GPT(
    TransformerDecoder,
    LanguageModel,
    CanPack,
    CanPad,
    HasAttention,
    HasTokenStream,
    HasLens,
    HasEmbedding,
    HasPictures,
):
    """Embeddings, blocks of causal attention and feed-forward layers, and logits from the same embeddings."""

    embedding: Embedding
    positions: Learned | Sinusoids | None
    blocks: tuple[TransformerBlock, ...]
    norm: Norm
    head: Linear | None
    """Logits where the embedding is not tied."""
    dropout: Dropout
    config: GPTConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: int | None = eqx.field(static=True)

    def __init__(self, config: GPTConfig, schema: Schema, key: Key) -> None:
        tokens = len(schema.tokens)
        for_tokens, for_positions, for_head, for_blocks = jax.random.split(key, 4)
        self.context = schema.shape[0] - 1 if config.context is None else config.context
        if self.context < schema.shape[0] - 1:
            raise ArgumentError(
                f"gpt(context={self.context}): passages of the data have {schema.shape[0] - 1} tokens",
                remedy=f"use data.window={self.context}, or leave context out",
            )
        if schema.packed and config.attention != "softmax":
            raise ArgumentError(
                f"gpt(attention={config.attention}): sums over all that was read cannot tell documents apart",
                remedy="use attention=softmax, or leave data.packing out",
            )
        self.embedding = Embedding(tokens, config.width, key=for_tokens)
        self.positions, self.blocks, self.norm = decoder_layers(
            config, self.context, for_positions, for_blocks
        )
        self.head = (
            None
            if config.tie
            else Linear(config.width, tokens, initializer="normal", gain=0.02, bias=False, key=for_head)
        )
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema

    # ------------------------------------------------------------------ all positions at once

    def logits(
        self, x: Int[Array, "batch time"], key: Key | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits of the token after each position; a key switches dropout on."""
        return self.read_out(self.features(x, key))

    def features(
        self,
        x: Int[Array, "batch time"],
        key: Key | None = None,
        documents: Int[Array, "batch time"] | None = None,
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of each position, normalised; nothing passes from one document to another."""
        self._check(x)
        if documents is None:
            return self.read(self.vectors(x), key=key)
        return self.read(
            self.vectors(x), mask=PackedDocuments(documents), positions=restarted(documents), key=key
        )

    def read_out(self, features: Float[Array, "batch time width"]) -> Float[Array, "batch time vocabulary"]:
        """Logits of normalised features."""
        return self.embedding.logits(features) if self.head is None else self.head(features)

    def surprisal(
        self, x: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """Minus the log-probability of each token after the first; with `chunk`, never all logits at once."""
        return self._judged(self.features(x[:, :-1], key), x[:, 1:])

    def packed_surprisal(
        self, x: Int[Array, "batch tokens"], documents: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """The same where several documents share a row: each begins at position 0 and sees nothing of the others."""
        return self._judged(self.features(x[:, :-1], key, documents[:, :-1]), x[:, 1:])

    def _judged(
        self, features: Float[Array, "batch time width"], targets: Int[Array, "batch time"]
    ) -> Float[Array, "batch time"]:
        size = self.config.chunk
        if size is None or targets.size <= size:
            return losses.cross_entropy(self.read_out(features), targets)
        features = features.reshape(targets.size, -1)
        rest = -targets.size % size
        pieces = jnp.pad(features, ((0, rest), (0, 0))).reshape(-1, 1, size, features.shape[-1])
        wanted = jnp.pad(targets.reshape(-1), (0, rest)).reshape(-1, 1, size)

        @jax.checkpoint  # the logits of a piece are made again on the way back
        def of_piece(piece: Array, wanted: Array) -> Array:
            return losses.cross_entropy(self.read_out(piece), wanted)

        found = jax.lax.map(lambda both: of_piece(*both), (pieces, wanted))
        return found.reshape(-1)[: targets.size].reshape(targets.shape)

    # ------------------------------------------------------------------ token by token

    def start(self, batch: int, room: int) -> GPTState:
        """The memory before the first token; with more room than the context, of the last `context` tokens only.

        The sums of linear attention need no room and forget nothing.
        """
        assert self.context is not None
        if room > self.context and self.positions is not None:
            raise CapabilityError(
                f"positions={self.config.style.positions}: tokens that stay would have to move to other positions",
                remedy='use overflow="crop", or train with positions=rotary',
            )
        rolling = room > self.context and self.config.attention == "softmax"
        room = min(room, self.context)
        caches = tuple(block.cache(batch, room, rolling=rolling) for block in self.blocks)
        return GPTState(jnp.zeros((), jnp.int32), caches)

    def start_padded(self, padding: Int[Array, " batch"], room: int) -> GPTState:
        """The memory before the first token of rows that begin with so much padding."""
        blank = self.start(len(padding), room)
        return GPTState(blank.position, blank.caches, padding)

    def advance(  # type: ignore[override]  # its own kind of state
        self, state: GPTState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], GPTState]:
        """Read tokens: the logits after each of them, and the memory after the last."""
        time, padding = tokens.shape[1], state.padding
        positions, mask = None, None
        if padding is not None:
            positions = jnp.maximum(state.position + jnp.arange(time)[None, :] - padding[:, None], 0)
            mask = LeftPadding(padding)
        x = self.with_positions(self.vectors(tokens), state.position, positions=positions)
        caches = []
        for i, (block, cache) in enumerate(zip(self.blocks, state.caches, strict=True)):
            with inside(f"blocks.{i}"):
                x, after = block.advance(x, cache, mask=mask)
            caches.append(after)
        return self.read_out(tap(self.norm(x), "features")), GPTState(
            state.position + time, tuple(caches), padding
        )

    # ------------------------------------------------------------------ looking inside

    def attention(self, x: Int[Array, "batch time"]) -> Float[Array, "batch layers heads time time"]:
        """How much each position takes from each, in every head of every layer."""
        self._check(x)
        return self.attention_maps(self.with_positions(self.vectors(x)))

    def lens(self, x: Int[Array, "batch time"]) -> Float[Array, "depth batch time vocabulary"]:
        """Logits read out before the first block and after each."""
        self._check(x)
        h = self.with_positions(self.vectors(x))
        found = [self.read_out(self.norm(h))]
        for block in self.blocks:
            h = block(h)
            found.append(self.read_out(self.norm(h)))
        return jnp.stack(found)

    def questions(self, batch: Batch, key: Key) -> StreamQuestions:
        """Which token follows each."""
        del key
        x, answers = batch.x[:, :-1], batch.x[:, 1:]
        return StreamQuestions((x,), answers, jnp.ones(answers.shape, bool))

    def posed(self, *given: str | Shaped[np.ndarray, "..."]) -> Posed:
        """Which token follows a text."""
        (text,) = given
        tokens = self.tokenizer.encode(text).astype(np.int32) if isinstance(text, str) else text
        return Posed((tokens,), len(tokens) - 1)

    @property
    def adds_positions(self) -> bool:
        """Learned positions, and sines and cosines, are added; others turn queries and keys."""
        return self.positions is not None

    def embeddings(self) -> Float[Array, "tokens features"]:
        """The vector of each token."""
        return self.embedding.weight

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Attention of every head on a passage, and the map of the tokens."""
        del key
        x = jnp.asarray(data.val.batch(np.arange(1)).x[:, :-1][:, : token_pictures.LONGEST])
        names = token_pictures.names(self.tokenizer, np.asarray(x[0]))
        weights = np.asarray(eqx.filter_jit(self.attention)(x)[0])
        return [
            token_pictures.attention(weights, names),
            token_pictures.heads(weights, names),
            token_pictures.embedding_map(np.asarray(self.embeddings()), self.tokenizer, data),
        ]

    def _check(self, x: Int[Array, "batch time"]) -> None:
        self.check_length(x)
        if not x.shape[1]:
            raise ArgumentError("there is no token to read", remedy="give at least one")


__all__ = ["GPT"]
