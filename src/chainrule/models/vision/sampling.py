"""Sampled candidates of two-stage detectors: so many boxes of an image, some of objects, the rest of ground."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.detection import iou, pairwise


class Matched(NamedTuple):
    """Boxes of one image beside its objects."""

    overlap: Float[Array, " boxes"]
    """The highest IoU of each with an object."""
    indices: Int[Array, " boxes"]
    """That object."""
    best: Bool[Array, " boxes"]
    """Whether no box overlaps that object more."""


def match(boxes: Float[Array, "boxes 4"], y: Float[Array, "objects 5"]) -> Matched:
    """Which object each box overlaps most; objects of class -1 are none."""
    overlap = jnp.where((y[:, 4] >= 0)[None], pairwise(iou, boxes, y[:, :4].astype(boxes.dtype)), 0.0)
    highest = overlap.max(axis=0, keepdims=True)
    index = overlap.argmax(axis=1).astype(jnp.int32)
    best = ((overlap == highest) & (highest > 0)).any(axis=1)
    # A box that is best for some object belongs to it, even if it overlaps another more.
    owner = jnp.where((overlap == highest) & (highest > 0), overlap, -1.0).argmax(axis=1).astype(jnp.int32)
    return Matched(overlap.max(axis=1), jnp.where(best, owner, index), best)


def sample(
    positive: Bool[Array, " boxes"], negative: Bool[Array, " boxes"], count: int, share: float, key: Key
) -> tuple[Bool[Array, " boxes"], Bool[Array, " boxes"]]:
    """At most `count` boxes drawn at random, at most that share of them positive; which of either were drawn.

    >>> yes, no = sample(jnp.arange(8) < 6, jnp.arange(8) >= 6, 4, 0.5, jax.random.key(0))
    >>> int(yes.sum()), int(no.sum())
    (2, 2)
    """
    draw = jax.random.uniform(key, positive.shape)
    most = max(1, int(count * share))
    yes = positive & (_rank(jnp.where(positive, draw, 2.0)) < most)
    no = negative & (_rank(jnp.where(negative, draw, 2.0)) < count - yes.sum())
    return yes, no


def _rank(values: Float[Array, " boxes"]) -> Int[Array, " boxes"]:
    """How many values are lower than each."""
    order = jnp.argsort(values)
    return jnp.zeros(len(values), order.dtype).at[order].set(jnp.arange(len(values), dtype=order.dtype))


__all__ = ["Matched", "match", "sample"]
