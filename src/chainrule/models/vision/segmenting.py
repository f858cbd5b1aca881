"""What models that give each pixel a class have in common: settings, losses, refinement of what they predict."""

from typing import Annotated, Literal, TypeAlias

import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Float, Int
from chainrule.data.batches import Batch
from chainrule.data.targets.mask import IGNORE
from chainrule.models.protocol import Metrics, weighted_mean
from chainrule.nn.segmentation import (
    Potentials,
    border_weights,
    crf,
    dice_loss,
    pixel_cross_entropy,
    unary,
)

PixelLoss: TypeAlias = Annotated[
    Literal["dice", "cross-entropy", "border"],
    Field(
        description="cross-entropy plus 1 - Dice; cross-entropy alone; or cross-entropy in which ground between two "
        "objects weighs up to eleven times as much"
    ),
]
_Above = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PotentialsSetting: TypeAlias = Annotated[
    tuple[_Weight, _Above, _Above, _Weight, _Above],
    Field(
        description="refinement: weight of near pixels of one colour, how many pixels these reach, how much colours "
        "differ; weight of near pixels whatever their colour, how far these reach"
    ),
]
POTENTIALS: tuple[float, float, float, float, float] = (*Potentials(),)


def judged(
    out: Float[Array, "batch height width classes"], batch: Batch, loss: str
) -> tuple[Float[Array, ""], Metrics]:
    """The mean loss of the images, its parts where there are two, and the share of the pixels that are right."""
    y: Int[Array, "batch height width"] = batch.y.astype(jnp.int32)
    counted = y != IGNORE
    weights = border_weights(jnp.where(counted, y, 0)) if loss == "border" else None
    total = pixel_cross_entropy(out, y, counted, weights)
    metrics: Metrics = {}
    if loss == "dice":
        overlap = dice_loss(out, y, counted)
        metrics = {"cross_entropy": total.mean(), "dice_loss": overlap.mean()}
        total = total + overlap
    right = ((out.argmax(axis=-1) == y) & counted).sum() / jnp.maximum(counted.sum(), 1)
    return weighted_mean(total, batch.weights), {**metrics, "pixel_accuracy": right}


def probabilities(
    out: Float[Array, "batch height width classes"],
) -> Float[Array, "batch height width classes"]:
    """Of each class at each pixel."""
    return jax.nn.softmax(out.astype(jnp.promote_types(out.dtype, jnp.float32)), axis=-1)


def refined(
    p: Float[Array, "batch height width classes"],
    x: Float[Array, "batch height width channels"],
    potentials: Potentials,
) -> Float[Array, "batch height width classes"]:
    """Probabilities after the mean field of each image; one at a time, for the pairs of one fill the memory."""
    colours = x.astype(p.dtype).clip(0, 1)
    return jax.lax.map(lambda one: crf(unary(one[0]), one[1], potentials), (p, colours))


__all__ = [
    "POTENTIALS",
    "PixelLoss",
    "PotentialsSetting",
    "judged",
    "probabilities",
    "refined",
]
