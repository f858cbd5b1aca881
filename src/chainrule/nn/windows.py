"""Sliding windows of convolutions and pooling: settings per axis, output sizes, and the geometry of adjoints.

One window of `kernel` entries, `dilation` apart, moves by `stride` over an axis of `size` entries that `padding` makes
longer at both ends. It fits `floor((size + padding - dilation (kernel - 1) - 1) / stride) + 1` times.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, final

import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array

PerAxis: TypeAlias = int | Sequence[int]
"""One number for all axes, or one for each."""

Pairs: TypeAlias = tuple[tuple[int, int], ...]
"""Entries added before and after each axis."""

Padding: TypeAlias = str | int | Sequence[int] | Sequence[tuple[int, int]]
"""`"same"`, `"valid"`, one number, one for each axis, or a pair for each axis."""


def per_axis(where: str, name: str, value: PerAxis, dimensions: int, least: int = 1) -> tuple[int, ...]:
    """One number for each axis.

    >>> per_axis("Conv", "stride", 2, 3)
    (2, 2, 2)
    """
    numbers = tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value,) * dimensions
    if len(numbers) != dimensions:
        raise ArgumentError(
            f"{where}({name}={value}): {len(numbers)} numbers for {dimensions} axes",
            remedy="give one number, or one for each axis",
        )
    return tuple(whole(where, name, number, least) for number in numbers)


def check_padding(where: str, padding: Padding, dimensions: int) -> str | Pairs:
    """The padding as `"same"`, `"valid"` or pairs.

    >>> check_padding("Conv", 1, 2)
    ((1, 1), (1, 1))
    """
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ArgumentError(
                f'{where}(padding="{padding}"): padding must be "same", "valid", a number or a pair for each axis'
            )
        return padding
    entries = padding if isinstance(padding, list | tuple | np.ndarray) else (padding,) * dimensions
    pairs = [p if isinstance(p, list | tuple | np.ndarray) else (p, p) for p in entries]
    if len(pairs) != dimensions or any(len(pair) != 2 for pair in pairs):
        raise ArgumentError(
            f"{where}(padding={padding}): {len(pairs)} entries for {dimensions} axes",
            remedy="give one number, or a number or a pair for each axis",
        )
    low, high = zip(*[[whole(where, "padding", p, least=0) for p in pair] for pair in pairs], strict=True)
    return tuple(zip(low, high, strict=True))


def resolve(
    padding: str | Pairs,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Pairs:
    """Pairs for given sizes; `"same"` makes `ceil(size / stride)` outputs, an odd entry going to the end.

    >>> resolve("same", (28, 5), (3, 3), (1, 2), (1, 1))
    ((1, 1), (1, 1))
    """
    if padding == "valid":
        return ((0, 0),) * len(sizes)
    if isinstance(padding, str):
        pairs = []
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
            total = max((-(-n // s) - 1) * s + spread(k, d) - n, 0)
            pairs.append((total // 2, total - total // 2))
        return tuple(pairs)
    return padding


def output_size(size: int, kernel: int, stride: int, padding: tuple[int, int], dilation: int = 1) -> int:
    """How often a window fits on an axis; zero or less where it does not fit once.

    >>> output_size(28, 3, 2, (1, 1))
    14
    """
    return (size + sum(padding) - spread(kernel, dilation)) // stride + 1


def output_sizes(
    where: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """How often the window fits on each axis; an error with the arithmetic where it does not fit once.

    >>> output_sizes("Conv", (28,), (3,), (2,), ((1, 1),), (1,))
    (14,)
    >>> output_sizes("Conv", (4,), (7,), (1,), ((1, 1),), (1,))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Conv: no output: floor((4 + 1 + 1 - 1·(7 - 1) - 1) / 1) + 1 = 0 on axis 0
           use a smaller kernel or dilation, more padding, or larger inputs
    """
    found = []
    for axis, (n, k, s, (low, high), d) in enumerate(
        zip(sizes, kernel, stride, padding, dilation, strict=True)
    ):
        size = output_size(n, k, s, (low, high), d)
        if size < 1:
            raise ArgumentError(
                f"{where}: no output: floor(({n} + {low} + {high} - {d}·({k} - 1) - 1) / {s}) + 1 = {size} "
                f"on axis {axis}",
                remedy="use a smaller kernel or dilation, more padding, or larger inputs",
            )
        found.append(size)
    return tuple(found)


def spread(size: int, dilation: int) -> int:
    """Entries from the first to the last of `size` entries that lie `dilation` apart.

    >>> spread(3, 2)
    5
    """
    return 0 if size == 0 else (size - 1) * dilation + 1


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
            max(0, output_size(spread(n, i), k, s, padding, d))
            for n, k, s, padding, i, d in zip(
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


def swapped(weight: Array, groups: int) -> Array:
    """The kernel of the adjoint: flipped in space, inputs and outputs of each group exchanged."""
    *kernel, per_group, outputs = weight.shape
    flipped = jnp.flip(weight, axis=tuple(range(len(kernel))))
    grouped = flipped.reshape(*kernel, per_group, groups, outputs // groups)
    return grouped.swapaxes(-1, -3).reshape(*kernel, outputs // groups, groups * per_group)


__all__ = [
    "Geometry",
    "Padding",
    "Pairs",
    "PerAxis",
    "check_padding",
    "output_size",
    "output_sizes",
    "per_axis",
    "resolve",
    "spread",
    "swapped",
]
