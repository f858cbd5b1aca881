"""The report of a sparse derivative: what preparing it found and decided."""

from dataclasses import asdict, dataclass, field
from typing import Any, final


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
            f"  products  {made} (at least {self.lower_bound} with this method)",
        ]
        for method, counts in self.colors.items():
            tried = ", ".join(f"{order} {count}" for order, count in counts.items())
            lines.append(f"  colours   {method}: {tried}")
        if self.depth:
            lines.append(f"  depth     {self.depth} substitutions at most; rounding grows with it")
        if self.seconds:
            lines.append("  seconds   " + ", ".join(f"{name} {s:.3g}" for name, s in self.seconds.items()))
        lines += [f"  note      {note}" for note in self.notes]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "shape": list(self.shape), "notes": list(self.notes), "density": self.density}


__all__ = ["SparseReport"]
