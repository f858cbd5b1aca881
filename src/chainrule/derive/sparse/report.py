"""The report of a sparse derivative: what preparing it found and decided."""

from dataclasses import asdict, dataclass, field
from typing import Any, final

from chainrule.core.formatting import memory_size


@final
@dataclass(frozen=True)
class MemoryUse:
    """What a compiled derivative takes of memory."""

    chunk: int
    """Products that are computed at once."""
    result_bytes: int
    """Of the entries."""
    peak_bytes: int | None
    """Of results and scratch memory, by the compiler's own analysis."""


@final
@dataclass(frozen=True)
class SparseReport:
    """Pattern, colours, choice and time of a prepared sparse derivative."""

    what: str
    shape: tuple[int, int]
    nnz: int
    method: str
    order: str
    products: dict[str, int]
    """Products by kind: "forward", "reverse", or "second-order"."""
    lower_bound: int
    reason: str
    colors: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of colours by method and order, as far as they were tried."""
    depth: int = 0
    """Substitutions one after another, for acyclic colourings."""
    certificate: str = ""
    """What it was compared with; empty if with nothing."""
    chunk: int = 0
    """Products that are computed at once."""
    result_bytes: int = 0
    peak_bytes: int | None = None
    """Result and scratch memory of the compiled program, by the compiler's own analysis."""
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by phase."""

    @property
    def density(self) -> float:
        """Share of entries that may be different from zero."""
        return self.nnz / max(self.shape[0] * self.shape[1], 1)

    def __str__(self) -> str:
        made = " + ".join(f"{count} {kind}" for kind, count in self.products.items()) or "none"
        lines = [
            f"sparse {self.what}, {self.shape[0]:,} x {self.shape[1]:,}",
            f"  pattern   {self.nnz:,} entries, density {self.density:.3g}",
            f"  method    {self.method}, order {self.order}: {self.reason}",
            f"  products  {made} (at least {self.lower_bound} with this method), in batches of {self.chunk}",
        ]
        for method, counts in self.colors.items():
            tried = ", ".join(f"{order} {count}" for order, count in counts.items())
            lines.append(f"  colours   {method}: {tried}")
        if self.depth:
            lines.append(f"  depth     {self.depth} substitutions at most; rounding grows with it")
        peak = "" if self.peak_bytes is None else f", peak {memory_size(self.peak_bytes)}"
        lines.append(f"  memory    entries {memory_size(self.result_bytes)}{peak}")
        lines.append(f"  certified {self.certificate or 'no'}")
        if self.seconds:
            lines.append("  seconds   " + ", ".join(f"{name} {s:.3g}" for name, s in self.seconds.items()))
        lines += [f"  note      {note}" for note in self.notes]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "shape": list(self.shape), "notes": list(self.notes), "density": self.density}


__all__ = ["MemoryUse", "SparseReport"]
