"""Faster R-CNN: a network proposes regions, a second one looks at each of them (Ren et al., 2015, arXiv:1506.01497).

Both share one feature map and are trained together. Proposals are taken as they are by the second stage: no gradient
goes through where they lie (approximate joint training, as published). Optionally both look at every level of the
pyramid: small regions are proposed and looked at on fine maps, large ones on coarse maps (Lin et al., 2017,
arXiv:1612.03144).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, HasProposals, HasState, Metrics, weighted_mean
from chainrule.models.vision.faster_rcnn.searching import searched
from chainrule.models.vision.pyramid import FINEST, Pyramid, grids
from chainrule.models.vision.sampling import match, sample
from chainrule.networks.image_towers import ConvBlock, Normalization
from chainrule.nn import Conv, Linear
from chainrule.nn.detection import (
    anchor_shapes,
    anchors,
    clip_boxes,
    decode_boxes,
    encode_boxes,
    nms,
    roi_align,
    roi_max_pool,
)
from chainrule.nn.detection.detections import detections
from chainrule.nn.losses import cross_entropy
from chainrule.nn.sequential import running_statistics

SCALES = np.array([0.1, 0.1, 0.2, 0.2])
"""What the second stage divides deltas by, so that they are about one in size (Girshick, 2015)."""
_RATIOS = (0.5, 1.0, 2.0)
_AT_ONCE = 16
"""Images whose regions are in memory at the same time when predicting."""


@final
class FasterRCNNConfig(Config):
    """Settings of Faster R-CNN."""

    proposals: Literal["network", "search", "windows"] = Field(
        "network",
        description="where regions come from: a region proposal network; selective search, which makes it Fast R-CNN; "
        "or every anchor as it is, which makes it Fast R-CNN on windows",
    )
    pool: Literal["align", "max"] = Field(
        "align",
        description="how a region becomes cells: interpolated (RoIAlign), or the largest entries (RoI pooling)",
    )
    cells: int = Field(7, ge=1, le=32, description="cells a side that every region is brought to")
    width: int = Field(
        24,
        ge=1,
        description="channels after the first convolution; later maps have up to eight times as many",
    )
    levels: int = Field(
        2, ge=1, le=6, description="resolutions of the pyramid, whose finest map, of stride 4, is used"
    )
    feature_pyramid: bool = Field(
        False,
        description="all maps are used, not the finest alone: each has anchors of one of the sides, and a region is "
        "looked at on the map that suits its size",
    )
    blocks: int = Field(2, ge=0, le=100, description="convolutions after each that halves the image")
    channels: int = Field(48, ge=1, description="channels of the map and of the proposal network")
    hidden: int = Field(128, ge=1, description="units of both dense layers of the second stage")
    normalization: Normalization = Field("batch", description="before every nonlinearity of the pyramid")
    sides: tuple[float, ...] = Field(
        (128 / 600, 256 / 600, 512 / 600),
        min_length=1,
        description="sides of the square anchors, as shares of the shorter side of the image; with feature_pyramid one "
        "for each level, that of the finest map first",
    )
    rpn_samples: int = Field(
        256,
        ge=2,
        description="anchors of an image that the proposal network learns from, half of them of objects",
    )
    kept: int = Field(
        64,
        ge=1,
        le=2000,
        description="proposals of an image after suppression at an IoU of 0.7, or the first of selective search",
    )
    roi_samples: int = Field(
        64,
        ge=2,
        description="proposals of an image that the second stage learns from, a quarter of them of objects",
    )
    most: int = Field(50, ge=1, le=1000, description="most detections of an image")
    least: float = Field(0.05, ge=0, lt=1, description="scores that a detection must exceed")
    overlap: float = Field(
        0.5, ge=0, le=1, description="IoU above which the lower of two scores of a class is left out"
    )


class Proposed(NamedTuple):
    """What the first stage says of one image."""

    logits: Float[Array, " anchors"]
    deltas: Float[Array, "anchors 4"]


@final
class FasterRCNN(HasState, HasProposals):
    """A pyramid, a region proposal network on its finest map or all of them, and two dense layers on each region."""

    pyramid: Pyramid
    look: ConvBlock
    objectness: Conv
    moves: Conv
    dense: tuple[Linear, Linear]
    classes: Linear
    boxes: Linear
    config: FasterRCNNConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: FasterRCNNConfig, schema: Schema, key: Key) -> None:
        keys = jax.random.split(key, 8)
        grids(schema.shape, config.levels, "faster-rcnn")
        _check(config)
        self.config, self.schema = config, schema
        self.pyramid = Pyramid(
            schema.shape[2],
            width=config.width,
            levels=config.levels,
            blocks=config.blocks,
            outputs=config.channels,
            normalization=config.normalization,
            key=keys[0],
        )
        shapes, count = self.anchors_of_a_cell(), len(schema.classes)
        self.look = ConvBlock(config.channels, config.channels, key=keys[1])
        self.objectness = Conv(2, config.channels, shapes, 1, gain=0.1, key=keys[2])
        self.moves = Conv(2, config.channels, 4 * shapes, 1, gain=0.1, key=keys[3])
        inputs = config.cells**2 * config.channels
        self.dense = (
            Linear(inputs, config.hidden, gain=2**0.5, key=keys[4]),
            Linear(config.hidden, config.hidden, gain=2**0.5, key=keys[5]),
        )
        self.classes = Linear(config.hidden, count + 1, gain=0.1, key=keys[6])
        self.boxes = Linear(config.hidden, 4 * count, gain=0.1, key=keys[7])

    # ------------------------------------------------------------------ regions

    def anchors_of_a_cell(self) -> int:
        """Sides times shapes; with a feature pyramid a cell has one side."""
        return (1 if self.config.feature_pyramid else len(self.config.sides)) * len(_RATIOS)

    def anchors(self) -> Float[np.ndarray, "anchors 4"]:
        """Three shapes of each side at every cell of the finest map, or of the side of each map at its cells.

        None where selective search proposes: its regions are relative to nothing.
        """
        if self.config.proposals == "search":
            return np.zeros((0, 4))
        laid = grids(self.schema.shape, self.config.levels, "faster-rcnn")
        sides = [min(self.schema.shape[:2]) * side for side in self.config.sides]
        if not self.config.feature_pyramid:
            return anchors(*laid[0], anchor_shapes(sides, _RATIOS))
        each = zip(laid, sides, strict=True)
        return np.concatenate([anchors(*one, anchor_shapes([side], _RATIOS)) for one, side in each])

    def proposals(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch proposals 5"]:
        """Regions with the probability that they hold something."""
        maps, _ = eqx.nn.inference_mode(self)._maps(x, jax.random.key(0))  # nothing is drawn
        return self._regions(x, self._first(maps))

    def _regions(self, x: Array, said: Proposed) -> Float[Array, "batch proposals 5"]:
        """What the second stage looks at."""
        if self.config.proposals == "search":
            return searched(x, self.config.kept).astype(said.logits.dtype)
        return jax.vmap(self._proposals)(said)

    def _maps(self, x: Array, key: Key) -> tuple[tuple[Array, ...], Pyramid]:
        """The maps that are used, and the pyramid with its state moved on when training."""
        maps, moved = self.pyramid(x, key)
        return tuple(maps if self.config.feature_pyramid else maps[:1]), moved

    def _first(self, maps: tuple[Array, ...]) -> Proposed:
        """What the proposal network, the same for all maps, says of the anchors of each image."""
        every = [self.look(one, jax.random.key(0))[0] for one in maps]
        batch = maps[0].shape[0]
        logits = jnp.concatenate([self.objectness(seen).reshape(batch, -1) for seen in every], axis=1)
        deltas = jnp.concatenate([self.moves(seen).reshape(batch, -1, 4) for seen in every], axis=1)
        wide = jnp.promote_types(logits.dtype, jnp.float32)
        return Proposed(logits.astype(wide), deltas.astype(wide))

    def _proposals(self, said: Proposed) -> Float[Array, "proposals 5"]:
        """The best boxes of an image that suppression leaves."""
        laid = jnp.asarray(self.anchors(), said.deltas.dtype)
        size = (self.schema.shape[0], self.schema.shape[1])
        if self.config.proposals == "windows":
            scores = jnp.full(len(laid), 0.5, laid.dtype)
            return jnp.concatenate([clip_boxes(laid, size), scores[:, None]], axis=1)
        scores, index = jax.lax.top_k(said.logits, min(4 * self.config.kept, len(laid)))
        boxes = clip_boxes(decode_boxes(said.deltas[index], laid[index]), size)
        small = (boxes[:, 2:] - boxes[:, :2]).min(axis=-1) < 1
        kept = nms(boxes, jnp.where(small, 0.0, jax.nn.sigmoid(scores)), threshold=0.7, most=self.config.kept)
        rows = jnp.concatenate([boxes[kept.indices], kept.scores[:, None]], axis=1)
        return jnp.where(kept.there[:, None], rows, 0.0)

    def _pooled(
        self, maps: tuple[Array, ...], boxes: Float[Array, "regions 4"]
    ) -> Float[Array, "regions rows columns channels"]:
        """The cells of regions of one image, each of the map that suits its size."""
        pool, cells = roi_align if self.config.pool == "align" else roi_max_pool, self.config.cells
        level = levels_of(boxes, len(maps), cells)[:, None, None, None]
        every = [
            pool(one, boxes.astype(one.dtype) / (FINEST << number), (cells, cells))
            for number, one in enumerate(maps)
        ]
        found = every[0]
        for number, own in enumerate(every[1:], 1):
            found = jnp.where(level == number, own, found)
        return found

    def _second(self, maps: tuple[Array, ...], boxes: Float[Array, "regions 4"]) -> tuple[Array, Array]:
        """Logits of ground and classes, and deltas for each class, of regions of one image."""
        hidden = self._pooled(maps, boxes).reshape(len(boxes), -1)
        for layer in self.dense:
            hidden = jax.nn.relu(layer(hidden))
        wide = jnp.promote_types(hidden.dtype, jnp.float32)
        deltas = self.boxes(hidden).astype(wide).reshape(len(boxes), -1, 4)
        return self.classes(hidden).astype(wide), deltas

    # ------------------------------------------------------------------ learning

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The mean over images of the losses of both stages, each part, and the model with its state moved on."""
        maps, moved = self._maps(batch.x, key)
        said = self._first(maps)
        keys = jax.random.split(random.named(key, "samples"), batch.x.shape[0])
        regions = jax.lax.stop_gradient(self._regions(batch.x, said)[..., :4])
        parts = jax.vmap(self._losses)(maps, said, regions, batch.y, keys)
        total = sum(parts.values(), start=jnp.zeros_like(parts["class_loss"]))
        metrics = {name: values.mean() for name, values in parts.items()}
        return (
            weighted_mean(total, batch.weights),
            metrics,
            eqx.tree_at(lambda model: model.pyramid, self, moved),
        )

    def _losses(
        self, maps: tuple[Array, ...], said: Proposed, regions: Array, y: Array, key: Key
    ) -> dict[str, Scalar]:
        """The four losses of one image."""
        wide = said.logits.dtype
        y = y.astype(wide)
        for_first, for_second = jax.random.split(key)
        found: dict[str, Scalar] = {}
        if self.config.proposals == "network":
            laid = jnp.asarray(self.anchors(), wide)
            near = match(laid, y)
            positive = (near.overlap >= 0.7) | near.best
            yes, no = sample(
                positive, (near.overlap < 0.3) & ~positive, self.config.rpn_samples, 0.5, for_first
            )
            surprisal = jax.nn.softplus(jnp.where(yes, -said.logits, said.logits))
            count = jnp.maximum(yes.sum() + no.sum(), 1).astype(wide)
            found["proposal_loss"] = jnp.where(yes | no, surprisal, 0.0).sum() / count
            found["proposal_box_loss"] = _smooth(said.deltas, _wanted(y, near.indices, laid), yes) / count
        regions = jnp.concatenate([regions, y[:, :4]], axis=0)  # the objects themselves are proposals, too
        some = (regions[:, 2:] > regions[:, :2]).all(axis=-1)
        near = match(regions, y)
        yes, no = sample(
            (near.overlap >= 0.5) & some,
            (near.overlap < 0.5) & some,
            self.config.roi_samples,
            0.25,
            for_second,
        )
        # Only what was drawn is looked at: those first, then fillers that count for nothing.
        drawn = jnp.argsort(~(yes | no))[: self.config.roi_samples]
        yes, used, own, index = yes[drawn], (yes | no)[drawn], regions[drawn], near.indices[drawn]
        boxes = jnp.where(used[:, None], own, jnp.array([0.0, 0, 1, 1], wide)[None])
        logits, deltas = self._second(maps, boxes)
        labels = jnp.where(yes, y[index, 4].astype(jnp.int32) + 1, 0)
        count = jnp.maximum(used.sum(), 1).astype(wide)
        found["class_loss"] = jnp.where(used, cross_entropy(logits, labels), 0.0).sum() / count
        chosen = jnp.take_along_axis(deltas, jnp.maximum(labels - 1, 0)[:, None, None], axis=1)[:, 0]
        wanted = _wanted(y, index, boxes) / jnp.asarray(SCALES, wide)[None]
        found["box_loss"] = _smooth(chosen, wanted, yes) / count
        return found

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers."""
        return running_statistics(self)

    # ------------------------------------------------------------------ predicting

    def predict(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch most 6"]:
        """(x0, y0, x1, y1, score, class) for each object that is found, filled up with rows of class -1."""
        maps, _ = eqx.nn.inference_mode(self)._maps(x, jax.random.key(0))  # nothing is drawn
        regions = self._regions(x, self._first(maps))
        return jax.lax.map(lambda one: self._detected(*one), (maps, regions), batch_size=_AT_ONCE)

    def _detected(self, maps: tuple[Array, ...], regions: Array) -> Float[Array, "most 6"]:
        config, size = self.config, (self.schema.shape[0], self.schema.shape[1])
        logits, deltas = self._second(maps, regions[:, :4])
        classes = deltas.shape[1]
        around = jnp.broadcast_to(regions[:, None, :4], deltas.shape)
        boxes = decode_boxes(deltas * jnp.asarray(SCALES, deltas.dtype)[None, None], around).reshape(-1, 4)
        probable = jax.nn.softmax(logits, axis=-1)[:, 1:] * (regions[:, 4] > 0)[:, None]
        # A region has a box for each class, which is scored for that class alone.
        scores = (probable[:, :, None] * jnp.eye(classes, dtype=probable.dtype)[None]).reshape(-1, classes)
        return detections(
            boxes[None], scores[None], size, most=config.most, least=config.least, overlap=config.overlap
        )[0]


def levels_of(boxes: Float[Array, "regions 4"], levels: int, cells: int) -> Int[Array, " regions"]:
    """The level each region is looked at on: the coarsest on which a cell still spans two entries of the map.

    With 7 x 7 cells this is the published rule: its stride is 2 to the power of floor(4 + log2(side / 224)).

    >>> sides = jnp.array([40.0, 111.9, 112.0, 224.0, 4000.0])
    >>> levels_of(jnp.stack([0 * sides, 0 * sides, sides, sides], axis=1), 4, 7).tolist()
    [0, 0, 1, 2, 3]
    """
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    least = jnp.array([(2 * cells * (FINEST << level)) ** 2 for level in range(1, levels)], area.dtype)
    return (area[:, None] >= least[None]).sum(axis=1)


def _check(config: FasterRCNNConfig) -> None:
    if config.feature_pyramid and len(config.sides) != config.levels:
        raise ArgumentError(
            f"feature_pyramid=true with levels={config.levels} and {len(config.sides)} sides: each level has anchors "
            "of one side",
            remedy=f"use levels={len(config.sides)}, or as many sides as levels",
        )


def _wanted(y: Array, index: Array, boxes: Array) -> Array:
    """The deltas from boxes to their objects; of boxes without one, those of the box itself."""
    own = y[index]
    side = (own[:, 2:4] > own[:, :2]).all(axis=-1) & (own[:, 4] >= 0)
    return encode_boxes(jnp.where(side[:, None], own[:, :4], boxes), boxes)


def _smooth(said: Array, wanted: Array, counted: Array) -> Scalar:
    """The sum of smooth L1 errors over the boxes that count."""
    away = jnp.abs(said - wanted)
    near = jnp.minimum(away, 1.0)
    return jnp.where(counted[:, None], near * (away - 0.5 * near), 0.0).sum()


__all__ = ["FasterRCNN", "FasterRCNNConfig", "levels_of"]
