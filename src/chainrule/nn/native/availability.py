"""Availability of native code: the switch, the processor and XLA's interface in one place.

`CHAINRULE_NATIVE=0` switches every native program off; what XLA compiles takes over, which is also what other systems
and processors get. `CHAINRULE_NATIVE=8` and `=16` choose programs for registers of so many single-precision numbers
whatever the processor has: the compiler splits what it does not have, so results are the same and only speed is not.
`chainrule doctor` tells what is used and, if nothing is, why.
"""

import contextlib
import contextvars
import functools
import os
import platform
import sys
from collections.abc import Iterator
from typing import NamedTuple, final

from chainrule.core.errors import ArgumentError
from chainrule.nn.native import interface

SWITCH = "CHAINRULE_NATIVE"
"""The environment variable."""
THREADS = min(16, os.cpu_count() or 1)
"""How many threads take part."""


_left_out: contextvars.ContextVar[bool] = contextvars.ContextVar("native_left_out", default=False)


@final
class Registers(NamedTuple):
    """What the registers of a processor hold."""

    lanes: int
    """Single-precision numbers in one."""
    number: int


WIDTHS = {"8": Registers(8, 16), "16": Registers(16, 32)}
"""Those that programs are written for: AVX2 with FMA, and AVX-512."""
SYSTEMS = ("x86_64", "aarch64")
"""Processors on which programs can run on Linux; where there are no wide registers they are not worth it."""


@final
class Availability(NamedTuple):
    """The registers that programs are written for, or why there are no programs."""

    registers: Registers | None
    reason: str
    """Empty if there are programs."""


def registers() -> Registers | None:
    """The registers that native programs are written for; `None` where none are used."""
    return availability().registers


def availability() -> Availability:
    """What is used, and why; found out once for each value of the switch."""
    return _availability("0" if left_out() else os.environ.get(SWITCH, ""))


def left_out() -> bool:
    """Whether what is being traced is to consist of JAX's own operations."""
    return _left_out.get()


@contextlib.contextmanager
def without_native() -> Iterator[None]:
    """What is traced inside consists of JAX's operations alone, for those who read programs instead of running them."""
    before = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(before)


@functools.cache
def _availability(switch: str) -> Availability:
    if switch not in ("", "0", "1", *WIDTHS):
        raise ArgumentError(
            f"{SWITCH}={switch}: it must be 0 (no native code), 1 (what fits the processor), 8 or 16 (lanes)",
            remedy=f"unset {SWITCH}",
        )
    if switch == "0":
        return Availability(None, f"switched off by {SWITCH}=0")
    if sys.platform != "linux" or platform.machine() not in SYSTEMS:
        return Availability(None, f"none is written for {platform.system()} on {platform.machine()}")
    found = WIDTHS.get(switch) or _processor()
    if found is None:
        return Availability(None, "the processor has neither AVX-512 nor AVX2 with FMA")
    refusal = interface.refusal() or _registration()
    return Availability(None if refusal else found, refusal)


def _processor() -> Registers | None:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return WIDTHS["16"]
    if features.get("avx2") and features.get("fma"):
        return WIDTHS["8"]
    return None


@functools.cache
def _registration() -> str:
    """What XLA says against a program of the stated version; it supports the last few."""
    from chainrule.nn.native.compiler import register
    from chainrule.nn.native.ffi import no_work

    try:
        register("chainrule_nothing", no_work())
    except Exception as error:  # which kind is up to jaxlib
        return f"XLA refuses native programs: {str(error).splitlines()[0]}"
    return ""


__all__ = [
    "SWITCH",
    "THREADS",
    "WIDTHS",
    "Availability",
    "Registers",
    "availability",
    "left_out",
    "registers",
    "without_native",
]
