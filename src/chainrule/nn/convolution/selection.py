"""Selection of the fastest XLA program for a convolution or a weight gradient on a CPU.

They serve where there is no native program (`chainrule.nn.convolution.native`): on other processors,
and for channels that do not fill registers. The rules come from a table of measured rates (GFLOP/s of one core, in a
loop, single precision, 3x3 kernels; the core's matrix products reach 105 at their best):

| input, channels | convolution by XLA | by products | weight gradient as convolution | by products |
|---|---|---|---|---|
| 28x28, 1 to 32 | 56 | 56 | 46 | 26 |
| 28x28, 32 to 64 | 91 | 78 | 80 | 75 |
| 28x28, 64 to 64, stride 2 | 74 | 68 | 41 | 60 |
| 14x14, 64 to 128 | 95 | 93 | 69 | 83 |
| 14x14, 128 to 128, stride 2 | 78 | 86 | 65 | 74 |
| 64x64, 1 to 16 | 6 | 52 | | 17 |
| 64x64, 16 to 16 | 47 | 42 | 45 | 43 |
| 32x32, 32 to 32 | 91 | 68 | 76 | 61 |
| 32x32, 64 to 64, 1x1 | 64 | 163 (two cores) | | |

Other precisions, groups and more than two dimensions never meet XLA's fast case.
"""

import math
from collections.abc import Sequence

import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.windows import Geometry

BLOCK_BYTES = 1 << 20
"""What shifted copies of a few examples may take, so that they are still in a core's cache when they are multiplied."""

NARROW = 16
"""Up to that many channels on both sides a register holds too little: 16 to 16 on 64x64 goes from 48 to 63 in pairs."""

FEW_EXAMPLES = 8
"""Below that many, the examples are too few to be the channels of a convolution that computes a weight gradient."""

STRETCH, PARALLEL = 32, 8
"""Pixels of a row, and examples, whose part of a depthwise weight gradient is computed at a time."""


def convolve_by_xla(x: Array, weight: Array, geometry: Geometry) -> bool:
    """Whether XLA's own convolution beats matrix products."""
    *kernel, inputs, _ = weight.shape
    return _plain(x, geometry) and math.prod(kernel) > 1 and inputs > 1


def in_pairs(x: Array, weight: Array, geometry: Geometry) -> bool:
    """Whether XLA's convolution is faster computing two neighbouring outputs at once: few channels on both sides."""
    *kernel, inputs, outputs = weight.shape
    width = geometry.sizes(x.shape[1:-1], kernel)[-1]
    steps_by_one = geometry.stride[-1] == geometry.dilation[-1] == 1
    return steps_by_one and kernel[-1] > 1 and width % 2 == 0 and max(inputs, outputs) <= NARROW


def weigh_by_xla(x: Array, geometry: Geometry, kernel: Sequence[int]) -> bool:
    """Whether XLA's own convolution, of the input with the cotangent, beats matrix products as a weight gradient."""
    stepping = any(stride > 1 for stride in geometry.stride)
    return _plain(x, geometry) and math.prod(kernel) > 1 and not stepping and x.shape[0] >= FEW_EXAMPLES


def weigh_exchanged(x: Array, cotangent: Array) -> bool:
    """Whether that convolution is faster of the cotangent with the input: not between few channels."""
    return max(x.shape[-1], cotangent.shape[-1]) > NARROW


def block(batch: int, bytes_per_example: int) -> int:
    """How many examples are multiplied at a time."""
    return max(1, min(batch, BLOCK_BYTES // bytes_per_example))


def _plain(x: Array, geometry: Geometry) -> bool:
    return x.dtype == jnp.float32 and geometry.groups == 1 and len(geometry.stride) <= 2


__all__ = ["PARALLEL", "STRETCH", "block", "convolve_by_xla", "in_pairs", "weigh_by_xla", "weigh_exchanged"]
