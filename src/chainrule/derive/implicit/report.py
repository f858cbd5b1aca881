"""The report of a solution: how it was found, what was checked, and what its derivatives share."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from chainrule.core import notebook
from chainrule.core.formatting import memory_size
from chainrule.derive import validation


@final
@dataclass(frozen=True)
class SolutionReport:
    """How a solution was found and what was checked there; of a batch, the worst numbers of all its solutions."""

    what: str
    unknowns: int
    solutions: int
    """How many there are: 1 unless the solve was batched."""
    failed: int
    """How many of them are none, or have no derivative that could be vouched for."""
    condition: str
    """What is violated, in words, of the first that failed."""
    steps: int | None
    """Of our solver; `None` for the user's."""
    factorisations: int
    checks: Mapping[str, float]
    """The numbers that were compared with their limits."""
    linear: str = ""
    """How derivatives solve with the matrix A."""
    factor_bytes: int | None = None
    """What all derivatives of one solution share, where it is at hand."""

    def __str__(self) -> str:
        several = f", {self.solutions:,} solutions" if self.solutions != 1 else ""
        worst = "at most " if self.solutions != 1 else ""
        found = "by the given solver" if self.steps is None else f"in {worst}{_counted(self.steps, 'step')}"
        lines = [
            f"{self.what} of {_counted(self.unknowns, 'unknown')}{several}",
            f"  found     {found}, {worst}{_counted(self.factorisations, 'factorisation')}",
        ]
        if self.linear:
            shared = "" if self.factor_bytes is None else f", factor {memory_size(self.factor_bytes)}"
            lines.append(f"  linear    {self.linear}{shared}")
        known = {name: value for name, value in self.checks.items() if not np.isnan(value)}
        lines.append("  checked   " + ", ".join(f"{name} {value:.3g}" for name, value in known.items()))
        if self.failed:
            lines.append(f"  failed    {self.failed:,} of {self.solutions:,}: {self.condition}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return notebook.text(self)

    def to_json(self) -> dict[str, Any]:
        """Plain values; what was not measured is None."""
        checks = {name: None if np.isnan(value) else value for name, value in self.checks.items()}
        return {**asdict(self), "checks": checks}


def _counted(amount: int, thing: str) -> str:
    return f"{amount:,} {thing}{'' if amount == 1 else 's'}"


def largest(where: str, numbers: Any) -> float:
    """The largest of some numbers (NaN if none is known), outside of compiled code."""
    validation.numbers(where, numbers, "the solution")
    known = np.asarray(numbers, np.float64).reshape(-1)
    known = known[~np.isnan(known)]
    return float(known.max()) if known.size else float("nan")


def first_failure(where: str, codes: Any) -> tuple[int, int]:
    """How many codes are not zero, and the first of those (0 if none)."""
    validation.numbers(where, codes, "the solution")
    wrong = np.flatnonzero(np.asarray(codes).reshape(-1))
    return len(wrong), int(np.asarray(codes).reshape(-1)[wrong[0]]) if len(wrong) else 0


__all__ = ["SolutionReport", "first_failure", "largest"]
