"""The report of a derivative: mode or strategy, batch size, and the costs that were compared."""

from dataclasses import asdict, dataclass, field
from typing import Any, final

from chainrule.core import notebook
from chainrule.core.formatting import memory_size


@final
@dataclass(frozen=True)
class Report:
    """How a Jacobian or Hessian was, or will be, computed."""

    what: str
    inputs: int
    outputs: int
    mode: str
    """Mode or strategy."""
    chunk: int
    """Directions per batch."""
    products: int
    """Products (or second-order runs) in all."""
    reason: str
    flops: dict[str, float] = field(default_factory=dict)
    """Operations of each mode or strategy that was considered, by the compiler's count."""
    output_bytes: int = 0
    peak_bytes: int | None = None
    """Result and scratch memory of the compiled program, by the compiler's own analysis."""
    budget_bytes: int | None = None
    compiled: bool = True
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by phase: planning (with compilation), the first call."""

    def __str__(self) -> str:
        lines = [
            f"{self.what} of {self.inputs:,} inputs and {self.outputs:,} outputs",
            f"  mode      {self.mode}: {self.reason}",
            f"  products  {self.products:,} in batches of {self.chunk:,}",
        ]
        if self.flops:
            costs = ", ".join(f"{name} {value:.3g}" for name, value in self.flops.items())
            lines.append(f"  flops     {costs}")
        memory = f"result {memory_size(self.output_bytes)}"
        if self.peak_bytes is not None:
            memory += f", peak {memory_size(self.peak_bytes)}"
        if self.budget_bytes is not None:
            memory += f", budget {memory_size(self.budget_bytes)}"
        lines.append(f"  memory    {memory}")
        if self.seconds:
            lines.append(
                "  seconds   " + ", ".join(f"{name} {value:.3g}" for name, value in self.seconds.items())
            )
        lines += [f"  note      {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return notebook.text(self)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


__all__ = ["Report"]
