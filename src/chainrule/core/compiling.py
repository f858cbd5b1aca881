"""Compiler options of whole programs.

XLA's library for small operations on CPUs (YNNPACK) runs sums and matrix products faster than XLA's own code, and
convolutions on one core only: with two cores XLA's own convolution takes about half the time. So the library is given
the former and not the latter, which makes training steps of convolutional networks 1.3 to 1.5 times as fast. The choice
belongs to a whole program, so it is made where one is compiled.

On a GPU matrices are multiplied by NVIDIA's library. XLA also writes such programs itself and takes whichever is faster
when timed alone; in a training step of a transformer its own then turn out slower by three parts in a hundred.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"
_SUMS_AND_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"


_OPTIONS: dict[str, dict[str, str | bool]] = {
    "cpu": {_LIBRARY: _SUMS_AND_PRODUCTS},
    "gpu": {"xla_gpu_enable_triton_gemm": False},
}


@functools.cache
def compiler_options() -> dict[str, str | bool]:
    """Options for `jax.jit(...).lower(...).compile(...)`: none for other devices, or where XLA's version lacks them."""
    wanted = _OPTIONS.get(jax.default_backend(), {})
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=wanted)
    except jax.errors.JaxRuntimeError as error:
        # Such options come and go: an XLA that has dropped one says so by its name. Anything else is a fault.
        if not any(name in str(error) for name in wanted):
            raise
        return {}
    return wanted


def compiled_bytes(program: jax.stages.Compiled) -> int:
    """Bytes that a compiled program takes on its device: arguments, results and all that lies between."""
    used = program.memory_analysis()
    assert used is not None, "this device does not say"
    whole = used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes
    return int(whole - used.alias_size_in_bytes)


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`equinox.filter_jit` with these options, for functions that are not called while others are traced."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return made()(*args, **kwargs)

    @functools.cache
    def made() -> Callable[..., Any]:
        # Only now is a device needed: importing a module does not start one.
        jit: Callable[..., Callable[..., Any]] = eqx.filter_jit
        return jit(function, compiler_options=compiler_options())

    return call  # type: ignore[return-value]


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one program that is compiled quickly instead of well, for work that is done once.

    Drawing the arrays of a network is such work: one by one, each shape would be compiled for itself. While a larger
    program is recorded the function becomes part of that.
    """
    return function if recording() else _quickly(function)


def recording() -> bool:
    """Whether operations are being recorded for a program instead of done."""
    return isinstance(jnp.zeros(()), jax.core.Tracer)  # then even a constant is one


@functools.cache
def _quickly(function: Callable[..., Any]) -> Callable[..., Any]:
    quickly = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    jit: Callable[..., Callable[..., Any]] = eqx.filter_jit
    return jit(function, compiler_options=quickly)


__all__ = ["compiled", "compiled_bytes", "compiler_options", "once", "recording"]
