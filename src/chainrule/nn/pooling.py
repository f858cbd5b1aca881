"""Pooling: one number per channel for each window, each part, or the whole of an image, a signal or a volume.

Arrays are channels last with any leading axes; `dimensions` axes before the channels are pooled.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.windows import Padding, Pairs, PerAxis, check_padding, output_sizes, per_axis, resolve


@jax.named_scope("max_pool")
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
    if window.side_by_side:
        return _largest(window.split(x), window.size)
    return window.reduce(x, np.array(-np.inf, x.dtype), jax.lax.max)


@jax.named_scope("average_pool")
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
    if window.side_by_side:
        axes = tuple(range(x.ndim - dimensions, x.ndim + dimensions, 2))
        return window.split(x).mean(axis=axes)
    total = window.reduce(x, np.array(0, x.dtype), jax.lax.add)
    if count_padding or not any(itertools.chain(*window.padding)):
        return total / math.prod(window.size)
    inside = window.reduce(jnp.ones((*window.space, 1), x.dtype), np.array(0, x.dtype), jax.lax.add)
    return total / inside.reshape((1,) * (total.ndim - inside.ndim) + inside.shape)


@jax.named_scope("global_average_pool")
def global_average_pool(
    x: Float[Array, "*axes channels"], *, dimensions: int = 2
) -> Float[Array, "*leading channels"]:
    """The mean of every channel.

    >>> global_average_pool(jnp.arange(8.0).reshape(2, 2, 2))
    Array([3., 4.], dtype=float32)
    """
    return x.mean(axis=_axes(x, dimensions))


@jax.named_scope("global_max_pool")
def global_max_pool(
    x: Float[Array, "*axes channels"], *, dimensions: int = 2
) -> Float[Array, "*leading channels"]:
    """The largest entry of every channel."""
    return x.max(axis=_axes(x, dimensions))


@jax.named_scope("adaptive_average_pool")
def adaptive_average_pool(
    x: Float[Array, "*axes channels"], sizes: PerAxis, *, dimensions: int = 2
) -> Float[Array, "*output_axes channels"]:
    """Means over as many parts as asked for: part i of n entries in m parts is floor(i n/m) to ceil((i+1) n/m).

    >>> adaptive_average_pool(jnp.arange(5.0)[:, None], 2, dimensions=1)[:, 0]
    Array([1., 3.], dtype=float32)
    """
    return _adaptive("adaptive_average_pool", x, sizes, dimensions, lambda part, axis: part.mean(axis=axis))


@jax.named_scope("adaptive_max_pool")
def adaptive_max_pool(
    x: Float[Array, "*axes channels"], sizes: PerAxis, *, dimensions: int = 2
) -> Float[Array, "*output_axes channels"]:
    """Maxima over as many parts as asked for, cut like those of `adaptive_average_pool`."""
    return _adaptive("adaptive_max_pool", x, sizes, dimensions, lambda part, axis: part.max(axis=axis))


@jax.named_scope("blur_pool")
def blur_pool(
    x: Float[Array, "*axes channels"], stride: int = 2, *, size: int = 3, dimensions: int = 2
) -> Float[Array, "*output_axes channels"]:
    """Every `stride`-th entry of the input after smoothing, so that a shift by one does not change everything.

    Each channel is convolved with binomial weights (1 2 1 / 4 for three entries) and continued by its mirror image at
    the edges (Zhang, 2019, arXiv:1904.11486). Max-pooling without aliasing is `blur_pool(max_pool(x, 2, stride=1))`.

    >>> blur_pool(jnp.array([0.0, 0.0, 4.0, 0.0, 0.0])[:, None], dimensions=1)[:, 0]
    Array([0., 2., 0.], dtype=float32)
    """
    stride, size = whole("blur_pool", "stride", stride), whole("blur_pool", "size", size)
    weights = np.array([math.comb(size - 1, k) for k in range(size)]) / 2 ** (size - 1)
    before = (size - 1) // 2
    for axis in _axes(x, dimensions):
        n = x.shape[axis]
        if size - 1 - before > n - 1:
            raise ArgumentError(
                f"blur_pool(size={size}): an axis of {n} has no mirror image of {size - 1 - before} entries",
                remedy="use a smaller size",
            )
        widths = [(0, 0)] * x.ndim
        widths[axis] = (before, size - 1 - before)
        wide = jnp.pad(x, widths, mode="reflect")
        parts = [
            float(w) * jax.lax.slice_in_dim(wide, k, k + n, stride=stride, axis=axis)
            for k, w in enumerate(weights)
        ]
        x = functools.reduce(jnp.add, parts)
    return x


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

    @property
    def side_by_side(self) -> bool:
        """Whether windows neither overlap nor leave entries between them nor see padding."""
        return self.stride == self.size and not any(itertools.chain(*self.padding))

    def split(self, x: Array) -> Array:
        """Each pooled axis as two: windows, and entries of a window."""
        leading = x.shape[: x.ndim - self.dimensions - 1]
        whole = [n * k for n, k in zip(self.sizes, self.size, strict=True)]
        cut = x[(..., *(slice(0, n) for n in whole), slice(None))]
        pairs = itertools.chain(*zip(self.sizes, self.size, strict=True))
        return cut.reshape(*leading, *pairs, x.shape[-1])

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


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _largest(parts: Array, size: tuple[int, ...]) -> Array:
    """The largest entry of each window of an array that has been split.

    The gradient goes to the first of equal entries. XLA's own rule scatters it, one entry at a time; this one is a
    product with a mask.
    """
    return functools.reduce(jnp.maximum, _entries(parts, size))


@_largest.defjvp
def _largest_tangent(
    size: tuple[int, ...], primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    (parts,), (tangent,) = primals, tangents
    dimensions = len(size)
    value, *others = _entries(parts, size)
    where = jnp.zeros(value.shape, jnp.int32)
    for number, other in enumerate(others, start=1):
        where = jnp.where(other > value, number, where)
        value = jnp.maximum(value, other)
    axes = tuple(range(parts.ndim - 2 * dimensions, parts.ndim, 2))
    indices = jnp.zeros(parts.shape, jnp.int32)
    for axis, count in zip(axes, size, strict=True):
        indices = indices * count + jax.lax.broadcasted_iota(jnp.int32, parts.shape, axis)
    mask = (jnp.expand_dims(where, axes) == indices).astype(tangent.dtype)
    return value, (tangent * mask).sum(axis=axes)


def _entries(parts: Array, size: tuple[int, ...]) -> list[Array]:
    """The entries of every window, one array for each position in it."""
    dimensions = len(size)
    first = parts.ndim - 1 - 2 * dimensions
    found = []
    for offset in itertools.product(*(range(n) for n in size)):
        index = [slice(None)] * first + [part for p in offset for part in (slice(None), p)]
        found.append(parts[tuple(index)])
    return found


def _axes(x: Array, dimensions: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1 - dimensions, x.ndim - 1))


def _adaptive(
    where: str, x: Array, sizes: PerAxis, dimensions: int, fold: Callable[[Array, int], Array]
) -> Array:
    numbers: Sequence[int] = per_axis(where, "sizes", sizes, dimensions)
    for axis, parts in zip(_axes(x, dimensions), numbers, strict=True):
        n = x.shape[axis]
        if parts == n:  # each entry is a part
            continue
        cuts = [(i * n // parts, -(-(i + 1) * n // parts)) for i in range(parts)]
        x = jnp.stack([fold(jax.lax.slice_in_dim(x, a, b, axis=axis), axis) for a, b in cuts], axis=axis)
    return x


__all__ = [
    "adaptive_average_pool",
    "adaptive_max_pool",
    "average_pool",
    "blur_pool",
    "global_average_pool",
    "global_max_pool",
    "max_pool",
]
