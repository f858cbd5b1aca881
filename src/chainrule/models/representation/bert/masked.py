"""Masked modelling, whatever the tokens are: words of a text or patches of an image (Devlin et al., 2019).

What the two share is here: settings, how vectors are pooled and guesses judged. Each adds its embedding, its output
layer, and how it hides what is to be guessed.
"""

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanEncode, CanSample, HasPictures, HasScores, Metrics, Scored
from chainrule.networks.transformer import EncoderConfig, TransformerEncoder


@final
class BERTConfig(EncoderConfig):
    """Settings of the encoder, and of what it is to guess."""

    hide: float = Field(0.15, gt=0, lt=1, description="share of the tokens or patches that are to be guessed")
    pooling: Literal["mean", "first", "last"] = Field(
        "mean",
        description="the vector of an example: the mean over its tokens, or that of its first or last",
    )
    patch: int | None = Field(
        None,
        ge=1,
        description="images: side of the squares that stand for tokens; default: the largest up to 4 that leaves 16",
    )
    levels: int | None = Field(
        None,
        ge=2,
        description="images: steps of brightness told apart; default: those of the data, at most 32",
    )


Temperature: TypeAlias = Annotated[
    float, Field(ge=0, description="above 1 draws are bolder; 0 takes the likeliest")
]
"""An option of everything that draws what stands in gaps."""
AllowSpecial: TypeAlias = Annotated[
    bool,
    Field(description="names of special tokens in the prompt become these tokens; otherwise they are text"),
]
"""An option of everything that goes on from a text."""


def checked(temperature: float) -> Float[Array, ""]:
    """The temperature of a draw, for compiled code."""
    if temperature < 0:
        raise ArgumentError(f"temperature={temperature}: temperature must be at least 0")
    return jnp.asarray(float(temperature))


class Guesses(NamedTuple):
    """How well the hidden tokens of each example were guessed: means over them."""

    nats: Float[Array, " batch"]
    right: Float[Array, " batch"]
    """Share that the likeliest guess gets right."""
    more: Mapping[str, Scored] = MappingProxyType({})
    """What else a reading is judged by."""


class MaskedModel(TransformerEncoder, CanSample, CanEncode, HasPictures, HasScores):
    """An encoder with a loss on tokens that were hidden from it."""

    config: eqx.AbstractVar[BERTConfig]
    schema: eqx.AbstractVar[Schema]

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


__all__ = ["AllowSpecial", "BERTConfig", "Guesses", "MaskedModel", "Temperature", "checked"]
