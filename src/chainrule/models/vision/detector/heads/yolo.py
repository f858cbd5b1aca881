"""YOLO: a grid of cells, each with a few boxes and one distribution over the classes (Redmon et al., 2016).

The published parametrisation and loss: a box is (x, y) within its cell and (w, h) as shares of the image, of which the
network gives the square roots; its confidence is to be its IoU with the object. The cell that holds the middle of an
object is to find it, by the box that fits best. A cell finds one object: others in it are lost.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol import Metrics
from chainrule.models.vision.detector.heads.base import CellHead, Maps, Objects, Outputs, there
from chainrule.networks.image_towers import ConvBlock
from chainrule.nn import Conv, adaptive_average_pool
from chainrule.nn.detection import centers_of, from_centers, iou

COORDINATES, EMPTY = 5.0, 0.5
"""Weights of errors of boxes, and of confidences where there is no object."""


class CellTargets(NamedTuple):
    """What each cell of a grid is to say."""

    there: Bool[Array, "batch cells"]
    """Whether the middle of an object lies in it."""
    indices: Int[Array, "batch cells"]
    """Which object: the first of several."""
    boxes: Float[Array, "batch cells 4"]
    """(x, y) within the cell, (w, h) as shares of the image."""
    lost: Int[Array, " batch"]
    """Objects that share their cell with one before them."""


def cell_targets(y: Objects, grid: int, size: tuple[int, int]) -> CellTargets:
    """The objects of images of this (height, width) as targets of the cells of a grid.

    >>> y = jnp.array([[[232.0, 112, 344, 336, 0]]])
    >>> found = cell_targets(y, 7, (448, 448))
    >>> int(found.there[0].argmax()), found.boxes[0, 3 * 7 + 4].tolist()
    (25, [0.5, 0.5, 0.25, 0.5])
    """
    sides = jnp.array([size[1], size[0]], y.dtype)[None, None]
    around = centers_of(y[..., :4])
    at = around[..., :2] / sides * grid
    cell = jnp.floor(at).astype(jnp.int32).clip(0, grid - 1)
    number = cell[..., 1] * grid + cell[..., 0]
    mine = (number[:, None] == jnp.arange(grid * grid)[None, :, None]) & there(y)[:, None]
    index = mine.argmax(axis=-1).astype(jnp.int32)
    values = jnp.concatenate([at - cell, around[..., 2:] / sides], axis=-1)
    boxes = jnp.take_along_axis(values, index[..., None], axis=1)
    found = mine.any(axis=-1)
    return CellTargets(found, index, boxes, there(y).sum(axis=1) - found.sum(axis=1))


def cell_boxes(
    values: Float[Array, "batch cells boxes 4"], grid: int, size: tuple[int, int]
) -> Float[Array, "batch cells boxes 4"]:
    """(x, y) within cells and (w, h) as shares of images of this (height, width) as boxes in pixels.

    >>> values = jnp.zeros((1, 49, 1, 4)).at[0, 3 * 7 + 4, 0].set(jnp.array([0.5, 0.5, 0.25, 0.5]))
    >>> cell_boxes(values, 7, (448, 448))[0, 25, 0].round(2).tolist()
    [232.0, 112.0, 344.0, 336.0]
    """
    sides = jnp.array([size[1], size[0]], values.dtype)
    number = jnp.arange(grid * grid)
    corner = jnp.stack([number % grid, number // grid], axis=-1).astype(values.dtype)[None, :, None]
    sides = sides[None, None, None]
    centre = (values[..., :2] + corner) / grid * sides
    return from_centers(jnp.concatenate([centre, values[..., 2:] * sides], axis=-1))


@final
class Yolo(CellHead):
    """One map brought to the grid, a few convolutions, and 5 B + C numbers for each cell."""

    tower: tuple[ConvBlock, ...]
    last: Conv
    grid: int = eqx.field(static=True)
    level: int = eqx.field(static=True)
    per_cell: int = eqx.field(static=True)
    size: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        grids: list[tuple[tuple[int, int], int]],
        *,
        channels: int,
        classes: int,
        depth: int,
        grid: int,
        per_cell: int,
        size: tuple[int, int],
        key: Key,
    ) -> None:
        keys = jax.random.split(key, depth + 1)
        self.tower = tuple(ConvBlock(channels, channels, key=one) for one in keys[1:])
        made = Conv(2, channels, 5 * per_cell + classes, 1, gain=0.1, key=keys[0])
        bias = (
            jnp.zeros(5 * per_cell + classes)
            .at[: 5 * per_cell]
            .set(jnp.tile(jnp.array([0.5, 0.5, 0.5, 0.5, 0.0]), per_cell))
        )
        self.last = eqx.tree_at(lambda conv: conv.bias, made, bias)
        fine = [level for level, (shape, _) in enumerate(grids) if min(shape) >= grid]
        self.level = max(fine, default=0)
        self.grid, self.per_cell, self.size = grid, per_cell, size

    def __call__(self, maps: Maps) -> Outputs:
        """For each box x, y, the roots of w and h, and its confidence; then the classes of the cell."""
        x = adaptive_average_pool(maps[self.level], self.grid)
        for block in self.tower:
            x, _ = block(x, jax.random.key(0))  # nothing is drawn
        return self.last(x).reshape(x.shape[0], self.grid**2, -1)

    def losses(self, outputs: Outputs, y: Objects) -> tuple[Float[Array, " batch"], Metrics]:
        """The published sum of squares over all cells."""
        wide = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
        y = y.astype(wide.dtype)
        wanted = cell_targets(y, self.grid, self.size)
        boxes, confidence, classes = self._parts(wide)
        own = jnp.take_along_axis(y, wanted.indices[..., None], axis=1)
        shape = (*boxes.shape[:3], 4)
        overlap = jax.lax.stop_gradient(
            iou(self._decoded(boxes), jnp.broadcast_to(own[:, :, None, :4], shape))
        )
        best = jax.nn.one_hot(overlap.argmax(axis=-1), self.per_cell, dtype=wide.dtype)
        responsible = best * wanted.there[..., None]
        roots = jnp.concatenate([wanted.boxes[..., :2], jnp.sqrt(wanted.boxes[..., 2:])], axis=-1)
        of_boxes = (responsible * ((boxes - roots[:, :, None]) ** 2).sum(axis=-1)).sum(axis=(1, 2))
        of_found = (responsible * (confidence - overlap) ** 2).sum(axis=(1, 2))
        of_empty = ((1 - responsible) * confidence**2).sum(axis=(1, 2))
        labels = jax.nn.one_hot(own[..., 4].astype(jnp.int32), classes.shape[-1], dtype=wide.dtype)
        of_classes = (wanted.there[..., None] * (classes - labels) ** 2).sum(axis=(1, 2))
        metrics = {
            "class_loss": of_classes.mean(),
            "box_loss": of_boxes.mean(),
            "lost_objects": wanted.lost.astype(wide.dtype).mean(),
        }
        return COORDINATES * of_boxes + of_found + EMPTY * of_empty + of_classes, metrics

    def boxes(
        self, outputs: Outputs
    ) -> tuple[Float[Array, "batch candidates 4"], Float[Array, "batch candidates classes"]]:
        """All boxes of all cells; a score is that of the class times the confidence of the box."""
        wide = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
        boxes, confidence, classes = self._parts(wide)
        scores = confidence.clip(0, 1)[..., None] * classes.clip(0, 1)[:, :, None]
        batch = wide.shape[0]
        return self._decoded(boxes).reshape(batch, -1, 4), scores.reshape(batch, -1, classes.shape[-1])

    def _parts(self, outputs: Array) -> tuple[Array, Array, Array]:
        batch, cells, _ = outputs.shape
        own = outputs[..., : 5 * self.per_cell].reshape(batch, cells, self.per_cell, 5)
        return own[..., :4], own[..., 4], outputs[..., 5 * self.per_cell :]

    def _decoded(self, boxes: Array) -> Array:
        values = jnp.concatenate([boxes[..., :2], boxes[..., 2:] ** 2], axis=-1)
        return cell_boxes(values, self.grid, self.size)


__all__ = ["CellTargets", "Yolo", "cell_boxes", "cell_targets"]
