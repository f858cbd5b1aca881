"""Suppression of boxes that mean the same thing: of several that overlap, the one with the highest score is kept.

Greedy, one box after the other, in a compiled loop: what comes out has a fixed size and says which entries are there.
Boxes of different classes never suppress each other.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.nn.detection.boxes import box_area, check_boxes


class Kept(NamedTuple):
    """Boxes that were kept, from the highest score to the lowest, filled up to a fixed number."""

    indices: Int[Array, " most"]
    """Their positions among all boxes; 0 where there is none."""
    scores: Float[Array, " most"]
    """Their scores, which soft suppression may have lowered; 0 where there is none."""
    there: Bool[Array, " most"]
    """Whether there is one."""


def nms(
    boxes: Float[Array, "boxes 4"],
    scores: Float[Array, " boxes"],
    labels: Int[Array, " boxes"] | None = None,
    *,
    threshold: float = 0.5,
    most: int = 100,
    least: float = 0.0,
) -> Kept:
    """Non-maximum suppression: a box goes if one of its class with a higher score has an IoU above `threshold`.

    At most `most` boxes are kept, all with scores above `least`. Of equal scores the first comes first.

    >>> boxes = jnp.array([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    >>> scores = jnp.array([0.9, 0.8, 0.7])
    >>> [int(nms(boxes, scores, threshold=t, most=3).there.sum()) for t in (0.5, 0.7)]
    [2, 3]
    """
    _check_threshold("nms", threshold)
    return _suppressed(
        *("nms", boxes, scores, labels, most, least), lambda overlap: jnp.where(overlap > threshold, 0.0, 1.0)
    )


def soft_nms(
    boxes: Float[Array, "boxes 4"],
    scores: Float[Array, " boxes"],
    labels: Int[Array, " boxes"] | None = None,
    *,
    sigma: float = 0.5,
    most: int = 100,
    least: float = 0.001,
) -> Kept:
    """Suppression that lowers scores by exp(-IoU² / sigma) instead of leaving boxes out (Bodla et al., 2017).

    >>> boxes = jnp.array([[0.0, 0, 10, 10], [1, 1, 11, 11]])
    >>> [round(float(one), 3) for one in soft_nms(boxes, jnp.array([0.9, 0.8]), most=2).scores]
    [0.9, 0.317]
    """
    if not sigma > 0:
        raise ArgumentError(f"soft_nms(sigma={sigma}): sigma must be above 0", remedy="0.5 is usual")
    return _suppressed(
        *("soft_nms", boxes, scores, labels, most, least), lambda overlap: jnp.exp(-(overlap**2) / sigma)
    )


def _suppressed(
    where: str,
    boxes: Float[Array, "boxes 4"],
    scores: Float[Array, " boxes"],
    labels: Int[Array, " boxes"] | None,
    most: int,
    least: float,
    factor: Callable[[Array], Array],
) -> Kept:
    """Boxes in the order in which the highest score is taken; those left over are multiplied by `factor(IoU)`."""
    check_boxes(where, "boxes", boxes)
    most = whole(where, "most", most)
    count = boxes.shape[0]
    if scores.shape != (count,) or (labels is not None and labels.shape != (count,)):
        shapes = ", ".join(str(one.shape) for one in (scores, labels) if one is not None)
        raise ArgumentError(f"{where}: {count} boxes have scores and labels of shape {shapes}")
    gone = -jnp.inf
    left = jnp.where(scores > least, scores, gone)
    overlap = _overlaps(boxes)

    def take(state: _State) -> _State:
        step, left, best, index, kept = state
        lowered = left * factor(overlap(best))
        if labels is not None:
            lowered = jnp.where(labels == labels[best], lowered, left)
        index, kept = index.at[step].set(best), kept.at[step].set(left[best])
        # Minus infinity times nothing is not a number: what has gone stays gone.
        lowered = jnp.where((left > least) & (lowered > least), lowered, gone).at[best].set(gone)
        return step + 1, lowered, _highest(lowered), index, kept

    none = jnp.zeros(most, jnp.int32), jnp.zeros(most, scores.dtype)
    if not count:
        return Kept(*none, jnp.zeros(most, bool))
    start = (jnp.asarray(0), left, _highest(left), *none)
    found, *_, index, kept = jax.lax.while_loop(
        lambda state: (state[0] < most) & (state[1][state[2]] > least), take, start
    )
    return Kept(index, kept, jnp.arange(most) < found)


_State: TypeAlias = tuple[Array, Array, Array, Array, Array]
"""How many were taken, the scores left, whose is the highest, and positions and scores of what was kept."""


def _highest(scores: Float[Array, " boxes"]) -> Int[Array, ""]:
    """The first position of the highest score: two passes over many at once, where `argmax` takes one by one."""
    number = jnp.arange(scores.size, dtype=jnp.int32)
    return jnp.where(scores == scores.max(), number, scores.size - 1).min()


def _overlaps(boxes: Float[Array, "boxes 4"]) -> Callable[[Array], Float[Array, " boxes"]]:
    """The IoU of all boxes with one of them, as `iou` has it; from columns, which processors read many at once."""
    x0, y0, x1, y1 = jnp.asarray(boxes).T
    area = box_area(boxes)

    def overlap(one: Array) -> Float[Array, " boxes"]:
        wide = jnp.minimum(x1, x1[one]) - jnp.maximum(x0, x0[one])
        tall = jnp.minimum(y1, y1[one]) - jnp.maximum(y0, y0[one])
        common = jnp.maximum(wide, 0) * jnp.maximum(tall, 0)
        union = area + area[one] - common
        return jnp.where(union > 0, common, 0) / jnp.where(union > 0, union, 1)

    return overlap


def _check_threshold(where: str, threshold: float) -> None:
    if not 0 <= threshold <= 1:
        raise ArgumentError(f"{where}(threshold={threshold}): an IoU lies between 0 and 1")


__all__ = ["Kept", "nms", "soft_nms"]
