"""Losses of a class for each pixel: cross-entropy, Dice, and weights that keep objects apart.

All give one number for each example. Pixels that are not counted have neither a loss nor a gradient.
"""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.nn.losses import cross_entropy

_CLOSE = 5.0
"""Pixels: how fast weights fall with the sum of the distances to two objects (Ronneberger et al., 2015)."""
_MOST = 10.0
"""The weight between two objects that touch, beside the one that every pixel has."""
_REACH = 15
"""Pixels beyond which that weight is below a tenth of what it is at most, and taken for 0."""
_FAR = 1e6


def pixel_cross_entropy(
    logits: Float[Array, "batch height width classes"],
    labels: Int[Array, "batch height width"],
    counted: Bool[Array, "batch height width"],
    weights: Float[Array, "batch height width"] | None = None,
) -> Float[Array, " batch"]:
    """The mean surprisal of the pixels that count; with `weights`, of each times its weight.

    >>> logits = jnp.zeros((1, 1, 2, 2))
    >>> labels, counted = jnp.array([[[0, 1]]]), jnp.array([[[True, False]]])
    >>> float(pixel_cross_entropy(logits, labels, counted)[0])  # log(2)
    0.6931...
    """
    _check("pixel_cross_entropy", logits, labels, counted)
    values = cross_entropy(logits, jnp.where(counted, labels, 0))
    values = values if weights is None else values * weights.astype(values.dtype)
    total = jnp.where(counted, values, 0).sum(axis=(1, 2))
    return total / jnp.maximum(counted.sum(axis=(1, 2)), 1)


def dice_loss(
    logits: Float[Array, "batch height width classes"],
    labels: Int[Array, "batch height width"],
    counted: Bool[Array, "batch height width"],
) -> Float[Array, " batch"]:
    """One minus the mean of `2 Σ p y / (Σ p + Σ y)` over the classes that an image has (Milletari et al., 2016).

    Classes it does not have are not forgotten: what is taken for them is missing from those that it has.

    >>> sure = 50 * jax.nn.one_hot(jnp.array([[[0, 1, 1]]]), 2)
    >>> [round(float(dice_loss(sure, jnp.array([[[0, *rest]]]), jnp.ones((1, 1, 3), bool))[0]), 4)
    ...  for rest in ((1, 1), (0, 1))]
    [0.0, 0.3333]
    """
    _check("dice_loss", logits, labels, counted)
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    p = jnp.where(counted[..., None], jax.nn.softmax(wide, axis=-1), 0)
    y = jax.nn.one_hot(jnp.where(counted, labels, -1), logits.shape[-1], dtype=wide.dtype)
    own, said = y.sum(axis=(1, 2)), p.sum(axis=(1, 2))
    there = own > 0
    share = 2 * (p * y).sum(axis=(1, 2)) / jnp.where(there, own + said, 1)
    return 1 - jnp.where(there, share, 0).sum(axis=-1) / jnp.maximum(there.sum(axis=-1), 1)


def _check(where: str, logits: Array, labels: Array, counted: Array) -> None:
    """Raise unless there is one class, and a word on whether it counts, for each pixel of the logits."""
    if logits.ndim != 4 or labels.shape != logits.shape[:-1] or counted.shape != labels.shape:
        raise ArgumentError(
            f"{where}: logits of shape {logits.shape}, labels of {labels.shape}, counted of {counted.shape}",
            remedy="give (batch, height, width, classes) and twice (batch, height, width)",
        )


def border_weights(labels: Int[Array, "batch height width"]) -> Float[Array, "batch height width"]:
    """`1 + 10 exp(-(d1 + d2)² / (2 · 5²))`: d1 and d2 are the distances to the two nearest objects.

    An object is a connected part of one class other than 0, the ground; corners do not connect. Its own pixels have
    the weight 1, and so has the ground that is farther than 15 pixels from a second object.

    >>> labels = jnp.array([[[1, 0, 1]]])
    >>> [round(float(w), 3) for w in border_weights(labels)[0, 0]]
    [1.0, 10.231, 1.0]
    """
    if labels.ndim != 3:
        raise ArgumentError(
            f"border_weights: masks of shape {labels.shape}",
            remedy="give (batch, height, width), of one mask: labels[None]",
        )
    return jax.vmap(_border_weights)(labels)


def _border_weights(labels: Int[Array, "height width"]) -> Float[Array, "height width"]:
    parts = objects(labels)
    first, second = _two_nearest(parts)
    weight = _MOST * jnp.exp(-jnp.square(first + second) / (2 * _CLOSE**2))
    return 1 + jnp.where((parts == 0) & (second <= _REACH), weight, 0.0)


def objects(labels: Int[Array, "height width"]) -> Int[Array, "height width"]:
    """A number above 0 for each connected part of one class, 0 on the ground.

    >>> objects(jnp.array([[1, 1, 2], [0, 0, 1]])).tolist()
    [[2, 2, 3], [0, 0, 6]]
    """
    labels = labels.astype(jnp.int32)
    number = jnp.arange(1, labels.size + 1, dtype=jnp.int32).reshape(labels.shape)
    start = jnp.where(labels > 0, number, 0)

    def spread(parts: Array) -> Array:
        for axis in (0, 1):
            for step in (1, -1):
                beside, same = _shifted(parts, step, axis, 0), _shifted(labels, step, axis, -1) == labels
                parts = jnp.where(same, jnp.maximum(parts, beside), parts)
        return parts

    def grown(state: tuple[Array, Array]) -> tuple[Array, Array]:
        parts = spread(state[0])
        return parts, (parts != state[0]).any()

    found, _ = jax.lax.while_loop(lambda state: state[1], grown, (start, jnp.array(True)))
    return found


@final
class _Nearest(NamedTuple):
    """Squared distances to the two nearest objects of each pixel and their numbers, 0 where there is none."""

    near: Float[Array, "height width"]
    own: Int[Array, "height width"]
    far: Float[Array, "height width"]
    other: Int[Array, "height width"]

    def beside(self, square: Array, number: Array) -> "_Nearest":
        """The two nearest of these and one more object."""
        known, closer = number == self.own, square < self.near
        second = jnp.where(
            closer & ~known, self.near, jnp.where(known, self.far, jnp.minimum(self.far, square))
        )
        other = jnp.where(
            closer & ~known, self.own, jnp.where(known | (self.far <= square), self.other, number)
        )
        return _Nearest(jnp.minimum(self.near, square), jnp.where(closer, number, self.own), second, other)


def _two_nearest(parts: Int[Array, "height width"]) -> tuple[Array, Array]:
    """Distances to the nearest object and to the nearest other one, up to `_REACH` along each axis.

    First along rows, then along columns: the two nearest objects of a pixel are each among the two nearest of a row.
    """
    nowhere = jnp.full(parts.shape, _FAR)
    best = _Nearest(jnp.where(parts > 0, 0.0, _FAR), parts, nowhere, jnp.zeros_like(parts))
    for axis in (1, 0):
        best = _along(best, axis)
    return jnp.sqrt(best.near), jnp.sqrt(best.far)


def _along(start: _Nearest, axis: int) -> _Nearest:
    """What is known of each pixel with what is known of those beside it in its row or column."""
    size = start.own.shape[axis]
    around = [(_REACH, _REACH) if a == axis else (0, 0) for a in (0, 1)]
    padded = [
        jnp.pad(one, around, constant_values=empty)
        for one, empty in zip(start, (_FAR, 0, _FAR, 0), strict=True)
    ]

    def with_step(index: Array, found: _Nearest) -> _Nearest:
        near, own, far, other = (jax.lax.dynamic_slice_in_dim(one, index, size, axis) for one in padded)
        away = jnp.square(index - _REACH).astype(near.dtype)
        return found.beside(near + away, own).beside(far + away, other)

    found: _Nearest = jax.lax.fori_loop(0, 2 * _REACH + 1, with_step, start)
    return found


def _shifted(x: Array, step: int, axis: int, empty: int) -> Array:
    """Each entry that of its neighbour, `empty` where there is none."""
    around = [(1, 1) if a == axis else (0, 0) for a in (0, 1)]
    start = 1 - step
    return jax.lax.slice_in_dim(
        jnp.pad(x, around, constant_values=empty), start, start + x.shape[axis], axis=axis
    )


__all__ = ["border_weights", "dice_loss", "objects", "pixel_cross_entropy"]
