"""Layers that gather positions: average pooling, global average pooling, flattening."""

import math
from collections.abc import Sequence
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Key
from chainrule.kernels.infinite.layer import FixedLayer, HasKernels
from chainrule.kernels.infinite.state import KernelState
from chainrule.kernels.infinite.windows import SlidingWindow, slid, window


@final
class Flatten(FixedLayer, HasKernels):
    """All positions become channels: kernels are means over equal positions."""

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """To `(batch, positions * channels)`."""
        del key
        return x.reshape(len(x), -1)

    def kernels(self, state: KernelState) -> KernelState:
        count = math.prod(state.space)

        def mean(kernel: Array) -> Array:
            equal = state.at_equal(kernel)
            return equal.mean(axis=tuple(range(equal.ndim - len(state.space), equal.ndim)))

        gathered = state.each(mean) if state.space else state
        return gathered.marked(space=(), pairs=False, channels=state.channels * count)

    def needs_pairs(self, later: bool) -> bool:
        del later
        return False


@final
class GlobalAveragePool(FixedLayer, HasKernels):
    """The mean of every channel over all positions: kernels are means over all pairs of positions."""

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """To `(batch, channels)`."""
        del key
        return x.mean(axis=tuple(range(1, x.ndim - 1)))

    def kernels(self, state: KernelState) -> KernelState:
        axes = 2 * len(state.space)
        gathered = state.each(lambda k: k.mean(axis=tuple(range(k.ndim - axes, k.ndim))))
        return gathered.marked(space=(), pairs=False)

    def needs_pairs(self, later: bool) -> bool:
        del later
        return True


@final
class AveragePool(FixedLayer, HasKernels):
    """The mean of every channel over a window; zeros of `padding="same"` count.

    Unless given, windows do not overlap.
    """

    window: SlidingWindow

    def __init__(
        self,
        window_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] | None = None,
        padding: str = "valid",
    ) -> None:
        self.window = window("AveragePool", window_size, window_size if stride is None else stride, padding)

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """Over the axes between the first and the last."""
        del key
        moved = jnp.moveaxis(x, -1, 1)
        found = slid("AveragePool", self.window, moved, x.shape[1:-1], 1, jointly=False)
        return jnp.moveaxis(found, 1, -1)

    def kernels(self, state: KernelState) -> KernelState:
        moved = state.each(lambda k: slid("AveragePool", self.window, k, state.space, 2, jointly=False))
        return moved.marked(space=self.window.output("AveragePool", state.space))

    def needs_pairs(self, later: bool) -> bool:
        del later
        return True

    def axes(self) -> int | None:
        return len(self.window.size) + 1


@final
class MaxPool(FixedLayer):
    """The maximum of every channel over a window: no rule for its kernels is known, finite networks have it."""

    window: SlidingWindow

    def __init__(
        self, window_size: int | Sequence[int], *, stride: int | Sequence[int] | None = None
    ) -> None:
        self.window = window("MaxPool", window_size, window_size if stride is None else stride, "valid")

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """Over the axes between the first and the last."""
        del key
        self.window.margins("MaxPool", x.shape[1:-1])
        size, stride = (1, *self.window.size, 1), (1, *self.window.stride, 1)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, size, stride, "VALID")

    def axes(self) -> int | None:
        return len(self.window.size) + 1


__all__ = ["AveragePool", "Flatten", "GlobalAveragePool", "MaxPool"]
