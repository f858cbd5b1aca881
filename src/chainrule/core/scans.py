"""Scans in a jaxpr, read from their types: the names of their parameters change with JAX's versions."""

from dataclasses import dataclass
from typing import Any, final

from jax.extend.core import ClosedJaxpr


@final
@dataclass(frozen=True)
class ScanParts:
    """How the operands and results of a scan divide: constants, carried state and per-step slices."""

    constants: int
    carried: int
    sliced: int
    stacked: int
    length: int
    reverse: bool


def scan_parts(equation: Any) -> ScanParts:
    """Count the parts of a scan from its types: only sliced and stacked arrays differ from the body's by an axis."""
    body = equation.params["jaxpr"]
    inner = body.jaxpr if isinstance(body, ClosedJaxpr) else body
    sliced = sum(a.aval.shape != b.aval.shape for a, b in zip(equation.invars, inner.invars, strict=True))
    stacked = sum(a.aval.shape != b.aval.shape for a, b in zip(equation.outvars, inner.outvars, strict=True))
    carried = len(equation.outvars) - stacked
    return ScanParts(
        constants=len(equation.invars) - carried - sliced,
        carried=carried,
        sliced=sliced,
        stacked=stacked,
        length=int(equation.params["length"]),
        reverse=bool(equation.params["reverse"]),
    )


__all__ = ["ScanParts", "scan_parts"]
