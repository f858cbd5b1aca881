"""A U-Net that gives each pixel of an image a class (Ronneberger, Fischer and Brox, 2015, arXiv:1505.04597)."""

from collections.abc import Sequence
from typing import Literal, Self, final

import equinox as eqx
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanRefine, Config, HasState, Metrics
from chainrule.models.vision.segmenting import (
    POTENTIALS,
    PixelLoss,
    PotentialsSetting,
    judged,
    probabilities,
    refined,
)
from chainrule.networks.segmentation_unet import Edges, SegmentationUNet, UNetNormalization
from chainrule.nn.segmentation import Potentials
from chainrule.nn.sequential import running_statistics


@final
class SegmenterConfig(Config):
    """Settings of the U-Net."""

    width: int = Field(16, ge=1, description="channels at full resolution; each halving doubles them")
    depth: int = Field(4, ge=1, le=8, description="how often the map is halved")
    edges: Edges = Field(
        "same",
        description="what convolutions see beyond the edge of a map: zeros; or nothing (valid), the mirror image being "
        "put around the image beforehand",
    )
    normalization: UNetNormalization = Field(
        "batch",
        description="after every convolution but the last; group: for batches of one or two large images",
    )
    activation: Literal["silu", "relu"] = Field("silu", description="after every normalisation")
    objective: PixelLoss = "dice"
    crf: bool = Field(False, description="refine predictions by a conditional random field")
    potentials: PotentialsSetting = POTENTIALS


@final
class Segmenter(HasState, CanRefine):
    """The U-Net, and refinement of what it says where that is asked for."""

    network: SegmentationUNet
    refine: bool
    config: SegmenterConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SegmenterConfig, schema: Schema, key: Key) -> None:
        height, width, channels = schema.shape
        least = 2**config.depth
        if min(height, width) < least:
            most = max(1, min(height, width).bit_length() - 1)
            raise ArgumentError(
                f"segmenter(depth={config.depth}): images of {width}×{height} pixels cannot be halved {config.depth} "
                f"times; that takes {least} pixels a side",
                remedy=f"use depth={most}, or larger images",
            )
        self.network = SegmentationUNet(
            channels,
            len(schema.classes),
            width=config.width,
            depth=config.depth,
            edges=config.edges,
            normalization=config.normalization,
            act=config.activation,
            key=key,
        )
        self.refine = config.crf
        self.config, self.schema = config, schema

    def outputs(self, x: Float[Array, "batch height width channels"]) -> tuple[Array, Self]:
        """Logits of the classes at each pixel, and the model with its state moved on when training."""
        out, moved = self.network.whole(2 * x - 1)
        return out, eqx.tree_at(lambda model: model.network, self, moved)

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The mean loss of the images, its parts, and the model with its state moved on."""
        del key
        out, moved = self.outputs(batch.x)
        return *judged(out, batch, self.config.objective), moved

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers."""
        return running_statistics(self)

    def predict(
        self, x: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch height width classes"]:
        """The probability of each class at each pixel."""
        p = probabilities(eqx.nn.inference_mode(self).outputs(x)[0])
        return refined(p, x, self.potentials) if self.refine else p

    @property
    def potentials(self) -> Potentials:
        """Those of the settings."""
        return Potentials(*self.config.potentials)


__all__ = ["Segmenter", "SegmenterConfig"]
