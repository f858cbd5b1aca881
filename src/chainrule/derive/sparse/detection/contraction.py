"""Products and convolutions in a standard arrangement: batch, kept and summed axes as one axis each.

Index arrays of windows are made here as well: which elements of the input each element of the output sees.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Dot(NamedTuple):
    """How the axes of a `dot_general` are arranged, as (batch, kept, summed) for either side."""

    left: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    right: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    out_shape: tuple[int, ...]


def dot_of(equation: Any) -> Dot:
    """The arrangement of an equation."""
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    sides = []
    for atom, batch, summed in zip(
        equation.invars, (left_batch, right_batch), (left_sum, right_sum), strict=True
    ):
        kept = tuple(a for a in range(atom.aval.ndim) if a not in batch and a not in summed)
        sides.append((tuple(batch), kept, tuple(summed)))
    return Dot(sides[0], sides[1], tuple(equation.outvars[0].aval.shape))


def arranged(a: np.ndarray, axes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> np.ndarray:
    """An array of three axes: batch, kept, summed."""
    sizes = [math.prod(a.shape[axis] for axis in group) for group in axes]
    return a.transpose([axis for group in axes for axis in group]).reshape(sizes)


def boolean_dot(equation: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Where a product may be different from zero, from where its factors may."""
    dot = dot_of(equation)
    a = arranged(left, dot.left).astype(np.float32)
    b = arranged(right, dot.right).astype(np.float32)
    return (np.matmul(a, b.transpose(0, 2, 1)) > 0).reshape(dot.out_shape)


def window_positions(
    shape: Sequence[int],
    out_shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> np.ndarray:
    """For every output (first axis) and position in the window (second), the flat input position, or -1 outside."""
    positions = np.zeros((1, 1), dtype=np.int64)
    inside = np.ones((1, 1), dtype=bool)
    for axis, size in enumerate(shape):
        begin = np.arange(out_shape[axis]) * strides[axis] - padding[axis][0]
        reach = begin[:, None] + np.arange(window[axis])[None, :] * window_dilation[axis]
        step = base_dilation[axis]
        valid = (reach >= 0) & (reach < (size - 1) * step + 1) & (reach % step == 0)
        stride = math.prod(shape[axis + 1 :])
        moved = np.where(valid, reach // step, 0) * stride
        rows, taps = positions.shape
        whole = (rows * len(reach), taps * window[axis])
        positions = (positions[:, None, :, None] + moved[None, :, None, :]).reshape(whole)
        inside = (inside[:, None, :, None] & valid[None, :, None, :]).reshape(whole)
    return np.where(inside, positions, -1)


class Convolution(NamedTuple):
    """A convolution with groups in front: image (group, batch, channel, pixel), kernel (group, out, channel, tap)."""

    groups: int
    batch: int
    channels: int
    outs: int
    pixels: int
    taps: int
    spots: int
    """Output pixels."""
    positions: np.ndarray
    """Input pixel of every output pixel and tap."""
    equation: Any

    def image(self, a: np.ndarray) -> np.ndarray:
        """The left operand in standard form."""
        params = self.equation.params
        a = a.transpose(params["dimension_numbers"].lhs_spec)
        if params["batch_group_count"] > 1:
            return a.reshape(self.groups, self.batch, self.channels, self.pixels)
        return a.reshape(self.batch, self.groups, self.channels, self.pixels).swapaxes(0, 1)

    def kernel(self, a: np.ndarray) -> np.ndarray:
        """The right operand in standard form."""
        a = a.transpose(self.equation.params["dimension_numbers"].rhs_spec)
        return a.reshape(self.groups, self.outs, self.channels, self.taps)

    def result(self, a: np.ndarray) -> np.ndarray:
        """From (group, batch, out, spot) to the shape of the equation's result."""
        spec = self.equation.params["dimension_numbers"].out_spec
        shape = self.equation.outvars[0].aval.shape
        a = a.swapaxes(0, 1).reshape([shape[axis] for axis in spec])
        return a.transpose(np.argsort(spec))


def convolution_of(equation: Any) -> Convolution:
    """The standard form of an equation."""
    params = equation.params
    numbers = params["dimension_numbers"]
    image = [equation.invars[0].aval.shape[axis] for axis in numbers.lhs_spec]
    kernel = [equation.invars[1].aval.shape[axis] for axis in numbers.rhs_spec]
    out = [equation.outvars[0].aval.shape[axis] for axis in numbers.out_spec]
    groups = params["feature_group_count"] * params["batch_group_count"]
    positions = window_positions(
        image[2:],
        out[2:],
        kernel[2:],
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    )
    return Convolution(
        groups=groups,
        batch=out[0],
        channels=kernel[1],
        outs=kernel[0] // groups,
        pixels=math.prod(image[2:]),
        taps=math.prod(kernel[2:]),
        spots=math.prod(out[2:]),
        positions=positions,
        equation=equation,
    )


__all__ = [
    "Convolution",
    "Dot",
    "arranged",
    "boolean_dot",
    "convolution_of",
    "dot_of",
    "window_positions",
]
