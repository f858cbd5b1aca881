"""Memory budgets, and the cost of a compiled program."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import memory_size

_TEXT = re.compile(r"(\d+\.?\d*|\.\d+)\s*([KMGT]I?)?B?")
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40}


class MemoryBudgetError(ArgumentError):
    """A result would be larger than the memory it may use; raised before anything is allocated."""


@final
@dataclass(frozen=True)
class CompiledCost:
    """What the compiler says about a program."""

    flops: float
    """Operations; a transcendental function counts as ten. A loop counts once, however often it runs."""
    scratch: int
    """Bytes besides arguments and results."""


def parse(where: str, memory: str | int | None) -> int:
    """A budget in bytes: a number, a text such as "2GiB", or a quarter of the memory that is free now.

    >>> parse("jacobian", "1MiB"), parse("jacobian", "1.5 kB")
    (1048576, 1500)
    """
    if memory is None:
        return free_memory() // 4
    amount = 0
    if isinstance(memory, int) and not isinstance(memory, bool):
        amount = memory
    elif isinstance(memory, str) and (found := _TEXT.fullmatch(memory.strip().upper())):
        amount = int(float(found[1]) * _UNITS[found[2] or ""])
    if amount < 1:
        shown = f'"{memory}"' if isinstance(memory, str) else repr(memory)
        raise ArgumentError(
            f'{where}(memory={shown}): memory is a positive number of bytes or a text such as "2GiB"'
        )
    return amount


def free_memory() -> int:
    """Free bytes of the default device; the machine's available memory on CPU."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"] - stats["bytes_in_use"])
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
        if found:
            return int(found[1]) * 1024
    return 8 << 30  # systems without /proc (macOS, Windows): a cautious guess


def check_output(where: str, entries: int, itemsize: int, budget: int, remedies: str) -> int:
    """Bytes of a dense result, refused before allocation when they exceed the budget."""
    needed = entries * itemsize
    if needed > budget:
        refuse(where, "the dense result", needed, budget, remedies)
    return needed


def refuse(where: str, what: str, needed: int, budget: int, remedies: str) -> NoReturn:
    """Raise because something needs more bytes than the budget."""
    raise MemoryBudgetError(
        f"{where}: {what} needs {_spaced(needed)} bytes ({memory_size(needed)}), "
        f"the budget is {_spaced(budget)} bytes ({memory_size(budget)})",
        remedy=remedies,
    )


def compiled_cost(function: Callable[..., Any], *shapes: Any) -> CompiledCost:
    """The cost of a function compiled for such arguments."""
    return cost_of(jax.jit(function).lower(*shapes).compile())


def cost_of(compiled: Any) -> CompiledCost:
    """The cost of a compiled program, by the compiler's own analysis."""
    analysis = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    # Transcendental functions cost more than a multiplication; ten is about right on CPU and GPU.
    flops = float(analysis.get("flops", 0.0)) + 10.0 * float(analysis.get("transcendentals", 0.0))
    return CompiledCost(flops, int(getattr(memory, "temp_size_in_bytes", 0) or 0))


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def struct(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """A shape without numbers."""
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


__all__ = [
    "CompiledCost",
    "MemoryBudgetError",
    "check_output",
    "compiled_cost",
    "cost_of",
    "free_memory",
    "parse",
    "refuse",
    "struct",
]
