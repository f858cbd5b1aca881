"""Pooling: one number per channel for each window, each part, or the whole of an image, a signal or a volume.

Arrays are channels last with any leading axes; `dimensions` axes before the channels are pooled.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.geometry import Padding, Pairs, PerAxis, check_padding, output_sizes, per_axis, resolve


def max_pool(
    x: Float[Array, "*axes channels"],
    size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = "valid",
    dimensions: int = 2,
) -> Float[Array, "*output_axes channels"]:
    """The largest entry of every window; windows lie side by side unless a stride is given.

    >>> max_pool(jnp.arange(16.0).reshape(4, 4, 1), 2)[..., 0]
    Array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    """
    window = _Window("max_pool", x, size, stride, padding, dimensions)
    lowest = np.array(-np.inf, x.dtype)
    return window.reduce(x, lowest, jax.lax.max)


def average_pool(
    x: Float[Array, "*axes channels"],
    size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = "valid",
    dimensions: int = 2,
    count_padding: bool = True,
) -> Float[Array, "*output_axes channels"]:
    """The mean of every window; padding counts as zeros, or not at all.

    >>> average_pool(jnp.arange(16.0).reshape(4, 4, 1), 2)[..., 0]
    Array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)
    """
    window = _Window("average_pool", x, size, stride, padding, dimensions)
    total = window.reduce(x, np.array(0, x.dtype), jax.lax.add)
    if count_padding or not any(itertools.chain(*window.padding)):
        return total / math.prod(window.size)
    inside = window.reduce(jnp.ones((*window.space, 1), x.dtype), np.array(0, x.dtype), jax.lax.add)
    return total / inside.reshape((1,) * (total.ndim - inside.ndim) + inside.shape)


def global_average_pool(
    x: Float[Array, "*axes channels"], *, dimensions: int = 2
) -> Float[Array, "*leading channels"]:
    """The mean of every channel.

    >>> global_average_pool(jnp.arange(8.0).reshape(2, 2, 2))
    Array([3., 4.], dtype=float32)
    """
    return x.mean(axis=_axes(x, dimensions))


def global_max_pool(
    x: Float[Array, "*axes channels"], *, dimensions: int = 2
) -> Float[Array, "*leading channels"]:
    """The largest entry of every channel."""
    return x.max(axis=_axes(x, dimensions))


def adaptive_average_pool(
    x: Float[Array, "*axes channels"], sizes: PerAxis, *, dimensions: int = 2
) -> Float[Array, "*output_axes channels"]:
    """Means over as many parts as asked for: part i of n entries in m parts is floor(i n/m) to ceil((i+1) n/m).

    >>> adaptive_average_pool(jnp.arange(5.0)[:, None], 2, dimensions=1)[:, 0]
    Array([1., 3.], dtype=float32)
    """
    return _adaptive("adaptive_average_pool", x, sizes, dimensions, lambda part, axis: part.mean(axis=axis))


def adaptive_max_pool(
    x: Float[Array, "*axes channels"], sizes: PerAxis, *, dimensions: int = 2
) -> Float[Array, "*output_axes channels"]:
    """Maxima over as many parts as asked for, cut like those of `adaptive_average_pool`."""
    return _adaptive("adaptive_max_pool", x, sizes, dimensions, lambda part, axis: part.max(axis=axis))


@final
class _Window:
    """A window that slides over given axes of a given array."""

    def __init__(
        self, where: str, x: Array, size: PerAxis, stride: PerAxis | None, padding: Padding, dimensions: int
    ) -> None:
        self.dimensions = dimensions
        self.space = x.shape[-dimensions - 1 : -1]
        self.size = per_axis(where, "size", size, dimensions)
        self.stride = self.size if stride is None else per_axis(where, "stride", stride, dimensions)
        ones = (1,) * dimensions
        self.padding: Pairs = resolve(
            check_padding(where, padding, dimensions), self.space, self.size, self.stride, ones
        )
        if any(p >= s for pair, s in zip(self.padding, self.size, strict=True) for p in pair):
            raise ArgumentError(f"{where}(padding={padding}): a window of padding alone has no value to give")
        self.sizes = output_sizes(where, self.space, self.size, self.stride, self.padding, ones)

    def reduce(self, x: Array, start: np.ndarray, operation: Callable) -> Array:
        """Fold every window."""
        leading = x.ndim - self.dimensions - 1
        return jax.lax.reduce_window(
            x,
            start,
            operation,
            (1,) * leading + self.size + (1,),
            (1,) * leading + self.stride + (1,),
            ((0, 0),) * leading + self.padding + ((0, 0),),
        )


def _axes(x: Array, dimensions: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1 - dimensions, x.ndim - 1))


def _adaptive(
    where: str, x: Array, sizes: PerAxis, dimensions: int, fold: Callable[[Array, int], Array]
) -> Array:
    numbers: Sequence[int] = per_axis(where, "sizes", sizes, dimensions)
    for axis, parts in zip(_axes(x, dimensions), numbers, strict=True):
        n = x.shape[axis]
        cuts = [(i * n // parts, -(-(i + 1) * n // parts)) for i in range(parts)]
        x = jnp.stack([fold(jax.lax.slice_in_dim(x, a, b, axis=axis), axis) for a, b in cuts], axis=axis)
    return x


__all__ = [
    "adaptive_average_pool",
    "adaptive_max_pool",
    "average_pool",
    "global_average_pool",
    "global_max_pool",
    "max_pool",
]
