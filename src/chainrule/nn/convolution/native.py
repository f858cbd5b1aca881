"""Convolutions and their weight gradients in native code.

XLA has no fast program for the weight gradient `Σ_p x[p + offset, i] dy[p, o]`: its convolution splits long sums badly
over cores, and matrix products need copies of shifted inputs that cost as much as the products. Its convolution itself
is fast with many channels and not with few. Both are easy in registers: a block of results stays there while pixels, or
entries of the kernel, stream by, one fused multiply-add each. The programs are written as LLVM text for the shapes at
hand (`chainrule.nn.native`). Rates of two cores in GFLOP/s, 3x3 kernels, against the best program for XLA
(`chainrule.nn.convolution.selection`):

| input, channels | convolution, here | by XLA | weight gradient, here | by XLA |
|---|---|---|---|---|
| 28x28, 32 to 64 | 185 | 197 | 217 | 115 |
| 28x28, 64 to 64, stride 2 | 193 | 194 | 204 | 75 |
| 14x14, 64 to 128 | 212 | 196 | 236 | 114 |
| 14x14, 128 to 128, stride 2 | 207 | 156 | 214 | 117 |
| 64x64, 16 to 16 | 174 | 141 | 204 | 67 |
| 32x32, 32 to 32 | 202 | 169 | 220 | 97 |
| 32x32, 3 to 16 | 71 | 30 | 155 | 33 |
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.native import availability
from chainrule.nn.native import convolution as convolution_program
from chainrule.nn.native import weight_gradient as weight_gradient_program
from chainrule.nn.native.availability import THREADS, Registers
from chainrule.nn.native.compiler import register
from chainrule.nn.native.convolution import ConvolutionShape, Tile
from chainrule.nn.native.weight_gradient import GradientTile
from chainrule.nn.windows import Geometry

LARGE = 1 << 18
"""Above that many weights there is one share for each thread, otherwise two, which even out better."""
FEW = 6
"""With fewer sums in registers than that, the processor would wait for each."""
WIDE = 16 * 16
"""Between more channels than that (inputs times outputs) XLA's convolution is faster with registers of 8 numbers."""
CACHE_BYTES = 1 << 19
"""What a band of rows of input and cotangent may take, so that it stays in a core's cache for all offsets."""


def convolves(x: Array, weight: Array, geometry: Geometry) -> bool:
    """Whether a program of ours is the fastest: in the plane, single precision, outputs that fill registers."""
    registers = availability.registers()
    if registers is None or not _plain(x, weight, geometry):
        return False
    rows, columns, inputs, outputs = weight.shape
    if rows * columns == 1 or (registers.lanes == 8 and inputs * outputs > WIDE):
        return False
    tile = _tile(_shape(x, weight, geometry), registers)
    return tile is not None and tile.pixels * tile.vectors >= FEW


def weighs(x: Array, cotangent: Array, geometry: Geometry) -> bool:
    """Whether there is a program for this weight gradient."""
    registers = availability.registers()
    return (
        registers is not None
        and _plain(x, cotangent, geometry)
        and GradientTile.of(x.shape[-1], cotangent.shape[-1], registers) is not None
    )


def convolution(x: Array, weight: Array, geometry: Geometry) -> Array:
    """(batch, *space, inputs) and (*kernel, inputs, outputs) to (batch, *sizes, outputs)."""
    registers = availability.registers()
    assert registers is not None
    shape = _shape(x, weight, geometry)
    name, together = _convolution(shape, registers)
    result = jax.ShapeDtypeStruct((shape.batch, *shape.sizes, shape.outputs), jnp.float32)
    in_order = weight.reshape(*weight.shape[:-1], -1, together).transpose(3, 0, 1, 2, 4)
    out: Array = jax.ffi.ffi_call(name, result)(x, in_order)
    return out


def weight_gradient(x: Array, cotangent: Array, geometry: Geometry, kernel: tuple[int, int]) -> Array:
    """(batch, *space, inputs) and (batch, *sizes, outputs) to (*kernel, inputs, outputs)."""
    registers = availability.registers()
    assert registers is not None
    weights = (*kernel, x.shape[-1], cotangent.shape[-1])
    shape = _shape(x, jax.ShapeDtypeStruct(weights, jnp.float32), geometry)
    name = _weight_gradient(shape, registers)
    results = [jax.ShapeDtypeStruct(s, jnp.float32) for s in (weights, (_shares(shape) - 1, *weights))]
    out, _ = jax.ffi.ffi_call(name, results)(x, cotangent)  # the second is room to work in
    return out


def _plain(x: Array, other: Array, geometry: Geometry) -> bool:
    return x.dtype == other.dtype == jnp.float32 and len(geometry.stride) == 2 and geometry.groups == 1


def _shape(x: Array, weight: Any, geometry: Geometry) -> ConvolutionShape:
    batch, height, width, inputs = x.shape
    rows, columns = weight.shape[:2]
    (top, _), (left, _) = geometry.padding
    high, wide = geometry.sizes((height, width), (rows, columns))
    return ConvolutionShape(
        batch=batch,
        space=(height, width),
        sizes=(high, wide),
        kernel=(rows, columns),
        stride=(geometry.stride[0], geometry.stride[1]),
        dilation=(geometry.dilation[0], geometry.dilation[1]),
        before=(top, left),
        inputs=inputs,
        outputs=weight.shape[-1],
    )


def _tile(shape: ConvolutionShape, registers: Registers) -> Tile | None:
    return Tile.of(shape.sizes[1], shape.outputs, registers)


def _shares(shape: ConvolutionShape) -> int:
    weights = shape.kernel[0] * shape.kernel[1] * shape.inputs * shape.outputs
    return min(shape.batch, THREADS if weights > LARGE else 2 * THREADS)


@functools.cache
def _convolution(shape: ConvolutionShape, registers: Registers) -> tuple[str, int]:
    """The name under which XLA knows the program of this convolution, and how many outputs it computes together."""
    tile = _tile(shape, registers)
    assert tile is not None
    text = convolution_program.program(shape, registers, tile, THREADS - 1, CACHE_BYTES)
    name = register(f"chainrule_convolution_{registers.lanes}_{shape.name}", text)
    return name, tile.vectors * registers.lanes


@functools.cache
def _weight_gradient(shape: ConvolutionShape, registers: Registers) -> str:
    """The name under which XLA knows the program of this weight gradient."""
    tile = GradientTile.of(shape.inputs, shape.outputs, registers)
    assert tile is not None
    text = weight_gradient_program.program(shape, registers, tile, _shares(shape), THREADS - 1, CACHE_BYTES)
    return register(f"chainrule_weight_gradient_{registers.lanes}_{shape.name}", text)


__all__ = ["convolution", "convolves", "weighs", "weight_gradient"]
