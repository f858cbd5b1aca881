"""Differentiable augmentation (Zhao et al., 2020): random changes of real and generated images alike, in both steps.

The discriminator never sees an image as it is, so it cannot learn training images by heart, and the generator learns
through the changes. Changing real images alone would teach the generator to draw changed ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.types import Array, Float, Key
from chainrule.nn.augment import draw_moves, move_images

Change: TypeAlias = Literal["translation", "colour", "cutout"]
_Images = Float[Array, "batch height width channels"]
_SHIFT = 8
"""Images move by up to one in so many of their pixels."""


def _translation(x: _Images, key: Key) -> _Images:
    most = max(1, min(x.shape[1:3]) // _SHIFT)
    return move_images(x, draw_moves(key, len(x), crop=most))


def _colour(x: _Images, key: Key) -> _Images:
    """Brightness moved by up to half a unit, saturation up to doubled, contrast changed by up to half."""
    one, two, three = jax.random.split(key, 3)
    drawn = [jax.random.uniform(k, (len(x), 1, 1, 1), x.dtype) for k in (one, two, three)]
    x = x + drawn[0] - 0.5
    grey = x.mean(axis=3, keepdims=True)
    x = grey + (x - grey) * 2 * drawn[1] if x.shape[3] > 1 else x
    mean = x.mean(axis=(1, 2, 3), keepdims=True)
    return mean + (x - mean) * (drawn[2] + 0.5)


def _cutout(x: _Images, key: Key) -> _Images:
    """A box of half the height and width, anywhere, becomes zero."""
    one, two = jax.random.split(key)
    inside = []
    for axis, k in ((1, one), (2, two)):
        size = x.shape[axis]
        start = jax.random.randint(k, (len(x), 1), -(size // 4), size - size // 4)
        at = jnp.arange(size)[None, :]
        inside.append((at >= start) & (at < start + size // 2))
    box = inside[0][:, :, None] & inside[1][:, None, :]
    return jnp.where(box[..., None], jnp.zeros((), x.dtype), x)


CHANGES: Mapping[str, Callable[[_Images, Key], _Images]] = {
    "translation": _translation,
    "colour": _colour,
    "cutout": _cutout,
}


def changed(x: Float[Array, "batch ..."], names: Sequence[str], key: Key) -> Float[Array, "batch ..."]:
    """Images after these changes, each example by draws of its own."""
    for name in names:
        x = CHANGES[name](x, random.named(key, name))
    return x


__all__ = ["CHANGES", "Change", "changed"]
