"""Convolutions and their weight gradients in the machine's own instructions.

XLA has no fast program for the weight gradient `Σ_p x[p + offset, i] dy[p, o]`: its convolution splits long sums badly
over cores, and matrix products need copies of shifted inputs that cost as much as the products. Its convolution itself
is fast with many channels and not with few. Both are easy in registers: a block of results stays there while pixels, or
entries of the kernel, stream by, one fused multiply-add each. The programs are written as LLVM text for the shapes at
hand, compiled by llvmlite (which Numba brings along) in a few hundredths of a second and called by XLA through its
foreign function interface, on XLA's own threads. Rates of two cores in GFLOP/s, 3x3 kernels, against the best program
for XLA (`chainrule.nn.convolution.selection`):

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

import ctypes
import functools
import os
import platform
import sys
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.convolution.geometry import Geometry
from chainrule.nn.native import convolution as convolution_program
from chainrule.nn.native import weight_gradient as weight_gradient_program
from chainrule.nn.native.ffi import Machine, Problem

THREADS = min(16, os.cpu_count() or 1)
"""How many threads take part."""
LARGE = 1 << 18
"""Above that many weights there is one share for each thread, otherwise two, which even out better."""
FEW = 6
"""With fewer sums in registers than that, the processor would wait for each."""
CACHE_BYTES = 1 << 19
"""What a band of rows of input and cotangent may take, so that it stays in a core's cache for all offsets."""

_programs: dict[str, Any] = {}
"""The compiled programs, which must live as long as the process."""


@functools.cache
def machine() -> Machine | None:
    """This processor, or `None` where no such programs are written for it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return Machine(lanes=16, registers=32)
    if features.get("avx2") and features.get("fma"):
        return Machine(lanes=8, registers=16)
    return None


def convolves(x: Array, weight: Array, geometry: Geometry) -> bool:
    """Whether there is a program for this convolution: in the plane, single precision, outputs that fill registers."""
    found = machine()
    if (
        found is None or not _plain(x, weight, geometry) or weight.shape[:2] == (1, 1)
    ):  # which is one matrix product
        return False
    tile = _tile(_problem(x, weight, geometry), found)
    return tile is not None and tile.pixels * tile.vectors >= FEW


def weighs(x: Array, cotangent: Array, geometry: Geometry) -> bool:
    """Whether there is a program for this weight gradient."""
    found = machine()
    return (
        found is not None
        and _plain(x, cotangent, geometry)
        and weight_gradient_program.Block.of(x.shape[-1], cotangent.shape[-1], found) is not None
    )


def convolution(x: Array, weight: Array, geometry: Geometry) -> Array:
    """(batch, *space, inputs) and (*kernel, inputs, outputs) to (batch, *sizes, outputs)."""
    problem = _problem(x, weight, geometry)
    name, together = _convolution(problem)
    result = jax.ShapeDtypeStruct((problem.batch, *problem.sizes, problem.outputs), jnp.float32)
    in_order = weight.reshape(*weight.shape[:-1], -1, together).transpose(3, 0, 1, 2, 4)
    out: Array = jax.ffi.ffi_call(name, result)(x, in_order)
    return out


def weight_gradient(x: Array, cotangent: Array, geometry: Geometry, kernel: tuple[int, int]) -> Array:
    """(batch, *space, inputs) and (batch, *sizes, outputs) to (*kernel, inputs, outputs)."""
    shape = (*kernel, x.shape[-1], cotangent.shape[-1])
    problem = _problem(x, jax.ShapeDtypeStruct(shape, jnp.float32), geometry)
    name = _weight_gradient(problem)
    results = [jax.ShapeDtypeStruct(s, jnp.float32) for s in (shape, (_shares(problem) - 1, *shape))]
    out, _ = jax.ffi.ffi_call(name, results)(x, cotangent)  # the second is room to work in
    return out


def _plain(x: Array, other: Array, geometry: Geometry) -> bool:
    return x.dtype == other.dtype == jnp.float32 and len(geometry.stride) == 2 and geometry.groups == 1


def _problem(x: Array, weight: Any, geometry: Geometry) -> Problem:
    batch, height, width, inputs = x.shape
    rows, columns = weight.shape[:2]
    (top, _), (left, _) = geometry.padding
    high, wide = geometry.sizes((height, width), (rows, columns))
    return Problem(
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


def _tile(problem: Problem, found: Machine) -> convolution_program.Tile | None:
    return convolution_program.Tile.of(problem.sizes[1], problem.outputs, found)


def _shares(problem: Problem) -> int:
    weights = problem.kernel[0] * problem.kernel[1] * problem.inputs * problem.outputs
    return min(problem.batch, THREADS if weights > LARGE else 2 * THREADS)


@functools.cache
def _convolution(problem: Problem) -> tuple[str, int]:
    """The name under which XLA knows the program of this convolution, and how many outputs it computes together."""
    found = machine()
    assert found is not None
    tile = _tile(problem, found)
    assert tile is not None
    text = convolution_program.program(problem, found, tile, THREADS - 1, CACHE_BYTES)
    return register(f"chainrule_convolution_{problem.name}", text), tile.vectors * found.lanes


@functools.cache
def _weight_gradient(problem: Problem) -> str:
    """The name under which XLA knows the program of this weight gradient."""
    found = machine()
    assert found is not None
    block = weight_gradient_program.Block.of(problem.inputs, problem.outputs, found)
    assert block is not None
    text = weight_gradient_program.program(problem, found, block, _shares(problem), THREADS - 1, CACHE_BYTES)
    return register(f"chainrule_weight_gradient_{problem.name}", text)


def register(name: str, text: str) -> str:
    """Compile a program and tell XLA its name."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, host)
    engine.finalize_object()
    _programs[name] = engine
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    target = capsule(engine.get_function_address("handler"), b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target(name, target, platform="cpu")
    return name


__all__ = ["THREADS", "convolution", "convolves", "machine", "register", "weighs", "weight_gradient"]
