"""Augmentation of source images: pure functions of (key, images), each with what it keeps the labels of.

A mirrored 2 is no 2, a 6 upside down is a 9: whether a change keeps a label depends on what is in the picture. Every
augmentation says for which content it is safe, a composition is safe for what all its parts are safe for, and an unsafe
one is refused unless it is asked for. Mixing images mixes their labels too and is part of training (`augment.mixup`,
`augment.cutmix`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final, get_args

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.nn import augment
from chainrule.nn.rand_augment import DEGREES, OPERATIONS, ImageOperations, operate_images

Content: TypeAlias = Literal["digits", "text", "objects", "textures"]
"""What pictures show: digits, letters and words, things that stand upright, or surfaces."""
ANYTHING: frozenset[str] = frozenset(get_args(Content))
_UPRIGHT = 20.0
"""Degrees up to which digits and letters stay what they are: a 6 becomes a 9 at 180, a 7 a 1 much earlier."""


@final
@dataclass(frozen=True)
class Augmentation:
    """A random change of images."""

    name: str
    apply: Callable[[Key, Float[Array, "batch height width channels"]], Array]
    label_safe_for: frozenset[str]
    """The content whose labels it keeps."""

    def __call__(self, key: Key, x: Float[Array, "batch height width channels"]) -> Array:
        """The images, each changed in its own way; compiled code may call it."""
        return self.apply(key, x)


def flip() -> Augmentation:
    """Every second image mirrored left to right; digits and letters are not what they were."""

    def apply(key: Key, x: Array) -> Array:
        return augment.move_images(x, augment.draw_moves(key, len(x), flip=True))

    return Augmentation("flip", apply, frozenset({"objects", "textures"}))


def shift(pixels: int) -> Augmentation:
    """Images moved by up to so many pixels each way."""
    whole("shift", "pixels", pixels)

    def apply(key: Key, x: Array) -> Array:
        return augment.move_images(x, augment.draw_moves(key, len(x), crop=pixels))

    return Augmentation(f"shift({pixels})", apply, ANYTHING)


def crop(least: float) -> Augmentation:
    """A part of the images, of at least that share of their area, enlarged; parts of digits may be other digits."""
    if not 0 < least <= 1:
        raise ArgumentError(f"crop(least={least}): a share of the area lies above 0 and up to 1")

    def apply(key: Key, x: Array) -> Array:
        return augment.crop_images(x, augment.draw_crops(key, len(x), (x.shape[1], x.shape[2]), least=least))

    safe = ANYTHING if least >= 0.8 else frozenset({"objects", "textures"})
    return Augmentation(f"crop({least:g})", apply, safe)


def rotate(degrees: float) -> Augmentation:
    """Images turned by up to so many degrees either way."""
    if not 0 <= degrees <= 180:
        raise ArgumentError(f"rotate(degrees={degrees}): a turn lies between 0 and 180 degrees")
    number = OPERATIONS.index("rotate")

    def apply(key: Key, x: Array) -> Array:
        turns = jax.random.uniform(key, (1, len(x)), minval=-degrees, maxval=degrees) / DEGREES
        return operate_images(x, ImageOperations(jnp.full((1, len(x)), number), turns))

    safe = ANYTHING if degrees <= _UPRIGHT else frozenset({"textures"})
    return Augmentation(f"rotate({degrees:g})", apply, safe)


def colour(strength: float) -> Augmentation:
    """Contrast, brightness and saturation changed by up to that share."""
    if not 0 <= strength < 1:
        raise ArgumentError(f"colour(strength={strength}): a share lies from 0 to below 1")
    return Augmentation(f"colour({strength:g})", lambda key, x: augment.relight(x, key, strength), ANYTHING)


def noise(deviation: float) -> Augmentation:
    """Normal noise added to every number."""
    if not deviation >= 0:
        raise ArgumentError(f"noise(deviation={deviation}): a standard deviation is at least 0")
    return Augmentation(
        f"noise({deviation:g})",
        lambda key, x: x + deviation * jax.random.normal(key, x.shape, x.dtype),
        ANYTHING,
    )


def compose(*parts: Augmentation) -> Augmentation:
    """One after another, each with random numbers of its own; safe for what every part is safe for.

    >>> sorted(compose(shift(1), flip()).label_safe_for)
    ['objects', 'textures']
    """

    def apply(key: Key, x: Array) -> Array:
        for number, part in enumerate(parts):
            x = part(random.named(key, f"{number} {part.name}"), x)
        return x

    safe = ANYTHING.intersection(*(part.label_safe_for for part in parts))
    return Augmentation(" then ".join(part.name for part in parts) or "nothing", apply, safe)


def enlarged(
    x: Any,
    y: Any,
    parts: Sequence[Augmentation],
    *,
    content: str,
    copies: int = 1,
    key: Key | None = None,
    unsafe: bool = False,
) -> tuple[Float[np.ndarray, "more height width channels"], np.ndarray]:
    """Images (rows, height, width, channels) and their labels, followed by so many changed copies of all of them.

    `content` is "digits", "text", "objects" or "textures"; an augmentation that does not keep labels of it is refused,
    unless `unsafe`.

    >>> x, y = np.zeros((2, 8, 8, 1), np.float32), np.array([6, 9])
    >>> enlarged(x, y, [rotate(180)], content="digits")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: rotate(180) does not keep the labels of digits
           leave it out, choose a weaker one, or say unsafe=True; it is safe for: textures
    """
    check_choice("enlarged", "content", content, get_args(Content))
    for part in parts:
        if content not in part.label_safe_for and not unsafe:
            raise ArgumentError(
                f"{part.name} does not keep the labels of {content}",
                remedy="leave it out, choose a weaker one, or say unsafe=True; it is safe for: "
                + ", ".join(sorted(part.label_safe_for)),
            )
    if np.ndim(x) != 4:
        raise ArgumentError(
            f"enlarged(x): shape {np.shape(x)}", remedy="give images of (rows, height, width, channels)"
        )
    if len(x) != len(y):
        raise ArgumentError(f"enlarged: {len(x)} images and {len(y)} labels")
    change = jax.jit(compose(*parts).apply)
    keys = jax.random.split(
        random.key(0, "copies") if key is None else key, whole("enlarged", "copies", copies)
    )
    images = jnp.asarray(x)
    changed = [np.asarray(change(one, images)) for one in keys]
    return np.concatenate([np.asarray(x), *changed]), np.concatenate([np.asarray(y)] * (copies + 1))


__all__ = [
    "Augmentation",
    "Content",
    "colour",
    "compose",
    "crop",
    "enlarged",
    "flip",
    "noise",
    "rotate",
    "shift",
]
