"""The arithmetic of sliding windows: how settings become numbers per axis, and sizes that come out.

One window of `kernel` entries, `dilation` apart, moves by `stride` over an axis of `size` entries that `padding` makes
longer at both ends. It fits `floor((size + padding - dilation (kernel - 1) - 1) / stride) + 1` times.
"""

from collections.abc import Sequence
from typing import TypeAlias

from chainrule.core.errors import ArgumentError

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
    numbers = (value,) * dimensions if isinstance(value, int) else tuple(value)
    if len(numbers) != dimensions:
        raise ArgumentError(
            f"{where}({name}={value}): {len(numbers)} numbers for {dimensions} axes",
            remedy="give one number, or one for each axis",
        )
    if any(number < least for number in numbers):
        raise ArgumentError(f"{where}({name}={value}): {name} must be at least {least}")
    return numbers


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
    if isinstance(padding, int):
        padding = (padding,) * dimensions
    pairs = tuple((p, p) if isinstance(p, int) else (int(p[0]), int(p[1])) for p in padding)
    if len(pairs) != dimensions:
        raise ArgumentError(
            f"{where}(padding={padding}): {len(pairs)} entries for {dimensions} axes",
            remedy="give one number, or a number or a pair for each axis",
        )
    if any(p < 0 for pair in pairs for p in pair):
        raise ArgumentError(f"{where}(padding={padding}): padding must not be negative")
    return pairs


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
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            pairs.append((total // 2, total - total // 2))
        return tuple(pairs)
    return padding


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
        size = (n + low + high - d * (k - 1) - 1) // s + 1
        if size < 1:
            raise ArgumentError(
                f"{where}: no output: floor(({n} + {low} + {high} - {d}·({k} - 1) - 1) / {s}) + 1 = {size} "
                f"on axis {axis}",
                remedy="use a smaller kernel or dilation, more padding, or larger inputs",
            )
        found.append(size)
    return tuple(found)


__all__ = ["Padding", "Pairs", "PerAxis", "check_padding", "output_sizes", "per_axis", "resolve"]
