"""The transformer that reads both ways, whatever its tokens are: symbols of a text or patches of an image.

What the two readings share is here: settings, blocks, how vectors are read, pooled and judged. A reading adds its way
in, its way out, and how it hides what is to be guessed.
"""

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanEncode, CanSample, Config, HasPictures, HasScores, Metrics, Scored
from chainrule.nn import Dropout, Embedding, LayerNorm, TransformerBlock
from chainrule.nn.attention import Mask
from chainrule.nn.positions import Learned, Rotary, placed

_EPS = 1e-12
"""What BERT adds to variances."""


@final
class BERTConfig(Config):
    """Settings of the encoder."""

    preset: Literal["modern", "bert"] = Field(
        "modern",
        description="modern: rotary positions (of patches: learned as well), normalisation before each part; bert: "
        "learned positions, normalisation after each part",
    )
    layers: int = Field(4, ge=1, description="blocks, one after another")
    heads: int = Field(4, ge=1, description="heads of attention in a block; they must divide width")
    width: int = Field(128, ge=1, description="numbers that stand for a symbol or patch on its way through")
    hidden: int | None = Field(
        None, ge=1, description="inner width of the feed-forward part; default 4 width"
    )
    context: int | None = Field(
        None, ge=1, description="text: symbols, at most; default: those of an example"
    )
    hide: float = Field(
        0.15, gt=0, lt=1, description="share of the symbols or patches that are to be guessed"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="share dropped while training")
    pooling: Literal["mean", "first", "last"] = Field(
        "mean",
        description="the vector of an example: the mean over its symbols, or that of its first or last",
    )
    segments: int = Field(
        0, ge=0, description="text: kinds told apart by a vector each; weights of BERT have 2"
    )
    patch: int | None = Field(
        None,
        ge=1,
        description="images: side of the squares that stand for symbols; default: the largest up to 4 that leaves 16",
    )
    levels: int | None = Field(
        None,
        ge=2,
        description="images: steps of brightness told apart; default: those of the data, at most 32",
    )


class Guesses(NamedTuple):
    """How well the hidden tokens of each example were guessed: means over them."""

    nats: Float[Array, " batch"]
    right: Float[Array, " batch"]
    """Share that the likeliest guess gets right."""
    more: Mapping[str, Scored] = MappingProxyType({})
    """What else a reading is judged by."""


class Encoder(CanSample, CanEncode, HasPictures, HasScores):
    """Blocks in which every token sees all others, and a loss on those that were hidden."""

    positions: eqx.AbstractVar[Learned | None]
    segments: eqx.AbstractVar[Embedding | None]
    embedding_norm: eqx.AbstractVar[LayerNorm | None]
    blocks: eqx.AbstractVar[tuple[TransformerBlock, ...]]
    norm: eqx.AbstractVar[LayerNorm | None]
    dropout: eqx.AbstractVar[Dropout]
    config: eqx.AbstractVar[BERTConfig]
    schema: eqx.AbstractVar[Schema]
    context: eqx.AbstractVar[int]

    @abc.abstractmethod
    def guesses(self, x: Array, key: Key) -> Guesses:
        """Hide some tokens of each example, drawn anew for every key, and guess them."""

    @property
    @abc.abstractmethod
    def unit(self) -> str:
        """What a guess is about, in one word."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean nats per guess; which tokens are hidden is drawn anew every time."""
        found = self.guesses(batch.x, key)
        return found.nats.mean(), {"guessed": found.right.mean()}

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Nats per guess, which is no likelihood, and how many guesses are right."""
        found = self.guesses(batch.x, key)
        return {
            "hidden_nats": Scored(found.nats, f"nats per hidden {self.unit}"),
            "guessed": Scored(found.right, f"of hidden {self.unit}s"),
            **found.more,
        }

    def read(
        self, vectors: Float[Array, "batch time width"], *, mask: Mask | None = None, key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of the vectors of tokens; a key switches dropout on."""
        h = self.placed(vectors)
        if self.config.dropout == 0 or self.dropout.inference:
            key = None
        if key is not None:
            h = self.dropout(h, jax.random.fold_in(key, len(self.blocks)))
        for i, block in enumerate(self.blocks):
            h = block(h, mask=mask, dropout_key=None if key is None else jax.random.fold_in(key, i))
        return h if self.norm is None else self.norm(h)

    def placed(self, vectors: Float[Array, "batch time width"]) -> Float[Array, "batch time width"]:
        """What goes into the first block: the vectors of tokens, with places and segment where these are learned."""
        h = vectors
        if self.positions is not None:
            h = placed(h, self.positions(h.shape[1])[None])
        if self.segments is not None:
            h = h + self.segments.weight[None, :1].astype(h.dtype)
        return h if self.embedding_norm is None else self.embedding_norm(h)

    def pooled(
        self, features: Float[Array, "batch time width"], valid: Bool[Array, "batch time"]
    ) -> Float[Array, "batch width"]:
        """One vector for each example, of the features of its valid tokens."""
        if self.config.pooling == "first":
            return features[:, 0]
        if self.config.pooling == "last":
            last = valid.sum(axis=1) - 1
            return jnp.take_along_axis(features, last[:, None, None], axis=1)[:, 0]
        kept = valid[:, :, None].astype(features.dtype)
        return (features * kept).sum(axis=1) / jnp.maximum(kept.sum(axis=1), 1)


class Layers(NamedTuple):
    """The layers between the two ends, fresh."""

    positions: Learned | None
    embedding_norm: LayerNorm | None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm | None


def layers(
    config: BERTConfig, context: int, for_positions: Key, for_blocks: Key, *, absolute: bool = False
) -> Layers:
    """What the preset asks for; `absolute` adds learned places to relative ones."""
    classic, width = config.preset == "bert", config.width
    rotary = None if classic else Rotary()
    return Layers(
        Learned(context, width, key=for_positions) if classic or absolute else None,
        LayerNorm(width, eps=_EPS) if classic else None,
        tuple(_block(config, rotary, key) for key in jax.random.split(for_blocks, config.layers)),
        None if classic else LayerNorm(width),
    )


def _block(config: BERTConfig, rotary: Rotary | None, key: Key) -> TransformerBlock:
    classic, width = config.preset == "bert", config.width
    block = TransformerBlock(
        width,
        heads=config.heads,
        positions=rotary,
        norm_at="post" if classic else "pre",
        activation="gelu",
        hidden=config.hidden,
        dropout=config.dropout,
        layers=config.layers,
        key=key,
    )
    norms = tuple(LayerNorm(width, eps=_EPS if classic else 1e-5) for _ in range(2))
    return eqx.tree_at(lambda block: (block.first_norm, block.second_norm), block, norms)


__all__ = ["BERTConfig", "Encoder", "Guesses", "Layers", "layers"]
