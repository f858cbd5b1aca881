"""Where the kernel meets the input: the settings of one convolution, and those of its adjoint."""

from collections.abc import Sequence
from typing import NamedTuple, final

import jax.numpy as jnp

from chainrule.core.types import Array


@final
class Geometry(NamedTuple):
    """`y[i] = Σ_m z[i stride + m dilation - before] w[m]`, where z is the input with zeros between its entries.

    Padding may be negative, which cuts entries off; adjoints of generously padded convolutions need that.
    """

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    input_dilation: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def sizes(self, space: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output."""
        return tuple(
            max(0, (spread(n, i) + low + high - spread(k, d)) // s + 1)
            for n, k, s, (low, high), i, d in zip(
                space, kernel, self.stride, self.padding, self.input_dilation, self.dilation, strict=True
            )
        )

    def adjoint(self, space: Sequence[int], kernel: Sequence[int]) -> "Geometry":
        """The geometry that maps outputs back to inputs, with the kernel of `swapped`.

        What the stride floored away at the end of an axis comes back as padding there.
        """
        around = []
        for n, k, (low, _), i, d, size, s in zip(
            space,
            kernel,
            self.padding,
            self.input_dilation,
            self.dilation,
            self.sizes(space, kernel),
            self.stride,
            strict=True,
        ):
            before = spread(k, d) - 1 - low
            around.append((before, spread(n, i) + spread(k, d) - 1 - spread(size, s) - before))
        return Geometry(self.input_dilation, tuple(around), self.stride, self.dilation, self.groups)


def spread(size: int, dilation: int) -> int:
    """Entries from the first to the last of `size` entries that lie `dilation` apart.

    >>> spread(3, 2)
    5
    """
    return 0 if size == 0 else (size - 1) * dilation + 1


def swapped(weight: Array, groups: int) -> Array:
    """The kernel of the adjoint: flipped in space, inputs and outputs of each group exchanged."""
    *kernel, per_group, outputs = weight.shape
    flipped = jnp.flip(weight, axis=tuple(range(len(kernel))))
    grouped = flipped.reshape(*kernel, per_group, groups, outputs // groups)
    return grouped.swapaxes(-1, -3).reshape(*kernel, outputs // groups, groups * per_group)


__all__ = ["Geometry", "spread", "swapped"]
