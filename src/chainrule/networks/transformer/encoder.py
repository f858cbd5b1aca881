"""The bidirectional transformer: every token attends to all others (Devlin et al., 2019).

What its tokens are, words of a text or patches of an image, is for the model to say that has this body.
"""

import abc
from typing import Literal, NamedTuple

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Key
from chainrule.networks.transformer.body import Transformer
from chainrule.nn import Embedding, LayerNorm, TransformerBlock
from chainrule.nn.attention import Mask
from chainrule.nn.hooks import tap
from chainrule.nn.positions import Learned, Rotary, with_positions

_EPS = {"bert": 1e-12, "modern": 1e-5}
"""What presets add to variances."""


class EncoderConfig(Config, abc.ABC):
    """Settings of a bidirectional transformer between its ends."""

    preset: Literal["modern", "bert"] = Field(
        "modern",
        description="modern: rotary positions (of patches: learned as well), normalisation before each part; bert: "
        "learned positions, normalisation after each part",
    )
    layers: int = Field(4, ge=1, le=1000, description="blocks, one after another")
    heads: int = Field(4, ge=1, description="heads of attention in a block; they must divide width")
    width: int = Field(128, ge=1, description="numbers that stand for a token or patch on its way through")
    hidden: int | None = Field(
        None, ge=1, description="inner width of the feed-forward part; default 4 width"
    )
    context: int | None = Field(None, ge=1, description="text: tokens, at most; default: those of an example")
    dropout: float = Field(0.0, ge=0, lt=1, description="share dropped while training")
    norm_eps: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="what normalisation adds to a variance; default 1e-5, with preset=bert 1e-12",
    )
    segments: int = Field(
        0, ge=0, description="text: kinds told apart by a vector each; weights of BERT have 2"
    )

    @property
    def eps(self) -> float:
        """What normalisation adds to a variance, as given or as the preset says."""
        return _EPS[self.preset] if self.norm_eps is None else self.norm_eps


class TransformerEncoder(Transformer):
    """Blocks in which every token sees all others."""

    positions: eqx.AbstractVar[Learned | None]
    segments: eqx.AbstractVar[Embedding | None]
    embedding_norm: eqx.AbstractVar[LayerNorm | None]
    norm: eqx.AbstractVar[LayerNorm | None]

    def read(
        self, vectors: Float[Array, "batch time width"], *, mask: Mask | None = None, key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of the vectors of tokens; a key switches dropout on."""
        h = self.through(self.dropped(self.with_positions(vectors), key), mask=mask, key=key)
        return tap(h if self.norm is None else self.norm(h), "features")

    def with_positions(self, vectors: Float[Array, "batch time width"]) -> Float[Array, "batch time width"]:
        """What goes into the first block: vectors, with position and segment where these are learned."""
        h = tap(vectors, "embedding")
        if self.positions is not None:
            h = with_positions(h, tap(self.positions(h.shape[1])[None], "positions"))
        if self.segments is not None:
            h = h + self.segments.weight[None, :1].astype(h.dtype)
        return h if self.embedding_norm is None else self.embedding_norm(h)


class EncoderLayers(NamedTuple):
    """The layers between the two ends, fresh."""

    positions: Learned | None
    embedding_norm: LayerNorm | None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm | None


def encoder_layers(
    config: EncoderConfig, context: int, for_positions: Key, for_blocks: Key, *, absolute: bool = False
) -> EncoderLayers:
    """What the preset asks for; `absolute` adds learned positions to relative ones."""
    classic, width = config.preset == "bert", config.width
    rotary = None if classic else Rotary()
    return EncoderLayers(
        Learned(context, width, key=for_positions) if classic or absolute else None,
        LayerNorm(width, eps=config.eps) if classic else None,
        tuple(_block(config, rotary, key) for key in jax.random.split(for_blocks, config.layers)),
        None if classic else LayerNorm(width, eps=config.eps),
    )


def _block(config: EncoderConfig, rotary: Rotary | None, key: Key) -> TransformerBlock:
    classic, width = config.preset == "bert", config.width
    return TransformerBlock(
        width,
        heads=config.heads,
        positions=rotary,
        norm_at="post" if classic else "pre",
        eps=config.eps,
        activation="gelu",
        hidden=config.hidden,
        dropout=config.dropout,
        layers=config.layers,
        key=key,
    )


__all__ = ["EncoderConfig", "EncoderLayers", "TransformerEncoder", "encoder_layers"]
