"""DCGAN (Radford, Metz and Chintala, 2016): transposed convolutions from noise to images, exactly as published.

Generator: one pixel of noise becomes 4x4 with kernel 4, and every further transposed convolution (kernel 4, stride 2,
padding 1) doubles the size; batch normalisation and ReLU between them, tanh at the end. Discriminator: the same way
back, LeakyReLU of slope 0.2, batch normalisation except in the first layer, and one score from the last 4x4. No layer
has a bias. Convolution weights begin at N(0, 0.02²), scales of normalisation at N(1, 0.02²).

Conditions are an addition: they enter as in the other games, by what is learned beside these networks. Without them
nothing is added.
"""

from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Key
from chainrule.data.schema import Schema
from chainrule.models.adversarial.adversarial_model import AdversarialModel
from chainrule.models.adversarial.building import (
    CONDITION_WIDTH,
    LEAKY,
    GameConfig,
    check_conditions,
    encoder_of,
    modulation_of,
)
from chainrule.models.adversarial.games import AdversarialGame, games
from chainrule.models.adversarial.networks import DecisionContext, Discriminator, Generator
from chainrule.models.adversarial.stages import Stage, UpsampledConv
from chainrule.networks import units
from chainrule.networks.conditions import ClassEncoder, ConditionEncoder
from chainrule.nn import BatchNorm, Conv, ConvTranspose, NoNorm, Norm

_DEVIATION = 0.02
_SMALLEST = 8


@final
class DCGANConfig(GameConfig):
    """Settings of DCGAN."""

    latent: int = Field(100, ge=1, le=4096, description="entries of the noise (nz)")
    generator_width: int = Field(
        64, ge=1, le=1024, description="channels at the last size but one (ngf); twice as many at each half"
    )
    discriminator_width: int = Field(
        64,
        ge=1,
        le=1024,
        description="channels after the first layer (ndf); twice as many after each further one",
    )
    resizing: Literal["none", "pad", "resize"] = Field(
        "none",
        description="what makes images fit whose size is not 4 times a power of two: black edges, or bilinear scaling "
        "(samples have the size of the data)",
    )
    upsampling: Literal["transposed", "nearest"] = Field(
        "transposed",
        description="how the generator doubles sizes: as published, or by nearest neighbours and a convolution, which "
        "draws no checkerboards",
    )


def canvas_for(schema: Schema, resizing: str) -> int:
    """The side of the images that the players see, four times a power of two.

    >>> canvas_for(Schema("image", (28, 28, 1), levels=256), "pad")
    32
    """
    height, width = schema.shape[:2]
    side = _SMALLEST
    while side < max(height, width):
        side *= 2
    if (height, width) != (side, side) and resizing == "none":
        raise CapabilityError(
            f"dcgan makes square images of 8, 16, 32, 64, ... pixels a side; these are {height}×{width}",
            remedy=f"let the players see them at {side}×{side}: resizing=pad (black edges) or resizing=resize\n"
            "or train a game of images of any size: chainrule train gan",
        )
    return side


def _doublings(side: int) -> int:
    return (side // 4).bit_length() - 1


def _drawn(layer: Any, key: Key) -> Any:
    """A layer with weights as published."""
    return eqx.tree_at(lambda one: one.weight, layer, random.normal(key, layer.weight.shape, _DEVIATION))


def _norm(features: int, key: Key) -> Norm:
    norm = BatchNorm(features, unbiased=True)
    return eqx.tree_at(lambda n: n.scale, norm, 1 + random.normal(key, (features,), _DEVIATION))


def make_generator(config: DCGANConfig, schema: Schema, key: Key) -> Generator:
    """From one pixel of noise to an image."""
    count, channels = _doublings(canvas_for(schema, config.resizing)), schema.shape[2]
    widths = [config.generator_width * 2**i for i in reversed(range(count))]
    keys = jax.random.split(key, 2 * (count + 1))
    condition = encoder_of(config, schema, CONDITION_WIDTH, jax.random.fold_in(key, 1))
    beside = condition is not None and config.inject == "concatenate"
    noise = config.latent + (CONDITION_WIDTH if beside else 0)
    stages = []
    for i, (inputs, outputs) in enumerate(zip([noise, *widths], [*widths, channels], strict=True)):
        last, size = i == count, 4 * 2**i
        if i and config.upsampling == "nearest":
            layer: Any = UpsampledConv(inputs, outputs, (size, size), gain=1.0, key=keys[2 * i], bias=False)
            layer = eqx.tree_at(lambda one: one.conv, layer, _drawn(layer.conv, keys[2 * i]))
        else:
            stride, padding = (2, 1) if i else (1, 0)
            layer = ConvTranspose(
                2, inputs, outputs, 4, stride=stride, padding=padding, bias=False, key=keys[2 * i]
            )
            layer = _drawn(layer, keys[2 * i])
        norm = NoNorm(outputs) if last else _norm(outputs, keys[2 * i + 1])
        modulation = None
        if condition is not None and not (beside or last):
            modulation = modulation_of(outputs, jax.random.fold_in(keys[2 * i + 1], 1))
        stages.append(Stage(layer, norm, "identity" if last else "relu", modulation=modulation))
    return Generator(
        tuple(stages), seed_shape=(1, 1, noise), bounded=True, condition=condition, beside=beside
    )


def make_discriminator(config: DCGANConfig, schema: Schema, key: Key) -> Discriminator:
    """From an image to a score."""
    count, channels = _doublings(canvas_for(schema, config.resizing)), schema.shape[2]
    widths = [config.discriminator_width * 2**i for i in range(count)]
    keys = jax.random.split(key, 2 * (count + 1))
    stages = []
    for i, (inputs, outputs) in enumerate(zip([channels, *widths[:-1]], widths, strict=True)):
        layer = Conv(2, inputs, outputs, 4, stride=2, padding=1, bias=False, key=keys[2 * i])
        norm = _norm(outputs, keys[2 * i + 1]) if i else NoNorm(outputs)
        stages.append(Stage(_drawn(layer, keys[2 * i]), norm, LEAKY))
    projected = config.judging == "projection"
    width = widths[-1] if projected else CONDITION_WIDTH
    condition = encoder_of(config, schema, width, jax.random.fold_in(key, 1))
    if condition is not None and projected:
        condition = _small(condition)
    beside = CONDITION_WIDTH if condition is not None and not projected else 0
    head = Conv(2, widths[-1] + beside, 1, 4, padding=0, bias=False, key=keys[-1])
    return Discriminator(tuple(stages), _drawn(head, keys[-1]), DecisionContext(condition, projected))


def _small(condition: ConditionEncoder) -> ConditionEncoder:
    """The same with vectors as small as weights of convolutions: what they say of a class begins beside the score.

    They are multiplied with sums over all positions; of size 1 they would drown the head.
    """

    def last(encoder: Any) -> Any:
        return encoder.names if isinstance(encoder, ClassEncoder) else encoder.layers[-1].weight

    return eqx.tree_at(last, condition, replace_fn=lambda weight: _DEVIATION * weight)


@final
class DCGAN(AdversarialModel):
    """Transposed convolutions against strided ones."""

    generator: Generator
    discriminator: Discriminator
    config: DCGANConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DCGANConfig, schema: Schema, key: Key) -> None:
        check_conditions(config, schema)
        self.config, self.schema = config, schema
        one, two = jax.random.split(key)
        self.generator = make_generator(config, schema, one)
        self.discriminator = make_discriminator(config, schema, two)

    @property
    def game(self) -> AdversarialGame:
        """The non-saturating game."""
        return games["non-saturating"]

    def to_networks(self, x: Array) -> Array:
        """Images in [-1, 1], padded or scaled to the size of the players' own."""
        shown = units.to_network(self.schema, x)
        side = canvas_for(self.schema, self.config.resizing)
        if self.config.resizing == "resize":
            return jax.image.resize(shown, (len(x), side, side, x.shape[3]), "linear")
        edges = [((side - n) // 2, side - n - (side - n) // 2) for n in x.shape[1:3]]
        return jnp.pad(shown, [(0, 0), *edges, (0, 0)], constant_values=-1.0)

    def from_networks(self, x: Array) -> Array:
        """The part of an image that is not its edges, or all of it scaled back."""
        height, width, channels = self.schema.shape
        if self.config.resizing == "resize":
            return units.to_model(
                self.schema, jax.image.resize(x, (len(x), height, width, channels), "linear")
            )
        top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
        return units.to_model(self.schema, x[:, top : top + height, left : left + width])


__all__ = ["DCGAN", "DCGANConfig", "canvas_for", "make_discriminator", "make_generator"]
