"""Boxes without anchors: every cell near the middle of an object says how far its edges are (FCOS, arXiv:1904.01355).

The size of an object decides which map it is found on. Classes are judged by the focal loss, boxes by GIoU.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol import Metrics
from chainrule.models.vision.detector.heads.base import CellHead, Maps, Objects, Outputs, there
from chainrule.networks.image_towers import ConvBlock
from chainrule.nn import Conv
from chainrule.nn.detection import box_area, giou, grid_centers
from chainrule.nn.detection.anchors import MOST_GROWTH
from chainrule.nn.losses import binary_focal

PRIOR = 0.01
"""The probability of a class that every cell begins with: most cells see nothing."""
ALPHA = 0.25
"""The weight of what is there in the focal loss; that of what is not there is the rest (Lin et al., 2017)."""
_SPAN = 6.0
"""The largest side of an object on a map, in cells."""
_RADIUS = 1.5
"""How far from the middle of an object a cell may be that is to find it, in cells."""


class Assigned(NamedTuple):
    """What each cell is to say."""

    positive: Bool[Array, "batch cells"]
    """Whether it is to find an object."""
    indices: Int[Array, "batch cells"]
    """Which object; any where there is none."""


@final
class AnchorFree(CellHead):
    """Two towers of convolutions, the same for all maps: one says classes, one says boxes."""

    class_tower: tuple[ConvBlock, ...]
    box_tower: tuple[ConvBlock, ...]
    classes: Conv
    edges: Conv
    grids: tuple[tuple[tuple[int, int], int], ...] = eqx.field(static=True)
    """Height and width of each map, and its stride."""
    box_weight: float = eqx.field(static=True)

    def __init__(
        self,
        grids: list[tuple[tuple[int, int], int]],
        *,
        channels: int,
        classes: int,
        depth: int,
        box_weight: float,
        key: Key,
    ) -> None:
        keys = iter(jax.random.split(key, 2 * depth + 2))
        self.class_tower, self.box_tower = (
            tuple(ConvBlock(channels, channels, key=next(keys)) for _ in range(depth)) for _ in range(2)
        )
        made = Conv(2, channels, classes, 3, padding=1, gain=0.1, key=next(keys))
        bias = jnp.full(classes, -np.log((1 - PRIOR) / PRIOR), jnp.float32)
        self.classes = eqx.tree_at(lambda conv: conv.bias, made, bias)
        self.edges = Conv(2, channels, 4, 3, padding=1, gain=0.1, key=next(keys))
        self.grids = tuple(grids)
        self.box_weight = box_weight

    @property
    def centers(self) -> Float[np.ndarray, "cells 2"]:
        """The middle of each cell, in pixels."""
        return np.concatenate([grid_centers(*one) for one in self.grids])

    @property
    def strides(self) -> Float[np.ndarray, " cells"]:
        """The side of each cell, in pixels."""
        return np.concatenate([np.full(height * width, float(s)) for (height, width), s in self.grids])

    def __call__(self, maps: Maps) -> Outputs:
        """Logits of the classes, then the logarithms of the distances to the four edges, in cells."""
        return jnp.concatenate([self._level(one) for one in maps], axis=1)

    def _level(self, one: Array) -> Array:
        key = jax.random.key(0)  # nothing is drawn
        of_classes = of_boxes = one
        for class_block, box_block in zip(self.class_tower, self.box_tower, strict=True):
            of_classes, _ = class_block(of_classes, key)
            of_boxes, _ = box_block(of_boxes, key)
        found = jnp.concatenate([self.classes(of_classes), self.edges(of_boxes)], axis=-1)
        return found.reshape(found.shape[0], -1, found.shape[-1])

    def losses(self, outputs: Outputs, y: Objects) -> tuple[Float[Array, " batch"], Metrics]:
        """Focal loss of the classes and 1 - GIoU of the boxes, each over the cells that are to find something."""
        wide = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
        assigned = self.assign(y)
        own = jnp.take_along_axis(y, assigned.indices[..., None], axis=1)
        labels = own[..., 4].astype(jnp.int32)
        wanted = jax.nn.one_hot(labels, wide.shape[-1] - 4) * assigned.positive[..., None]
        count = jnp.maximum(assigned.positive.sum(axis=1), 1).astype(wide.dtype)
        logits = wide[..., :-4]
        ratio = jnp.full(logits.shape[-1], ALPHA / (1 - ALPHA), logits.dtype)
        focal = binary_focal(logits, wanted.astype(logits.dtype), positive_weights=ratio)
        entries = logits.shape[1] * logits.shape[2]  # of which `binary_focal` gives the mean
        of_classes = (1 - ALPHA) * focal * entries / count
        overlap = giou(self._decoded(wide), own[..., :4].astype(wide.dtype))
        of_boxes = jnp.where(assigned.positive, 1 - overlap, 0.0).sum(axis=1) / count
        metrics = {"class_loss": of_classes.mean(), "box_loss": of_boxes.mean()}
        return of_classes + self.box_weight * of_boxes, metrics

    def assign(self, y: Objects) -> Assigned:
        """Which object each cell is to find: of several, the smallest."""
        at, stride = (jnp.asarray(one, y.dtype)[None, :, None] for one in (self.centers, self.strides))
        low, high = y[:, None, :, :2], y[:, None, :, 2:4]
        away = jnp.abs(at - (low + high) / 2).max(axis=-1)
        inside = jnp.minimum(at - low, high - at).min(axis=-1) > 0
        # The cell that holds the middle counts even where an object is smaller than a cell.
        near = (inside & (away <= _RADIUS * stride)) | (away <= stride / 2)
        side = (high - low).max(axis=-1)
        finest, coarsest = stride == self.strides.min(), stride == self.strides.max()
        fits = ((side > _SPAN * stride / 2) | finest) & ((side <= _SPAN * stride) | coarsest)
        mine = near & fits & there(y)[:, None]
        area = jnp.where(mine, box_area(y[..., :4])[:, None], jnp.inf)
        return Assigned(mine.any(axis=-1), area.argmin(axis=-1).astype(jnp.int32))

    def boxes(
        self, outputs: Outputs
    ) -> tuple[Float[Array, "batch candidates 4"], Float[Array, "batch candidates classes"]]:
        """The box of each cell, and the probabilities of its classes."""
        wide = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
        return self._decoded(wide), jax.nn.sigmoid(wide[..., :-4])

    def _decoded(self, outputs: Outputs) -> Float[Array, "batch cells 4"]:
        stride = jnp.asarray(self.strides, outputs.dtype)[None, :, None]
        away = jnp.exp(outputs[..., -4:].clip(-MOST_GROWTH, MOST_GROWTH)) * stride
        at = jnp.broadcast_to(jnp.asarray(self.centers, outputs.dtype)[None], (*outputs.shape[:2], 2))
        return jnp.concatenate([at - away[..., :2], at + away[..., 2:]], axis=-1)


__all__ = ["PRIOR", "AnchorFree", "Assigned"]
