"""The transformer in the middle of a reader: what a `gpt` or a `bert` has between its embedding and its output layer.

Arrays have the names that they have in those models, so that those of a trained one can be taken over.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.representation.bert.gaps import MASK
from chainrule.networks.transformer import (
    DecoderConfig,
    EncoderConfig,
    TokenTransformer,
    TransformerDecoder,
    TransformerEncoder,
    decoder_layers,
    encoder_layers,
)
from chainrule.nn import Dropout, Embedding, LayerNorm, Norm, TransformerBlock
from chainrule.nn.positions import Learned, Sinusoids


@final
class DecoderBodyConfig(DecoderConfig):
    """Settings of a body in which positions see those before them."""


@final
class EncoderBodyConfig(EncoderConfig):
    """Settings of a body in which positions see all others."""


@final
class DecoderBody(TransformerDecoder):
    """The middle of a `gpt`; without `tokens` it has no embedding."""

    embedding: Embedding | None
    positions: Learned | Sinusoids | None
    blocks: tuple[TransformerBlock, ...]
    norm: Norm
    dropout: Dropout
    config: DecoderBodyConfig = eqx.field(static=True)
    context: int | None = eqx.field(static=True)

    def __init__(
        self, config: DecoderBodyConfig, tokens: Sequence[str] | None, length: int, key: Key
    ) -> None:
        # Four keys, as the language model splits its own: the same seed gives the same body.
        for_tokens, for_positions, _, for_blocks = jax.random.split(key, 4)
        self.context = context = length if config.context is None else config.context
        self.embedding = None if tokens is None else Embedding(len(tokens), config.width, key=for_tokens)
        between = decoder_layers(config, context, for_positions, for_blocks)
        self.positions, self.blocks, self.norm = between
        self.dropout = Dropout(config.dropout)
        self.config = config


@final
class EncoderBody(TransformerEncoder, TokenTransformer):
    """The middle of a `bert`; without `tokens` it has no embedding."""

    embedding: Embedding | None
    positions: Learned | None
    segments: Embedding | None
    embedding_norm: LayerNorm | None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm | None
    dropout: Dropout
    config: EncoderBodyConfig = eqx.field(static=True)
    context: int | None = eqx.field(static=True)

    def __init__(
        self, config: EncoderBodyConfig, tokens: Sequence[str] | None, length: int, key: Key
    ) -> None:
        for_tokens, for_positions, for_segments, for_blocks = jax.random.split(key, 4)
        width = config.width
        self.context = context = length + 1 if config.context is None else config.context
        self.embedding = None
        if tokens is not None:
            self.embedding = Embedding(len(tokens) + (MASK not in tokens), width, key=for_tokens)
        self.segments = Embedding(config.segments, width, key=for_segments) if config.segments else None
        between = encoder_layers(config, context, for_positions, for_blocks)
        self.positions, self.embedding_norm, self.blocks, self.norm = between
        self.dropout = Dropout(config.dropout)
        self.config = config

    def vectors(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
        """The vectors of tokens, before positions are added."""
        assert self.embedding is not None, "this body reads vectors only"
        self.check_length(x)
        return self.embedding(x)


BodyConfig = DecoderBodyConfig | EncoderBodyConfig


class BodyKind(NamedTuple):
    """A body by the name of the model whose middle it is."""

    config: type[BodyConfig]
    build: Callable[..., TokenTransformer]
    ends: frozenset[str]
    """Settings of that model's ends, which a body has no use for."""


KINDS = {
    "gpt": BodyKind(DecoderBodyConfig, DecoderBody, frozenset({"tie", "chunk"})),
    "bert": BodyKind(EncoderBodyConfig, EncoderBody, frozenset({"hide", "pooling", "patch", "levels"})),
}


def configured(name: str, settings: dict[str, Any]) -> BodyConfig:
    """The settings of a body, out of those of the model it is the middle of."""
    kind = KINDS[name]
    return kind.config(**{one: value for one, value in settings.items() if one not in kind.ends})


def built(
    name: str, config: BodyConfig, tokens: Sequence[str] | None, length: int, key: Key
) -> TokenTransformer:
    """A body with random weights that reads `length` vectors; without `tokens` it has no embedding."""
    if config.context is not None and config.context < length:
        raise ArgumentError(
            f"an example has {length} positions; the body can look at {config.context}",
            remedy=f"shorten texts with data.longest={config.context - 1}, or cut images into larger patches with "
            "patch=...",
        )
    return KINDS[name].build(config, tokens, length, key)


__all__ = [
    "KINDS",
    "BodyConfig",
    "BodyKind",
    "DecoderBody",
    "DecoderBodyConfig",
    "EncoderBody",
    "EncoderBodyConfig",
    "built",
    "configured",
]
