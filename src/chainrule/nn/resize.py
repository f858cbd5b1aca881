"""Upsampling of images, signals and volumes: nearest, linear, pixel shuffle and max unpooling."""

import itertools
import math
from typing import NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int
from chainrule.nn.windows import PerAxis, per_axis


def upsample(
    x: Float[Array, "*axes channels"], scale: PerAxis, *, method: str = "nearest", dimensions: int = 2
) -> Float[Array, "*output_axes channels"]:
    """`scale` times as many entries: each repeated ("nearest"), or interpolated between their centres ("bilinear").

    >>> upsample(jnp.array([1.0, 2.0])[:, None], 2, dimensions=1)[:, 0]
    Array([1., 1., 2., 2.], dtype=float32)
    """
    check_choice("upsample", "method", method, ("nearest", "bilinear"))
    factors = per_axis("upsample", "scale", scale, dimensions)
    leading = x.ndim - dimensions - 1
    if method == "bilinear":
        sizes = [n * f for n, f in zip(x.shape[leading:-1], factors, strict=True)]
        return jax.image.resize(x, (*x.shape[:leading], *sizes, x.shape[-1]), "linear")
    for axis, factor in enumerate(factors, start=leading):
        x = jnp.repeat(x, factor, axis=axis)
    return x


def pixel_shuffle(
    x: Float[Array, "*axes channels"], scale: PerAxis, *, dimensions: int = 2
) -> Float[Array, "*output_axes outputs"]:
    """Channels unfolded into space: (h, w, c r²) to (h r, w r, c) (Shi et al., 2016).

    Of the channels of one pixel, the first r² make the first channel, in reading order, as in PyTorch.

    >>> pixel_shuffle(jnp.arange(4.0).reshape(1, 1, 4), 2)[..., 0]
    Array([[0., 1.],
           [2., 3.]], dtype=float32)
    """
    factors = per_axis("pixel_shuffle", "scale", scale, dimensions)
    leading, space = x.shape[: -dimensions - 1], x.shape[-dimensions - 1 : -1]
    outputs, rest = divmod(x.shape[-1], math.prod(factors))
    if rest:
        raise ArgumentError(
            f"pixel_shuffle(scale={scale}): {x.shape[-1]} channels are no multiple of {math.prod(factors)}"
        )
    split = x.reshape(*leading, *space, outputs, *factors)
    first = len(leading)
    order = [
        *range(first),
        *itertools.chain(*((first + a, first + dimensions + 1 + a) for a in range(dimensions))),
        first + dimensions,
    ]
    sizes = [n * f for n, f in zip(space, factors, strict=True)]
    return split.transpose(order).reshape(*leading, *sizes, outputs)


@final
class Switches(NamedTuple):
    """Where in its window each maximum was found: the number of the entry in reading order."""

    entry: Int[Array, "*output_axes channels"]
    size: tuple[int, ...]


def max_pool_with_switches(
    x: Float[Array, "*axes channels"], size: PerAxis, *, dimensions: int = 2
) -> tuple[Float[Array, "*output_axes channels"], Switches]:
    """Maxima of windows side by side, and which entry of its window each one is (the first of several).

    >>> maxima, switches = max_pool_with_switches(jnp.array([1.0, 4.0, 2.0, 0.0])[:, None], 2, dimensions=1)
    >>> unpool(maxima, switches)[:, 0]
    Array([0., 4., 2., 0.], dtype=float32)
    """
    window = per_axis("max_pool_with_switches", "size", size, dimensions)
    parts = _windows(x, window)
    entry = parts.argmax(axis=-1)
    return jnp.take_along_axis(parts, entry[..., None], axis=-1)[..., 0], Switches(entry, window)


def unpool(x: Float[Array, "*axes channels"], switches: Switches) -> Float[Array, "*output_axes channels"]:
    """Every entry put where the maximum of its window was found, zeros elsewhere (Zeiler and Fergus, 2014)."""
    window = switches.size
    dimensions = len(window)
    chosen = jax.nn.one_hot(switches.entry, math.prod(window), dtype=x.dtype)
    # Entries of a window become the fastest part of the channels, which is what a shuffle unfolds.
    spread = (x[..., None] * chosen).reshape(*x.shape[:-1], x.shape[-1] * math.prod(window))
    return pixel_shuffle(spread, window, dimensions=dimensions)


def _windows(x: Array, window: tuple[int, ...]) -> Array:
    """Windows side by side, the entries of each along a new last axis; what fits no window is left out."""
    dimensions = len(window)
    leading, space = x.shape[: -dimensions - 1], x.shape[-dimensions - 1 : -1]
    counts = [n // w for n, w in zip(space, window, strict=True)]
    cut = x[(..., *(slice(0, c * w) for c, w in zip(counts, window, strict=True)), slice(None))]
    split = cut.reshape(*leading, *itertools.chain(*zip(counts, window, strict=True)), x.shape[-1])
    first = len(leading)
    order = [
        *range(first),
        *range(first, first + 2 * dimensions, 2),
        first + 2 * dimensions,
        *range(first + 1, first + 2 * dimensions, 2),
    ]
    return split.transpose(order).reshape(*leading, *counts, x.shape[-1], math.prod(window))


__all__ = ["Switches", "max_pool_with_switches", "pixel_shuffle", "unpool", "upsample"]
