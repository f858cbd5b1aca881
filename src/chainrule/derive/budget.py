"""Memory budgets, and what a compiled program of the user's own function costs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.derive.report import bytes_text

BRANCHES = "it branches on values in Python"
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "KI": 1024, "MI": 1024**2, "GI": 1024**3}


class MemoryBudgetError(ArgumentError):
    """A result would be larger than the memory it may use; raised before anything is allocated."""


@final
@dataclass(frozen=True)
class Cost:
    """Operations and scratch memory of a batch of k products: `base + k * each`."""

    base_flops: float
    flops: float
    base_bytes: float
    bytes: float

    def total_flops(self, products: int) -> float:
        """Operations of that many products."""
        return self.base_flops + products * self.flops

    def scratch(self, chunk: int) -> float:
        """Scratch bytes of a batch."""
        return self.base_bytes + chunk * self.bytes

    def largest_chunk(self, budget: float) -> int:
        """The largest batch whose scratch fits; 0 if not even the base does."""
        room = budget - self.base_bytes
        if room <= 0:
            return 0
        return int(room // self.bytes) if self.bytes > 0 else 1 << 62


def parse(where: str, memory: str | int | None) -> int:
    """A budget in bytes: a number, a text such as "2GiB", or a quarter of the memory that is free now.

    >>> parse("jacobian", "1MiB")
    1048576
    """
    if memory is None:
        return free_memory() // 4
    if isinstance(memory, int):
        amount = memory
    else:
        match = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]I?)?B?\s*", memory.upper())
        if not match:
            raise ArgumentError(f'{where}(memory="{memory}"): memory is a number of bytes or a text such as "2GiB"')
        amount = int(float(match[1]) * _UNITS[match[2] or ""])
    if amount < 1:
        raise ArgumentError(f"{where}(memory={memory!r}): memory must be positive")
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
        raise MemoryBudgetError(
            f"{where}: the dense result needs {_spaced(needed)} bytes ({bytes_text(needed)}), "
            f"the budget is {_spaced(budget)} bytes ({bytes_text(budget)})",
            remedy=remedies,
        )
    return needed


def compiled_cost(function: Callable[..., Any], *shapes: Any) -> tuple[float, float]:
    """Operations and scratch bytes of a compiled function, by the compiler's own analysis."""
    compiled = jax.jit(function).lower(*shapes).compile()
    analysis = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    # Transcendental functions cost more than a multiplication; ten is about right on CPU and GPU.
    flops = float(analysis.get("flops", 0.0)) + 10.0 * float(analysis.get("transcendentals", 0.0))
    return flops, float(getattr(memory, "temp_size_in_bytes", 0) or 0)


def batch_cost(batched: Callable[..., Any], x: Any, directions: Callable[[int], tuple[Any, ...]]) -> Cost:
    """Cost of a batched product, from compiling batches of one and of two."""
    flops_1, bytes_1 = compiled_cost(batched, x, *directions(1))
    flops_2, bytes_2 = compiled_cost(batched, x, *directions(2))
    flops, memory = max(flops_2 - flops_1, 0.0), max(bytes_2 - bytes_1, 0.0)
    return Cost(max(flops_1 - flops, 0.0), flops, max(bytes_1 - memory, 0.0), memory)


def traceable(f: Callable[..., Any], *args: Any) -> str:
    """Why `f` cannot be compiled on its own, or an empty string when it can."""
    try:
        closed = jax.make_jaxpr(f)(*args)
    except jax.errors.ConcretizationTypeError:
        return BRANCHES
    if any(isinstance(c, jax.core.Tracer) for c in closed.consts):
        return "it closes over values of an outer transformation"
    return ""


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def struct(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """A shape without numbers."""
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


__all__ = [
    "BRANCHES",
    "Cost",
    "MemoryBudgetError",
    "batch_cost",
    "check_output",
    "compiled_cost",
    "free_memory",
    "parse",
    "struct",
    "traceable",
]
