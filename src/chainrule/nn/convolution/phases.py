"""Input-dilated (transposed) convolution by phases, without multiplying by the zeros between entries.

Where entries lie `z` apart, outputs `z` apart see the same entries of the kernel, and outputs next to each other see
different ones. So the outputs fall into `z` phases per axis; each is a small convolution of the plain input with its
own share of the kernel, and the phases are interleaved at the end.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple, final

import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.windows import Geometry, output_size, spread

Plain = Callable[[Array, Array, Geometry], Array]
"""Convolution with every input dilation 1."""


@final
class Phase(NamedTuple):
    """Every `z`-th output along one axis: which entries of the kernel it sees, and where they meet the input."""

    entries: slice
    padding: tuple[int, int]
    dilation: int


def phases(n: int, kernel: int, padding: tuple[int, int], apart: int, dilation: int) -> list[Phase | None]:
    """The phases of one axis, `None` for one that sees no entry of the kernel at all; all of the same size.

    >>> phases(7, 3, (1, 1), 2, 1)  # an upsampling by two with a kernel of three
    [Phase(entries=slice(1, None, 2), padding=(0, 0), dilation=1),
     Phase(entries=slice(0, None, 2), padding=(0, 1), dilation=1)]
    """
    low, _ = padding
    outputs = output_size(spread(n, apart), kernel, 1, padding, dilation)
    size = -(-outputs // apart)
    step = apart // math.gcd(dilation, apart)
    found: list[Phase | None] = []
    for phase in range(apart):
        first = next((m for m in range(min(step, kernel)) if (phase + m * dilation - low) % apart == 0), None)
        if first is None:
            found.append(None)
            continue
        reach = dilation * step // apart
        before = -(phase + first * dilation - low) // apart
        after = size - 1 + spread(len(range(first, kernel, step)), reach) - n - before
        found.append(Phase(slice(first, None, step), (before, after), reach))
    return found


def by_phases(x: Array, weight: Array, geometry: Geometry, plain: Plain) -> Array:
    """The convolution, with `plain` doing the work. All strides must be 1."""
    *kernel, _, outputs = weight.shape
    space = x.shape[1:-1]
    per_axis = [
        phases(*numbers)
        for numbers in zip(
            space, kernel, geometry.padding, geometry.input_dilation, geometry.dilation, strict=True
        )
    ]
    sizes = geometry.sizes(space, kernel)
    rough = [-(-size // apart) for size, apart in zip(sizes, geometry.input_dilation, strict=True)]
    pieces = []
    for chosen in itertools.product(*per_axis):
        seen = [phase for phase in chosen if phase is not None]
        if len(seen) < len(chosen):
            pieces.append(jnp.zeros((x.shape[0], *rough, outputs), x.dtype))
            continue
        part = Geometry(
            stride=geometry.stride,
            padding=tuple(phase.padding for phase in seen),
            input_dilation=(1,) * len(seen),
            dilation=tuple(phase.dilation for phase in seen),
            groups=geometry.groups,
        )
        pieces.append(plain(x, weight[tuple(phase.entries for phase in seen)], part))
    return _interleaved(pieces, geometry.input_dilation, rough, sizes)


def _interleaved(
    pieces: list[Array], apart: tuple[int, ...], rough: list[int], sizes: tuple[int, ...]
) -> Array:
    batch, channels = pieces[0].shape[0], pieces[0].shape[-1]
    dimensions = len(apart)
    stacked = jnp.stack(pieces, axis=-2).reshape(batch, *rough, *apart, channels)
    order = [
        0,
        *itertools.chain(*((1 + a, 1 + dimensions + a) for a in range(dimensions))),
        2 * dimensions + 1,
    ]
    whole = stacked.transpose(order).reshape(
        batch, *(r * a for r, a in zip(rough, apart, strict=True)), channels
    )
    return whole[(slice(None), *(slice(0, size) for size in sizes))]


__all__ = ["Phase", "by_phases", "phases"]
