"""The transformer for pairs: an encoder that sees all of the source, a decoder that looks back at it."""

import math
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped
from pydantic import Field

from chainrule.core.types import Array, Float, Int, Key
from chainrule.data import tokenizers
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    Config,
    DecodingState,
    HasResidualStream,
    PatchSite,
    Posed,
    ResidualStream,
    StreamQuestions,
    patch_sites,
)
from chainrule.models.text.encoder_decoder import EncoderDecoder, shifted, within
from chainrule.nn import Dropout, Embedding, LayerNorm, TransformerBlock
from chainrule.nn.attention import Cache, Padding, SourceMemory
from chainrule.nn.hooks import inside, tap
from chainrule.nn.positions import sinusoids


@final
class TranslatorConfig(Config):
    """Settings of the translator."""

    layers: int = Field(2, ge=1, le=100, description="blocks of the encoder, and as many of the decoder")
    heads: int = Field(4, ge=1, description="attention heads; they divide the width")
    width: int = Field(128, ge=2, description="size of the vectors; even")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="share of what a layer adds that is dropped while training"
    )
    tie: bool = Field(True, description="use the target embedding for the logits too")


@final
class TranslatorState(DecodingState):
    """A source as the decoder's layers see it, and what they remember of the target so far."""

    position: Int[Array, ""]
    memories: tuple[SourceMemory, ...]
    """Keys and values of the source, one pair for each layer, computed once."""
    caches: tuple[Cache, ...]

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        memories = jax.tree.map(lambda array: array[rows], self.memories)
        return type(self)(self.position, memories, tuple(cache.fork(rows) for cache in self.caches))

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """The state as it was after the first `position` tokens."""
        caches = tuple(cache.rewind(position) for cache in self.caches)
        return type(self)(jnp.asarray(position, jnp.int32), self.memories, caches)


@final
class Translator(EncoderDecoder, HasResidualStream):
    """Encoder and decoder of pre-norm transformer blocks, with sinusoids for positions."""

    source: Embedding
    target: Embedding
    output: Embedding | None
    encoder: tuple[TransformerBlock, ...]
    encoder_norm: LayerNorm
    decoder: tuple[TransformerBlock, ...]
    decoder_norm: LayerNorm
    dropout: Dropout
    config: TranslatorConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: TranslatorConfig, schema: Schema, key: Key) -> None:
        keys = jax.random.split(key, 5)
        width, vocabulary = config.width, len(schema.target_tokens) + 1
        self.source = Embedding(len(schema.tokens) + 1, width, key=keys[0])
        self.target = Embedding(vocabulary + 1, width, key=keys[1])
        self.output = None if config.tie else Embedding(vocabulary, width, key=keys[2])
        shape: dict[str, Any] = {"heads": config.heads, "dropout": config.dropout, "layers": config.layers}
        self.encoder = tuple(
            TransformerBlock(width, key=k, **shape) for k in jax.random.split(keys[3], config.layers)
        )
        self.decoder = tuple(
            TransformerBlock(width, causal=True, cross=width, key=k, **shape)
            for k in jax.random.split(keys[4], config.layers)
        )
        self.encoder_norm, self.decoder_norm = LayerNorm(width), LayerNorm(width)
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema

    def read(
        self, x: Int[Array, "batch source"], key: Key | None = None
    ) -> tuple[tuple[SourceMemory, ...], Float[Array, "batch source width"]]:
        """Keys and values of the source for each layer of the decoder, and the vectors they were made of."""
        mask = Padding(within(x, self.source_end))
        first, *keys = self._keys(key, len(self.encoder))
        with inside("encoder"):
            h = self._embedded(self.source, x, jnp.arange(x.shape[1]), first)
        for i, (block, own) in enumerate(zip(self.encoder, keys, strict=True)):
            with inside(f"encoder.{i}"):
                h = block(h, mask=mask, dropout_key=own)
        h = self.encoder_norm(h)
        memories = []
        for i, block in enumerate(self.decoder):
            with inside(f"decoder.{i}.cross"):
                memories.append(block.remember(h, mask=mask))
        return tuple(memories), h

    def logits(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"], key: Key | None = None
    ) -> Float[Array, "batch target vocabulary"]:
        """Logits of every token of the targets given those before it; a key switches dropout on."""
        reading, writing = (None, None) if key is None else jax.random.split(key)
        memories, _ = self.read(x, reading)
        first, *keys = self._keys(writing, len(self.decoder))
        with inside("decoder"):
            h = self._embedded(self.target, shifted(y, self.begin), jnp.arange(y.shape[1]), first)
        for i, (block, memory, own) in enumerate(zip(self.decoder, memories, keys, strict=True)):
            with inside(f"decoder.{i}"):
                h = block(h, memory=memory, dropout_key=own)
        return self._out(h)

    def start(self, x: Int[Array, "batch source"]) -> TranslatorState:
        """The source read by the encoder, and caches with room for a whole target."""
        memories, _ = self.read(x)
        room = self.schema.target_shape[0]
        caches = tuple(block.cache(x.shape[0], room) for block in self.decoder)
        return TranslatorState(jnp.zeros((), jnp.int32), memories, caches)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], TranslatorState]:
        """Read target tokens: logits of the token after each, and the state after the last."""
        assert isinstance(state, TranslatorState)
        h = self._embedded(self.target, tokens, state.position + jnp.arange(tokens.shape[1]), None)
        caches = []
        for i, (block, memory, cache) in enumerate(
            zip(self.decoder, state.memories, state.caches, strict=True)
        ):
            with inside(f"decoder.{i}"):
                h, cache = block.advance(h, cache, memory=memory)
            caches.append(cache)
        return self._out(h), TranslatorState(state.position + tokens.shape[1], state.memories, tuple(caches))

    def alignment_names(self) -> tuple[str, ...]:
        """Layers and heads of the decoder."""
        numbers = (range(1, n + 1) for n in (self.config.layers, self.config.heads))
        layers, heads = numbers
        return tuple(f"layer {layer}, head {head}" for layer in layers for head in heads)

    def alignment(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"]
    ) -> Float[Array, "batch maps target source"]:
        """The weights of the decoder's attention to the source."""
        memories, _ = self.read(x)
        h = self._embedded(self.target, shifted(y, self.begin), jnp.arange(y.shape[1]), None)
        maps = []
        for block, memory in zip(self.decoder, memories, strict=True):
            maps.append(block.cross_weights(h, memory))
            h = block(h, memory=memory)
        return jnp.concatenate(maps, axis=1)

    def _embedded(
        self, table: Embedding, ids: Int[Array, "batch time"], positions: Int[Array, " time"], key: Key | None
    ) -> Float[Array, "batch time width"]:
        # Tied rows start small, or the token just read would be the likeliest next one; what is read is scaled up.
        width = table.weight.shape[1]
        known = sinusoids(positions, width).astype(table.weight.dtype)
        h = tap(table(ids) * math.sqrt(width), "embedding") + known[None, :, :]
        return h if key is None else self.dropout(h, key)

    def _out(self, h: Float[Array, "batch time width"]) -> Float[Array, "batch time vocabulary"]:
        return self.read_out(tap(self.decoder_norm(h), "features"))

    # ------------------------------------------------------------------ looking inside

    def residual_stream(self) -> ResidualStream:
        """The blocks of the decoder, which also looks at the source."""
        names = tuple(f"decoder.{i}" for i in range(len(self.decoder)))
        return ResidualStream("decoder.embedding", names, self.decoder, self.decoder_norm)

    @property
    def adds_positions(self) -> bool:
        """Sinusoids are added."""
        return True

    def stream_logits(self, *inputs: Array) -> Float[Array, "batch target vocabulary"]:
        """Logits of every token of the targets, from sources and targets."""
        return self.logits(*inputs)

    def read_out(self, features: Float[Array, "batch time width"]) -> Float[Array, "batch time vocabulary"]:
        """Logits of the tokens of targets and of their end; the begin mark, last in the table, is never written."""
        if self.output is not None:
            return self.output.logits(features)
        return self.target.logits(features)[..., :-1]

    def questions(self, batch: Batch, key: Key) -> StreamQuestions:
        """Which token of the target follows those before it, up to its end."""
        del key
        return StreamQuestions((batch.x, batch.y), batch.y, within(batch.y, self.end))

    def posed(self, *given: str | Shaped[np.ndarray, "..."]) -> Posed:
        """Which token is written next, given a source and what has been written of its target."""
        sides = zip(given, (tokenizers.of(self.schema), tokenizers.of_target(self.schema)), strict=True)
        tokens = [tokenizer.encode(one) if isinstance(one, str) else one for one, tokenizer in sides]
        # What stands where the answer is asked is not read; of what can stand there it is the end.
        source, written = (
            np.append(ids, end).astype(np.int32)
            for ids, end in zip(tokens, (self.source_end, self.end), strict=True)
        )
        return Posed((source, written), len(written) - 1)

    def patch_sites(self) -> tuple[PatchSite, ...]:
        """Those of the encoder over the source, and those of the decoder, which looks at it, over the target."""
        looking = " that looks at the source"
        return (
            *patch_sites("encoder", 0, " of the encoder", "encoder-"),
            *patch_sites("decoder", 1, " of the decoder", "decoder-"),
            PatchSite("cross_out", "decoder.*.cross_out", f"What attention{looking} adds", 1),
            PatchSite(
                "cross-heads", "decoder.*.cross.z", f"What each head{looking} brings back", None, looking
            ),
        )

    def _keys(self, key: Key | None, blocks: int) -> "list[Key | None]":
        """Keys for the embedding and each block; none where nothing is dropped."""
        if key is None or self.dropout.inference or not self.dropout.p:
            return [None] * (blocks + 1)
        return list(jax.random.split(key, blocks + 1))


__all__ = ["Translator", "TranslatorConfig", "TranslatorState"]
