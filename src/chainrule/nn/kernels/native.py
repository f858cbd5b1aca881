"""Weight gradients of convolutions in the machine's own instructions.

XLA has no fast program for the sum over pixels `Σ_p x[p + offset, i] dy[p, o]`: its convolution splits long sums badly
over cores, and matrix products need copies of shifted inputs that cost as much as the products. This sum is easy,
though: a block of `inputs x outputs` sums stays in registers while pixels stream by, one fused multiply-add per sum and
pixel. The program is written as LLVM text for the shapes at hand, compiled by llvmlite (which Numba brings along) and
called by XLA through its foreign function interface, on XLA's own threads.

The batch is cut into shares, each with sums of its own, and whichever thread is free takes the next one, so the result
does not depend on who was. The calling thread works too and never waits for a thread that has not started, so nothing
depends on how many there are.
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
from chainrule.nn.kernels.assembly import Block, Machine, Problem, program
from chainrule.nn.kernels.geometry import Geometry

THREADS = min(16, os.cpu_count() or 1)
"""How many threads take part."""
LARGE = 1 << 18
"""Above that many weights there is one share for each thread, otherwise two, which even out better."""
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


def applies(x: Array, cotangent: Array, geometry: Geometry) -> bool:
    """Whether there is such a program: two dimensions, single precision, no groups, outputs that fill registers."""
    found = machine()
    return (
        found is not None
        and x.dtype == cotangent.dtype == jnp.float32
        and len(geometry.stride) == 2
        and geometry.groups == 1
        and Block.of(x.shape[-1], cotangent.shape[-1], found) is not None
    )


def weight_gradient(x: Array, cotangent: Array, geometry: Geometry, kernel: tuple[int, int]) -> Array:
    """(batch, *space, inputs) and (batch, *sizes, outputs) to (*kernel, inputs, outputs)."""
    batch, height, width, inputs = x.shape
    (top, _), (left, _) = geometry.padding
    problem = Problem(
        batch=batch,
        space=(height, width),
        sizes=(cotangent.shape[1], cotangent.shape[2]),
        kernel=kernel,
        stride=(geometry.stride[0], geometry.stride[1]),
        dilation=(geometry.dilation[0], geometry.dilation[1]),
        before=(top, left),
        inputs=inputs,
        outputs=cotangent.shape[-1],
    )
    shares = _shares(problem)
    _register(problem)
    shape = (*kernel, inputs, problem.outputs)
    results = [jax.ShapeDtypeStruct(size, jnp.float32) for size in (shape, (shares - 1, *shape))]
    out, _ = jax.ffi.ffi_call(problem.name, results)(x, cotangent)  # the second is room to work in
    return out


def _shares(problem: Problem) -> int:
    weights = problem.kernel[0] * problem.kernel[1] * problem.inputs * problem.outputs
    return min(problem.batch, THREADS if weights > LARGE else 2 * THREADS)


@functools.cache
def _register(problem: Problem) -> None:
    """Compile the program and tell XLA its name."""
    import llvmlite.binding as llvm

    found = machine()
    assert found is not None
    block = Block.of(problem.inputs, problem.outputs, found)
    assert block is not None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(program(problem, found, block, _shares(problem), THREADS - 1, CACHE_BYTES))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, host)
    engine.finalize_object()
    _programs[problem.name] = engine
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    target = capsule(engine.get_function_address("handler"), b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target(problem.name, target, platform="cpu")


__all__ = ["applies", "machine", "weight_gradient"]
