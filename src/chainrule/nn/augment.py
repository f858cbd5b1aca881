"""Random augmentation of images: flips, small shifts, brightness and contrast.

Everything is a pure function of a key, can be compiled, and draws for every example anew. Where things are (`Moves`) is
drawn apart from moving them, so that masks and boxes go the way of their images.
"""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Shaped

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key

Images: TypeAlias = Float[Array, "batch height width channels"]


class Moves(NamedTuple):
    """Where each example of a batch goes: first mirrored, then moved."""

    mirrored: Bool[Array, " batch"]
    shift: Int[Array, "batch 2"]
    """Pixels down and to the right."""


def draw_moves(key: Key, batch: int, *, flip: bool = False, crop: int = 0) -> Moves:
    """Every second example mirrored left to right if `flip`, all moved by up to `crop` pixels each way."""
    batch, crop = whole("draw_moves", "batch", batch), whole("draw_moves", "crop", crop, least=0)
    to_flip, to_shift = jax.random.split(key)
    mirrored = jax.random.bernoulli(to_flip, 0.5, (batch,)) if flip else jnp.zeros(batch, bool)
    return Moves(mirrored, jax.random.randint(to_shift, (batch, 2), -crop, crop + 1))


def move_images(x: Shaped[Array, "batch height width *rest"], moves: Moves) -> Array:
    """Images or masks after their moves; what comes in at an edge is what lay before it, mirrored.

    >>> x = jnp.arange(4.0).reshape(1, 1, 4, 1)
    >>> moves = Moves(jnp.array([True]), jnp.array([[0, 1]]))
    >>> move_images(x, moves).ravel().tolist()
    [3.0, 3.0, 2.0, 1.0]
    """
    height, width = x.shape[1:3]

    def one(image: Array, mirrored: Array, shift: Array) -> Array:
        rows = _reflected(jnp.arange(height) - shift[0], height)
        columns = _reflected(jnp.arange(width) - shift[1], width)
        columns = jnp.where(mirrored, width - 1 - columns, columns)
        return image[rows[:, None], columns[None, :]]

    return jax.vmap(one)(x, *moves)


def move_boxes(
    boxes: Float[Array, "batch boxes 4"], moves: Moves, size: tuple[int, int]
) -> Float[Array, "batch boxes 4"]:
    """Boxes (x0, y0, x1, y1) of images of that (height, width) after the same moves, cut off at the edges.

    >>> moves = Moves(jnp.array([True]), jnp.array([[0, 1]]))
    >>> move_boxes(jnp.array([[[0.0, 0.0, 2.0, 1.0]]]), moves, (1, 4)).tolist()
    [[[3.0, 0.0, 4.0, 1.0]]]
    """
    height, width = size
    x0, y0, x1, y1 = jnp.moveaxis(boxes, -1, 0)
    mirrored = moves.mirrored[:, None]
    x0, x1 = jnp.where(mirrored, width - x1, x0), jnp.where(mirrored, width - x0, x1)
    down, right = (moves.shift[:, i, None].astype(boxes.dtype) for i in (0, 1))
    x0, x1 = ((x + right).clip(0, width) for x in (x0, x1))
    y0, y1 = ((y + down).clip(0, height) for y in (y0, y1))
    return jnp.stack([x0, y0, x1, y1], axis=-1)


def relight(x: Images, key: Key, strength: float) -> Images:
    """Images with contrast, brightness and saturation changed by up to that share of what they were.

    Contrast stretches an image about its mean, brightness moves it by a share of its standard deviation, saturation
    stretches colours about the grey of their pixel. So the result does not depend on the units of the data.
    """
    if not 0 <= strength < 1:
        raise ArgumentError(f"relight(strength={strength}): a share lies between 0 and 1")
    contrast, brightness, saturation = (
        jax.random.uniform(k, (x.shape[0], 1, 1, 1), x.dtype, -strength, strength)
        for k in jax.random.split(key, 3)
    )
    mean = x.mean(axis=(1, 2, 3), keepdims=True)
    spread = x.std(axis=(1, 2, 3), keepdims=True)
    x = mean + (x - mean) * (1 + contrast) + spread * brightness
    grey = x.mean(axis=-1, keepdims=True)
    return grey + (x - grey) * (1 + saturation)


def _reflected(index: Int[Array, " n"], size: int) -> Int[Array, " n"]:
    """Indices beyond an edge as those of the mirror image; the entry at the edge comes twice."""
    index = index % (2 * size)
    return jnp.where(index < size, index, 2 * size - 1 - index)


__all__ = ["Moves", "draw_moves", "move_boxes", "move_images", "relight"]
