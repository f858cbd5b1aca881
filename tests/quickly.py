"""Fewer and cheaper programs for a suite in which nearly every shape is a new one.

Outside of compilation JAX compiles every operation for every shape, and that takes longer than most tests compute. A
third of these programs only move values; NumPy moves them without compiling, to the same result. Before a program is
lowered JAX sets up a context, which programs may share.

Both replace private parts of JAX, so `conftest.py` asks for them only where it knows the version, and not when programs
are to be compiled as users do.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lax import lax, slicing

_PROGRAMS_OF_A_CONTEXT = 200


def share_contexts() -> None:
    """Lower one program after the other in one context.

    It keeps every constant it has seen and is therefore renewed now and then; what is lowered while something else is
    being lowered needs its own.
    """
    new = mlir.make_ir_context
    shared = threading.local()

    def context() -> Any:
        if mlir.ir.Context.current is not None:
            return new()
        if getattr(shared, "uses", _PROGRAMS_OF_A_CONTEXT) >= _PROGRAMS_OF_A_CONTEXT:
            shared.context, shared.uses = new(), 0
        shared.uses += 1
        return shared.context

    mlir.make_ir_context = context


def compile_well(patch: pytest.MonkeyPatch) -> None:
    """Compile new programs as users do, whatever the process was told."""
    quick = compiler.get_compile_options
    well = {
        "xla_backend_optimization_level": 3,
        "xla_llvm_disable_expensive_passes": False,
        "xla_cpu_use_fusion_emitters": True,
    }

    def options(*args: Any, env_options_overrides: Any = None, **how: Any) -> Any:
        return quick(*args, env_options_overrides={**well, **(env_options_overrides or {})}, **how)

    patch.setattr(compiler, "get_compile_options", options)


def move_on_the_host() -> None:
    """Let NumPy do the operations that only move values."""
    for primitive, moved in (
        (lax.stage_p, lambda x: x),
        (lax.copy_p, lambda x: x),
        (lax.convert_element_type_p, _converted),
        (lax.broadcast_in_dim_p, _broadcast),
        (lax.reshape_p, _reshaped),
        (lax.squeeze_p, lambda x, dimensions: np.squeeze(x, dimensions)),
        (lax.transpose_p, lambda x, permutation: x.transpose(permutation)),
        (lax.concatenate_p, lambda *xs, dimension: np.concatenate(xs, dimension)),
        (lax.iota_p, _iota),
        (slicing.slice_p, _slice),
        (slicing.dynamic_slice_p, _dynamic_slice),
    ):
        primitive.def_impl(_on_the_host(primitive.impl, moved))


def _on_the_host(compiled: Callable[..., Any], moved: Callable[..., Any]) -> Callable[..., Any]:
    def impl(*operands: Any, **how: Any) -> Any:
        if all(map(_plain, operands)):
            found = moved(*map(_values, operands), **how)
            if found is not None:
                return jax.device_put(np.array(found))  # a copy: what was given may be donated next
        return compiled(*operands, **how)

    return impl


def _plain(x: Any) -> bool:
    """Whether all there is to say about an operand are its values and their type."""
    if type(x) is np.ndarray:
        return True
    return (
        isinstance(x, jax.Array)
        and not isinstance(x, jax.core.Tracer)
        and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended)
        and not (x.weak_type or x.committed or x.is_deleted())
    )


def _values(x: Any) -> np.ndarray:
    """The values, by way of an object that is soon gone: an array that remembers them could not be donated any more."""
    return np.asarray(x.addressable_data(0) if isinstance(x, jax.Array) else x)


def _converted(x: np.ndarray, *, new_dtype: Any, weak_type: bool, sharding: Any) -> np.ndarray | None:
    """Only what stays as it is; rounding is arithmetic."""
    return x if x.dtype == new_dtype and not weak_type and sharding is None else None


def _broadcast(x: np.ndarray, *, shape: Any, broadcast_dimensions: Any, sharding: Any) -> np.ndarray | None:
    if sharding is not None:
        return None
    sizes = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[axis] = size
    return np.broadcast_to(x.reshape(sizes), shape)


def _reshaped(x: np.ndarray, *, new_sizes: Any, dimensions: Any, sharding: Any) -> np.ndarray | None:
    return x.reshape(new_sizes) if dimensions is None and sharding is None else None


def _iota(*, dtype: Any, shape: Any, dimension: int, sharding: Any) -> np.ndarray | None:
    if sharding is not None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return None
    sizes = [size if axis == dimension else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(np.arange(math.prod(sizes)).astype(dtype).reshape(sizes), shape)


def _slice(x: np.ndarray, *, start_indices: Any, limit_indices: Any, strides: Any) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _dynamic_slice(x: np.ndarray, *starts: np.ndarray, slice_sizes: Any) -> np.ndarray:
    """A slice that would end outside is moved inside."""
    begins = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, x.shape, slice_sizes, strict=True)]
    return x[tuple(slice(b, b + size) for b, size in zip(begins, slice_sizes, strict=True))]
