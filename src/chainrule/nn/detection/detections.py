"""From candidates to detections, as all detectors do it: the best scores, suppression, a fixed number of rows."""

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.nn.detection.boxes import clip_boxes
from chainrule.nn.detection.suppression import nms


def detections(
    boxes: Float[Array, "batch candidates 4"],
    scores: Float[Array, "batch candidates classes"],
    size: tuple[int, int],
    *,
    most: int,
    least: float,
    overlap: float,
    considered: int = 300,
) -> Float[Array, "batch most 6"]:
    """(x0, y0, x1, y1, score, class) of the boxes that are left, filled up with rows of class -1.

    The `considered` highest scores of an image, whatever their classes, go through class-wise suppression.
    """
    inside = clip_boxes(boxes, size)
    return jax.vmap(lambda b, s: _of_image(b, s, most, least, overlap, considered))(inside, scores)


def _of_image(
    boxes: Float[Array, "candidates 4"],
    scores: Float[Array, "candidates classes"],
    most: int,
    least: float,
    overlap: float,
    considered: int,
) -> Float[Array, "most 6"]:
    classes = scores.shape[-1]
    best, flat = jax.lax.top_k(scores.reshape(-1), min(considered, scores.size))
    own, labels = boxes[flat // classes], flat % classes
    kept = nms(own, best, labels, threshold=overlap, most=most, least=least)
    rows = jnp.concatenate(
        [own[kept.indices], kept.scores[:, None], labels[kept.indices].astype(own.dtype)[:, None]], axis=-1
    )
    filler = jnp.array([0.0, 0, 0, 0, 0, -1], rows.dtype)[None]
    return jnp.where(kept.there[:, None], rows, filler)


__all__ = ["detections"]
