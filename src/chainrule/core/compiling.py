"""How programs for a CPU are compiled.

XLA's library for small operations on CPUs (YNNPACK) runs sums and matrix products faster than XLA's own code, and
convolutions on one core only: with two cores XLA's own convolution takes about half the time. So the library is given
the former and not the latter, which makes training steps of convolutional networks 1.3 to 1.5 times as fast. The choice
belongs to a whole program, so it is made where one is compiled.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"
_SUMS_AND_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"


@functools.cache
def compiler_options() -> dict[str, str | bool]:
    """Options for `jax.jit(...).lower(...).compile(...)`: none on a GPU, or where this version of XLA lacks them."""
    if jax.default_backend() != "cpu":
        return {}
    wanted: dict[str, str | bool] = {_LIBRARY: _SUMS_AND_PRODUCTS}
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=wanted)
    except jax.errors.JaxRuntimeError as error:
        # The option is experimental: an XLA that has dropped it says so by its name. Anything else is a fault.
        if _LIBRARY not in str(error):
            raise
        return {}
    return wanted


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
    recording = isinstance(jnp.zeros(()), jax.core.Tracer)  # then even a constant is one
    if recording:
        return function
    quickly = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    jit: Callable[..., Callable[..., Any]] = eqx.filter_jit
    return jit(function, compiler_options=quickly)


__all__ = ["compiled", "compiler_options", "once"]
