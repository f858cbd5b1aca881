"""Vision transformer: the patches of an image are tokens, and one more token gathers what is said of them all."""

from typing import Literal, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, HasResidualStream, Posed, ResidualStream, StreamQuestions
from chainrule.models.supervised.supervised_model import Supervised, output_count
from chainrule.networks.image_towers import (
    PixelsSetting,
    SizeSetting,
    StochasticDepthSetting,
    colours,
    depth_rates,
    entered,
)
from chainrule.networks.patches import check_patch, cut, patch_count, patch_sides
from chainrule.networks.transformer import TransformerEncoder
from chainrule.nn import Dropout, Embedding, LayerNorm, Linear, TransformerBlock
from chainrule.nn.positions import Learned

EPS = 1e-6
"""What the published networks add to variances."""
LARGEST, FEWEST, MOST = 16, 7, 1024
"""Side of the largest patch, how many lie along a side at least, and how many in an image at most, unless given."""


class ViTSizes(NamedTuple):
    """The sizes that go by one name."""

    layers: int
    heads: int
    width: int


VARIANTS = {
    "mini": ViTSizes(6, 4, 128),
    "tiny": ViTSizes(12, 3, 192),
    "small": ViTSizes(12, 6, 384),
    "base": ViTSizes(12, 12, 768),
    "large": ViTSizes(24, 16, 1024),
}
"""Those of Dosovitskiy et al. (base, large), of Touvron et al., 2021 (tiny, small), and one for small data."""


@final
class ViTConfig(Config):
    """Settings of vision transformers."""

    variant: Literal["mini", "tiny", "small", "base", "large"] = Field(
        "mini",
        description="layers, heads and width: as published from tiny on; mini suits thousands of images",
    )
    patch: int | None = Field(
        None,
        ge=1,
        description="side of a patch; default: at most 16 and at least 7 along a side, 16 for images of 224",
    )
    layers: int | None = Field(
        None, ge=1, le=1000, description="blocks, one after another; default: the variant's"
    )
    heads: int | None = Field(None, ge=1, description="heads of attention in a block; they must divide width")
    width: int | None = Field(None, ge=1, description="numbers that stand for a patch on its way through")
    hidden: int | None = Field(
        None, ge=1, description="inner width of the feed-forward part; default 4 width"
    )
    norm_eps: float = Field(EPS, gt=0, lt=1, description="what normalisation adds to a variance")
    dropout: float = Field(0.0, ge=0, lt=1, description="share dropped while training")
    stochastic_depth: StochasticDepthSetting = 0.0
    pixels: PixelsSetting = "none"
    size: SizeSetting = 0

    def sizes(self) -> ViTSizes:
        """Those of the variant where none are given."""
        of = VARIANTS[self.variant]
        return ViTSizes(self.layers or of.layers, self.heads or of.heads, self.width or of.width)


@final
class ViT(Supervised, TransformerEncoder, HasResidualStream):
    """A linear way in for patches, a token of the class, blocks in which each sees all, and one affine map."""

    patches: Linear
    token: Embedding
    """What the token that gathers starts as."""
    positions: Learned
    segments: None
    embedding_norm: None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm
    head: Linear
    dropout: Dropout
    patch: int = eqx.field(static=True)
    config: ViTConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ViTConfig, schema: Schema, key: Key) -> None:
        for_patches, for_token, for_positions, for_head, for_blocks = jax.random.split(key, 5)
        height, breadth = (config.size, config.size) if config.size else schema.shape[:2]
        shape = (height, breadth, colours(schema.shape, config.pixels))
        layers, heads, width = config.sizes()
        self.patch = _side(config, shape)
        self.patches = Linear(self.patch**2 * shape[2], width, initializer="lecun", key=for_patches)
        self.token = Embedding(1, width, key=for_token)
        self.positions = Learned(1 + patch_count(shape, self.patch), width, key=for_positions)
        self.segments = self.embedding_norm = None
        rates = depth_rates(config.stochastic_depth, layers)
        self.blocks = tuple(
            TransformerBlock(
                width,
                heads=heads,
                hidden=config.hidden,
                eps=config.norm_eps,
                activation="gelu",
                dropout=config.dropout,
                stochastic_depth=rate,
                layers=layers,
                key=own,
            )
            for rate, own in zip(rates, jax.random.split(for_blocks, layers), strict=True)
        )
        self.norm = LayerNorm(width, eps=config.norm_eps)
        self.head = Linear(width, output_count(schema), initializer="normal", gain=0.02, key=for_head)
        self.dropout = Dropout(config.dropout)
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model: it has no state."""
        return self.head(self.read(self._vectors(x), key=key)[:, 0]), self

    def _vectors(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch time vector"]:
        """The token that gathers, and the patches."""
        tokens = self.patches(cut(entered(x, self.config.pixels, self.config.size), self.patch))
        first = jnp.broadcast_to(self.token.weight.astype(tokens.dtype), (x.shape[0], 1, tokens.shape[2]))
        return jnp.concatenate([first, tokens], axis=1)

    # ------------------------------------------------------------------ looking inside

    def residual_stream(self) -> ResidualStream:
        """All blocks."""
        names = tuple(f"blocks.{i}" for i in range(len(self.blocks)))
        return ResidualStream("embedding", names, self.blocks, self.norm)

    @property
    def adds_positions(self) -> bool:
        """Learned ones."""
        return True

    def stream_logits(self, *inputs: Array) -> Float[Array, "batch time outputs"]:
        """What the head would say at each position; at the first, what it says of the image."""
        (x,) = inputs
        return self.head(self.read(self._vectors(x)))

    def read_out(self, features: Float[Array, "batch time width"]) -> Float[Array, "batch time outputs"]:
        """The head."""
        return self.head(features)

    def questions(self, batch: Batch, key: Key) -> StreamQuestions:
        """The class of each image, at the token that gathers."""
        del key
        time = self.positions.weight.shape[0]
        answers = jnp.broadcast_to(batch.y[:, None], (len(batch.y), time))
        return StreamQuestions((batch.x,), answers, jnp.broadcast_to(jnp.arange(time) == 0, answers.shape))

    def posed(self, *given: str | Shaped[np.ndarray, "..."]) -> Posed:
        """What an image shows, at the token that gathers."""
        (image,) = given
        return Posed((np.asarray(image, np.float32),), 0)

    def stream_grid(self) -> tuple[int, int]:
        """The patches."""
        size = self.config.size
        height, breadth = (size, size) if size else self.schema.shape[:2]
        return height // self.patch, breadth // self.patch


def _side(config: ViTConfig, shape: tuple[int, int, int]) -> int:
    """The side of a patch, as given or as suits the images."""
    if config.patch is not None:
        check_patch(shape, config.patch)
        return config.patch
    least = max(2, min(shape[:2]) // FEWEST)
    side = max(side for side in patch_sides(shape) if side <= min(LARGEST, least))
    if patch_count(shape, side) > MOST:
        tidy = max(LARGEST, LARGEST * round(min(shape[:2]) / LARGEST))
        raise ArgumentError(
            f"vit: images of {shape[0]}×{shape[1]} can be cut into squares of {side} pixels or of more than "
            f"{LARGEST} only",
            remedy=f"resize them: size={tidy}; or say patch=",
        )
    return side


__all__ = ["VARIANTS", "ViT", "ViTConfig"]
