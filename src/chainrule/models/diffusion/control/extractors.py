"""Extractors of controls from images: the mask of a figure, and how deep each of its pixels lies.

Edges have a file of their own. Anything else that a network or a sensor measures, such as true depth, is a function of
the user's own from pictures to pictures of the same height and width, added to `extractors` under a name.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from chainrule.core.registry import Registry
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.control.edges import edges

_THRESHOLDS = 64

_X = Float[Array, "batch height width channels"]
_One = Float[Array, "batch height width 1"]


def mask(x: _X) -> _One:
    """1 for the brighter part of each picture and 0 for the rest, cut where the two differ most (Otsu, 1979).

    >>> mask(jnp.array([0.1, 0.2, 0.8, 0.9]).reshape(1, 2, 2, 1))[0, :, :, 0].tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    grey = x.mean(axis=-1, keepdims=True)
    low, high = (f(grey, axis=(1, 2, 3), keepdims=True) for f in (jnp.min, jnp.max))
    # Between the darkest and the brightest pixel, both excluded: each side has some.
    shares = (jnp.arange(_THRESHOLDS, dtype=x.dtype) + 0.5) / _THRESHOLDS

    def between(share: Array) -> tuple[Array, Array]:
        above = (grey > low + share * (high - low)).astype(x.dtype)
        weight = above.mean(axis=(1, 2, 3), keepdims=True)
        bright = (above * grey).mean(axis=(1, 2, 3), keepdims=True)
        apart = bright - weight * grey.mean(axis=(1, 2, 3), keepdims=True)
        return jnp.square(apart) / jnp.maximum(weight * (1 - weight), 1e-6), above

    sizes, cuts = jax.vmap(between)(shares)
    best = jnp.argmax(sizes, axis=0, keepdims=True)
    return jnp.take_along_axis(cuts, best, axis=0)[0]


def depth(x: _X) -> _One:
    """How far each pixel of the mask lies from its outline, in steps to neighbours, over the farthest: a relief.

    It stands in for a measured depth where there is only a picture: what is thick counts as near.
    """
    figure = mask(x)
    height, width = x.shape[1:3]

    def eroded(carry: Array, _: None) -> tuple[Array, Array]:
        edge = jnp.pad(carry, ((0, 0), (1, 1), (1, 1), (0, 0)))
        sides = (edge[:, :-2, 1:-1], edge[:, 2:, 1:-1], edge[:, 1:-1, :-2], edge[:, 1:-1, 2:])
        left = carry * sides[0] * sides[1] * sides[2] * sides[3]
        return left, carry

    _, rings = jax.lax.scan(eroded, figure, length=(min(height, width) + 1) // 2)
    steps = rings.sum(axis=0)
    return steps / jnp.maximum(steps.max(axis=(1, 2, 3), keepdims=True), 1)


extractors: Registry[Callable[[Array], Array]] = Registry("extractor")
"""From pictures in [0, 1] to pictures of the condition, (batch, height, width, channels), by name."""
extractors.add("edges", edges)
extractors.add("mask", mask)
extractors.add("depth", depth)

__all__ = ["depth", "extractors", "mask"]
