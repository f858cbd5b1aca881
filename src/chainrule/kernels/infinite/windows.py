"""Windows that slide over positions, for kernels of equal positions and of all pairs.

A convolution moves both positions of a pair together, `K'(p, q) = mean_o K(p + o, q + o)`; pooling moves each alone.
Windows are products over the axes of space, so each axis is done in turn, as sums of shifted copies.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array

PADDINGS = ("same", "circular", "valid")


@final
class SlidingWindow(eqx.Module):
    """Size, stride and padding of a window over one or two axes."""

    size: tuple[int, ...] = eqx.field(static=True)
    stride: tuple[int, ...] = eqx.field(static=True)
    padding: str = eqx.field(static=True)

    def margins(self, where: str, space: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Entries to add before and after every axis; those of "same" for circular padding, too."""
        if len(space) != len(self.size):
            raise ArgumentError(
                f"{where}: the window {self.size} has {len(self.size)} axes and the input has {len(space)} beside "
                "its channels",
                remedy="channels come last; add an axis with x[..., None] where there is one channel only",
            )
        if self.padding != "valid":
            pads = jax.lax.padtype_to_pads(tuple(space), self.size, self.stride, "SAME")
            if self.padding == "circular" and any(max(p) > n for p, n in zip(pads, space, strict=True)):
                raise ArgumentError(
                    f"{where}: the window {self.size} reaches round the input of size {space}"
                )
            return tuple((int(low), int(high)) for low, high in pads)
        if any(n < w for n, w in zip(space, self.size, strict=True)):
            raise ArgumentError(
                f"{where}: the window {self.size} is larger than the input of size {tuple(space)}",
                remedy='use padding="same"',
            )
        return ((0, 0),) * len(space)

    def padded(self, where: str, x: Array, axes: Sequence[int], space: Sequence[int]) -> Array:
        """An array with the margins of one copy of space, whose axes are these."""
        widths = [(0, 0)] * x.ndim
        for axis, margin in zip(axes, self.margins(where, space), strict=True):
            widths[axis] = margin
        if not any(low or high for low, high in widths):
            return x
        return jnp.pad(x, widths, mode="wrap" if self.padding == "circular" else "constant")

    def output(self, where: str, space: Sequence[int]) -> tuple[int, ...]:
        """The size of space behind the window."""
        rows = zip(space, self.margins(where, space), self.size, self.stride, strict=True)
        return tuple((n + low + high - w) // s + 1 for n, (low, high), w, s in rows)


def window(where: str, size: int | Sequence[int], stride: int | Sequence[int], padding: str) -> SlidingWindow:
    """A checked window; one number is a window over one axis."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    strides = (stride,) * len(sizes) if isinstance(stride, int) else tuple(stride)
    check_choice(where, "padding", padding, PADDINGS)
    if len(sizes) not in (1, 2) or len(strides) != len(sizes):
        raise ArgumentError(
            f"{where}(window={size}, stride={stride}): windows have one or two axes, and a stride for each"
        )
    return SlidingWindow(
        tuple(whole(where, "window", n) for n in sizes),
        tuple(whole(where, "stride", n) for n in strides),
        padding,
    )


def slid(
    where: str, moving: SlidingWindow, kernel: Array, space: Sequence[int], copies: int, *, jointly: bool
) -> Array:
    """Means over a window: of both positions together (`jointly`), or of each of the copies of space by itself."""
    count, first = len(space), kernel.ndim - copies * len(space)
    for copy in range(copies):
        axes = range(first + copy * count, first + (copy + 1) * count)
        kernel = moving.padded(where, kernel, axes, space)
    sizes = moving.output(where, space)
    for axis in range(count):
        together = [first + copy * count + axis for copy in range(copies)]
        for group in [together] if jointly else [[one] for one in together]:
            kernel = _mean(kernel, group, moving.size[axis], moving.stride[axis], sizes[axis])
    return kernel


def _mean(kernel: Array, axes: Sequence[int], size: int, stride: int, output: int) -> Array:
    total: Array | None = None
    for offset in range(size):
        part = kernel
        for axis in axes:
            part = jax.lax.slice_in_dim(part, offset, offset + (output - 1) * stride + 1, stride, axis)
        total = part if total is None else total + part
    assert total is not None  # a window has at least one entry
    return total / size


__all__ = ["PADDINGS", "SlidingWindow", "slid", "window"]
