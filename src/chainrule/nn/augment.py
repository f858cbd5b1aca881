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


class Crops(NamedTuple):
    """The part of each image of a batch that is cut out, in pixels."""

    corner: Float[Array, "batch 2"]
    """Its upper left corner, (row, column)."""
    size: Float[Array, "batch 2"]
    """Its height and width."""


def draw_crops(key: Key, batch: int, size: tuple[int, int], *, least: float, ratio: float = 4 / 3) -> Crops:
    """Parts of a random share of the area, `least` to all of it, and a random shape, anywhere in the image.

    Width to height lies between 1/`ratio` and `ratio`, as far as such a part fits (Szegedy et al., 2015).
    """
    if not 0 < least <= 1:
        raise ArgumentError(f"draw_crops(least={least}): the smallest share of the area lies in (0, 1]")
    height, width = size
    for_area, for_shape, for_corner = jax.random.split(key, 3)
    share = jax.random.uniform(for_area, (batch,), minval=least, maxval=1.0)
    # A part of that share fits if its shape lies between these two.
    narrowest, widest = share * width / height, width / (height * share)
    bounds = [jnp.log(jnp.clip(jnp.asarray(r), narrowest, widest)) for r in (1 / ratio, ratio)]
    shape = jnp.exp(bounds[0] + (bounds[1] - bounds[0]) * jax.random.uniform(for_shape, (batch,)))
    area = share * (height * width)
    sides = jnp.stack([jnp.sqrt(area / shape), jnp.sqrt(area * shape)], axis=1)
    room = jnp.maximum(jnp.array([[height, width]], sides.dtype) - sides, 0.0)
    return Crops(room * jax.random.uniform(for_corner, (batch, 2)), sides)


def crop_images(x: Images, crops: Crops) -> Images:
    """The parts, enlarged bilinearly to the size of the images.

    >>> x = jnp.arange(4.0).reshape(1, 1, 4, 1)
    >>> crop_images(x, Crops(jnp.array([[0.0, 1.0]]), jnp.array([[1.0, 2.0]]))).ravel().tolist()
    [0.75, 1.25, 1.75, 2.25]
    """

    def along(image: Array, axis: int, corner: Array, side: Array) -> Array:
        count = image.shape[axis]
        at = (corner + (jnp.arange(count) + 0.5) * side / count - 0.5).clip(0, count - 1)
        low = jnp.floor(at).astype(jnp.int32)
        share = jnp.expand_dims(at - low, [i for i in range(3) if i != axis]).astype(image.dtype)
        ends = (jnp.take(image, index, axis=axis) for index in (low, jnp.minimum(low + 1, count - 1)))
        before, after = ends
        return before + share * (after - before)

    def one(image: Array, corner: Array, size: Array) -> Array:
        return along(along(image, 0, corner[0], size[0]), 1, corner[1], size[1])

    return jax.vmap(one)(x, *crops)


def crop_masks(masks: Shaped[Array, "batch height width *rest"], crops: Crops) -> Array:
    """Masks of the parts, whatever they hold: of each pixel the value of the one that its centre lies in.

    >>> masks = jnp.array([[[1, 2, 3, 4]]])
    >>> crop_masks(masks, Crops(jnp.array([[0.0, 1.0]]), jnp.array([[1.0, 2.0]]))).ravel().tolist()
    [2, 2, 3, 3]
    """

    def one(mask: Array, corner: Array, size: Array) -> Array:
        at = [
            jnp.floor(corner[i] + (jnp.arange(n) + 0.5) * size[i] / n).astype(jnp.int32).clip(0, n - 1)
            for i, n in enumerate(mask.shape[:2])
        ]
        return mask[at[0][:, None], at[1][None, :]]

    return jax.vmap(one)(masks, *crops)


def crop_boxes(
    boxes: Float[Array, "batch boxes 4"], crops: Crops, size: tuple[int, int]
) -> Float[Array, "batch boxes 4"]:
    """Boxes (x0, y0, x1, y1) of images of that (height, width) in the enlarged parts, cut off at the edges.

    >>> crops = Crops(jnp.array([[0.0, 1.0]]), jnp.array([[1.0, 2.0]]))
    >>> crop_boxes(jnp.array([[[1.5, 0.0, 4.0, 1.0]]]), crops, (1, 4)).tolist()
    [[[1.0, 0.0, 4.0, 1.0]]]
    """
    height, width = size
    ends = jnp.array([width, height, width, height], boxes.dtype)[None, None]
    corner, sides = (jnp.tile(pair[:, ::-1], 2)[:, None].astype(boxes.dtype) for pair in crops)
    return ((boxes - corner) * ends / sides).clip(0, ends)


class Mix(NamedTuple):
    """How images are mixed with others of their batch."""

    weights: Float[Array, "1 height width 1"]
    """What of each pixel is the image's own."""
    share: Float[Array, ""]
    """The mean of the weights: what of the targets is its own."""
    order: Int[Array, " batch"]
    """Which image is mixed into each."""


def draw_mix(key: Key, batch: int, size: tuple[int, int], *, mixup: float = 0.0, cutmix: float = 0.0) -> Mix:
    """One way to mix a whole batch: all pixels alike (Zhang et al., 2018) or a box cut out (Yun et al., 2019).

    The share is drawn from Beta(a, a), a being `mixup` or `cutmix`; where both are given each comes every second time.
    A box has `1 - share` of the area before it is cut off at the edges, and the share is what is left after it.
    """
    if min(mixup, cutmix) < 0 or not max(mixup, cutmix):
        raise ArgumentError(
            f"draw_mix(mixup={mixup}, cutmix={cutmix}): at least one is above 0, none below",
            remedy="mixup=0.2 and cutmix=1 are usual",
        )
    height, width = size
    for_which, for_order, for_share, for_box = jax.random.split(key, 4)
    order = jax.random.permutation(for_order, batch)
    cuts = jax.random.bernoulli(for_which) if mixup and cutmix else jnp.asarray(bool(cutmix))
    concentration = jnp.where(cuts, cutmix or 1.0, mixup or 1.0)
    drawn = jax.random.beta(for_share, concentration, concentration)
    sides = jnp.sqrt(1 - drawn) * jnp.array([height, width])
    centre = jax.random.uniform(for_box, (2,)) * jnp.array([height, width])
    low, high = jnp.round(centre - sides / 2), jnp.round(centre + sides / 2)
    rows, columns = (
        (jnp.arange(n) >= low[i]) & (jnp.arange(n) < high[i]) for i, n in enumerate((height, width))
    )
    box = rows[:, None] & columns[None, :]
    weights = jnp.where(cuts, jnp.where(box, 0.0, 1.0), drawn)
    return Mix(weights[None, :, :, None], weights.mean(), order)


def mix_images(x: Images, mix: Mix) -> Images:
    """Images with others of their batch mixed into them."""
    weights = mix.weights.astype(x.dtype)
    return weights * x + (1 - weights) * x[mix.order]


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


__all__ = [
    "Crops",
    "Images",
    "Mix",
    "Moves",
    "crop_boxes",
    "crop_images",
    "crop_masks",
    "draw_crops",
    "draw_mix",
    "draw_moves",
    "mix_images",
    "move_boxes",
    "move_images",
    "relight",
]
