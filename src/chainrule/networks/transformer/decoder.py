"""The causal transformer: every token attends to itself and to those before it (Radford et al., 2019).

Two presets are the same architecture in two styles. `gpt2` has learned positions, layer normalisation, GELU and
biases; `modern` has rotary positions, RMS normalisation, SwiGLU and no biases. Each of these can be set by itself.
"""

import abc
import math
from typing import Literal, NamedTuple

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Int, Key
from chainrule.networks.transformer.body import TokenTransformer
from chainrule.nn import LayerNorm, Norm, RMSNorm, TransformerBlock
from chainrule.nn.attention import EluPlusOne, FeatureMixing, Mask, Mixing, RandomFeatures, Softmax
from chainrule.nn.hooks import tap
from chainrule.nn.positions import Distance, Learned, Positions, Rotary, Sinusoids, with_positions


class Style(NamedTuple):
    """What a preset stands for."""

    positions: str
    norm: str
    activation: str
    bias: bool


STYLES = {
    "gpt2": Style("learned", "layer", "gelu-tanh", True),
    "modern": Style("rotary", "rms", "swiglu", False),
}


class DecoderConfig(Config, abc.ABC):
    """Settings of a causal transformer between its ends."""

    preset: Literal["modern", "gpt2"] = Field(
        "modern", description="what positions, norm, activation and bias are unless they are given"
    )
    layers: int = Field(4, ge=1, le=1000, description="blocks, one after another")
    heads: int = Field(4, ge=1, description="heads of attention in a block; they must divide width")
    key_heads: int | None = Field(
        None, ge=1, description="heads that have keys and values of their own; the others share them"
    )
    width: int = Field(128, ge=1, description="numbers that stand for a token on its way through")
    hidden: int | None = Field(
        None, ge=1, description="inner width of the feed-forward part; default 4 width, with swiglu 8/3 width"
    )
    context: int | None = Field(
        None, ge=1, description="tokens it can look back on; default: data.window, which training sees"
    )
    positions: Literal["learned", "sinusoids", "rotary", "distance", "none"] | None = Field(
        None,
        description="how order is told: a table, sines and cosines, rotated queries and keys, a penalty by distance",
    )
    rotary: Literal["half", "interleaved"] = Field(
        "half", description="rotary: which entries are pairs; matters for weights from elsewhere"
    )
    rotary_base: float = Field(
        10000.0,
        gt=1,
        description="rotary: the larger, the slower the slowest rotation; theta in other programs",
    )
    rotary_factor: float = Field(
        1.0, ge=1, description="rotary: how much slower rotations are than in training, for longer texts"
    )
    rotary_trained: int | None = Field(
        None,
        ge=1,
        description="rotary_factor: the context of training; rotations that turn several times in it stay as they are",
    )
    attention: Literal["softmax", "linear", "random-features"] = Field(
        "softmax",
        description="how values are mixed; the other two take time and memory that do not grow with the square of "
        "the length, and learn less well",
    )
    norm: Literal["layer", "rms"] | None = Field(None, description="normalisation before every part")
    norm_eps: float = Field(1e-5, gt=0, lt=1, description="what normalisation adds to a variance")
    activation: Literal["gelu-tanh", "gelu", "relu", "silu", "swiglu"] | None = Field(
        None, description="nonlinearity of the feed-forward part"
    )
    bias: bool | None = Field(None, description="biases in dense layers and layer normalisation")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="share of embeddings, attention and updates dropped while training"
    )
    scan: bool = Field(
        False, description="compile one block for all layers: compiles faster, runs a little slower"
    )
    recompute: bool = Field(
        False,
        description="compute the inside of blocks again on the way back: less memory, a third more work",
    )

    @property
    def style(self) -> Style:
        """Positions, norm, activation and bias, as given or as the preset says."""
        preset = STYLES[self.preset]
        return Style(
            preset.positions if self.positions is None else self.positions,
            preset.norm if self.norm is None else self.norm,
            preset.activation if self.activation is None else self.activation,
            preset.bias if self.bias is None else self.bias,
        )


class TransformerDecoder(TokenTransformer):
    """Blocks of causal attention and feed-forward layers."""

    positions: eqx.AbstractVar[Learned | Sinusoids | None]
    norm: eqx.AbstractVar[Norm]
    config: eqx.AbstractVar[DecoderConfig]

    def vectors(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
        """The vectors of tokens, before positions are added.

        Beside sines and cosines, which are as large as 1, tied rows would be too small to be seen: they are multiplied
        by the root of the width (Vaswani et al., 2017).
        """
        assert self.embedding is not None, "this body reads vectors only"
        out = self.embedding(x)
        return tap(
            out * math.sqrt(self.config.width) if isinstance(self.positions, Sinusoids) else out, "embedding"
        )

    def with_positions(
        self,
        vectors: Float[Array, "batch time width"],
        offset: int | Int[Array, ""] = 0,
        *,
        positions: Int[Array, "batch time"] | None = None,
        key: Key | None = None,
    ) -> Float[Array, "batch time width"]:
        """What goes into the first block: vectors, and positions where these are added, from `offset` or as given."""
        h = vectors
        if self.positions is not None:
            known = (
                self.positions(h.shape[1], offset)[None]
                if positions is None
                else self.positions.at(positions)
            )
            h = with_positions(h, tap(known, "positions"))
        return self.dropped(h, key)

    def read(
        self,
        vectors: Float[Array, "batch time width"],
        *,
        mask: Mask | None = None,
        positions: Int[Array, "batch time"] | None = None,
        key: Key | None = None,
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of each position, normalised; a key switches dropout on."""
        h = self.with_positions(vectors, positions=positions, key=key)
        scan, recompute = self.config.scan, self.config.recompute
        return tap(self.norm(self.through(h, mask=mask, key=key, scan=scan, recompute=recompute)), "features")


class DecoderLayers(NamedTuple):
    """The layers between the two ends, fresh."""

    positions: Learned | Sinusoids | None
    blocks: tuple[TransformerBlock, ...]
    norm: Norm


def decoder_layers(config: DecoderConfig, context: int, for_positions: Key, for_blocks: Key) -> DecoderLayers:
    """What the settings ask for."""
    style, width = config.style, config.width
    positions: Learned | Sinusoids | None = None
    if style.positions == "learned":
        positions = Learned(context, width, key=for_positions)
    elif style.positions == "sinusoids":
        positions = Sinusoids(width)
    return DecoderLayers(
        positions,
        tuple(_block(config, key) for key in jax.random.split(for_blocks, config.layers)),
        LayerNorm(width, eps=config.norm_eps, bias=style.bias)
        if style.norm == "layer"
        else RMSNorm(width, eps=config.norm_eps),
    )


def _block(config: DecoderConfig, key: Key) -> TransformerBlock:
    style = config.style
    rotary = Rotary(
        config.rotary_base, config.rotary, factor=config.rotary_factor, trained=config.rotary_trained
    )
    order: dict[str, Positions] = {"rotary": rotary, "distance": Distance()}
    mixings: dict[str, Mixing] = {
        "softmax": Softmax(dropout=config.dropout),
        "linear": FeatureMixing(EluPlusOne()),
        "random-features": FeatureMixing(RandomFeatures()),
    }
    return TransformerBlock(
        config.width,
        heads=config.heads,
        groups=config.key_heads,
        causal=True,
        positions=order.get(style.positions),
        mixing=mixings[config.attention],
        norm=style.norm,
        eps=config.norm_eps,
        activation=style.activation,
        hidden=config.hidden,
        bias=style.bias,
        dropout=config.dropout,
        layers=config.layers,
        key=key,
    )


__all__ = ["STYLES", "DecoderConfig", "DecoderLayers", "Style", "TransformerDecoder", "decoder_layers"]
