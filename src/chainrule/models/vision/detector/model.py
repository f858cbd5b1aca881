"""A one-stage detector: a feature pyramid, and a head that says at every cell what is there and where it ends."""

from collections.abc import Sequence
from typing import Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanLocate, Config, HasState, Metrics, weighted_mean
from chainrule.models.vision.detector.heads import AnchorFree, CellHead, Yolo
from chainrule.models.vision.pyramid import Pyramid, grids
from chainrule.networks.image_towers import Normalization
from chainrule.nn.detection.detections import detections
from chainrule.nn.sequential import running_statistics


@final
class DetectorConfig(Config):
    """Settings of the one-stage detector."""

    head: Literal["anchor-free", "yolo"] = Field(
        "anchor-free",
        description="what cells say: how far the edges of an object are, on maps of several sizes; or the published "
        "grid of YOLO",
    )
    width: int = Field(
        24,
        ge=1,
        description="channels after the first convolution; later maps have up to eight times as many",
    )
    levels: int = Field(3, ge=1, le=6, description="maps of the pyramid, with strides 4, 8, 16 and so on")
    blocks: int = Field(2, ge=0, le=100, description="convolutions after each that halves the image")
    channels: int = Field(48, ge=1, description="channels of all maps of the pyramid and of the head")
    depth: int = Field(1, ge=0, le=16, description="convolutions of the head before the last")
    normalization: Normalization = Field("batch", description="before every nonlinearity of the pyramid")
    box_weight: float = Field(
        2.0, ge=0, description="anchor-free head: weight of 1 - GIoU against the focal loss of the classes"
    )
    grid: int = Field(7, ge=1, le=128, description="YOLO: cells along each side")
    per_cell: int = Field(2, ge=1, le=16, description="YOLO: boxes of each cell")
    most: int = Field(50, ge=1, le=1000, description="most detections of an image")
    least: float = Field(0.05, ge=0, lt=1, description="scores that a detection must exceed")
    overlap: float = Field(
        0.5, ge=0, le=1, description="IoU above which the lower of two scores of a class is left out"
    )


@final
class Detector(HasState, CanLocate):
    """Convolutions at falling resolution, maps of several sizes, one head for all of them."""

    pyramid: Pyramid
    head: CellHead
    config: DetectorConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DetectorConfig, schema: Schema, key: Key) -> None:
        for_pyramid, for_head = jax.random.split(key)
        laid = grids(schema.shape, config.levels, "detector")
        self.pyramid = Pyramid(
            schema.shape[2],
            width=config.width,
            levels=config.levels,
            blocks=config.blocks,
            outputs=config.channels,
            normalization=config.normalization,
            key=for_pyramid,
        )
        common = {"channels": config.channels, "classes": len(schema.classes), "depth": config.depth}
        if config.head == "yolo":
            size = (schema.shape[0], schema.shape[1])
            self.head = Yolo(
                laid, **common, grid=config.grid, per_cell=config.per_cell, size=size, key=for_head
            )
        else:
            self.head = AnchorFree(laid, **common, box_weight=config.box_weight, key=for_head)
        self.config = config
        self.schema = schema

    def outputs(self, x: Float[Array, "batch height width channels"], key: Key) -> tuple[Array, Self]:
        """What the head says at each cell, and the model with its state moved on when training."""
        maps, moved = self.pyramid(x, key)
        return self.head(maps), eqx.tree_at(lambda model: model.pyramid, self, moved)

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The mean loss of the images, its parts, and the model with its state moved on."""
        out, moved = self.outputs(batch.x, key)
        losses, metrics = self.head.losses(out, batch.y)
        return weighted_mean(losses, batch.weights), metrics, moved

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers."""
        return running_statistics(self)

    def predict(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch most 6"]:
        """(x0, y0, x1, y1, score, class) for each object that is found, filled up with rows of class -1."""
        out, _ = eqx.nn.inference_mode(self).outputs(x, jax.random.key(0))  # nothing is drawn
        boxes, scores = self.head.boxes(out)
        config, size = self.config, (self.schema.shape[0], self.schema.shape[1])
        return detections(boxes, scores, size, most=config.most, least=config.least, overlap=config.overlap)


__all__ = ["Detector", "DetectorConfig"]
