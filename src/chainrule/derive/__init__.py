"""Derivatives of any function: products, dense Jacobians and Hessians, dual numbers, graphs, memory, higher order.

Names are loaded the first time they are used.
"""

import importlib
from typing import Any

_HOMES = {
    "products": ("gradient", "jvp", "linearize", "vjp"),
    "jacobians": ("jacobian", "jacobian_blocks"),
    "hessians": ("STRATEGIES", "hessian", "hvp", "lagrangian_hessian", "mixed", "quadratic"),
    "compare": ("Comparison", "compare_hessian"),
    "dual": ("Dual",),
    "dual_mode": ("HyperDual", "derivative", "hyperdual", "lift"),
    "checks": ("CheckReport", "DerivativeError", "check"),
    "budget": ("MemoryBudgetError",),
    "report": ("Report",),
    "graphs": ("Edge", "Graph", "Node", "graph"),
    "tapes": ("Tape", "tape"),
    "programs": ("Program", "program"),
    "liveness": ("Timeline", "memory", "peak_bytes"),
    "checkpointing": ("Chain", "Plan", "Repeat", "checkpoint", "plan"),
    "nonfinite": ("NanTrace", "nan_trace"),
    "taylor_mode": ("biharmonic", "laplacian", "mixed_partial", "taylor"),
    "per_sample": ("clipped_sum", "per_sample_gradient", "per_sample_norms"),
    "curvature": ("fisher_product", "gauss_newton_product"),
    "estimate": (
        "Estimate",
        "diagonal",
        "divergence",
        "lanczos",
        "log_determinant",
        "spectral_density",
        "top_eigenpairs",
        "trace",
    ),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_NAMES, "implicit", "sparse"])


def __getattr__(name: str) -> Any:
    if name in ("implicit", "sparse"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chainrule.derive' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
