"""Derivatives of any function: products, dense Jacobians and Hessians, dual numbers, graphs, memory, higher order.

Names are loaded the first time they are used.
"""

import importlib
from typing import Any

_HOMES = {
    "dense.products": ("gradient", "jvp", "linearize", "vjp"),
    "dense.jacobians": ("jacobian", "jacobian_blocks"),
    "dense.hessians": ("STRATEGIES", "hessian", "hvp", "lagrangian_hessian", "mixed", "quadratic"),
    "dense.comparison": ("Comparison", "compare_hessian"),
    "dual_numbers.dual": ("Dual",),
    "dual_numbers.dual_mode": ("HyperDual", "derivative", "hyperdual", "lift"),
    "dense.checking": ("CheckReport", "DerivativeError", "check"),
    "memory_budget": ("MemoryBudgetError",),
    "report": ("Report",),
    "computation_graph": ("Edge", "Graph", "Node", "graph"),
    "gradient_tape": ("Tape", "tape"),
    "source_transformation": ("Program", "program"),
    "memory_timeline": ("Timeline", "memory", "peak_bytes"),
    "checkpointing": ("Chain", "Plan", "Repeat", "checkpoint", "plan"),
    "computation_graph.nonfinite": ("NanTrace", "nan_trace"),
    "dense.taylor_mode": ("biharmonic", "laplacian", "mixed_partial", "taylor"),
    "dense.per_sample": ("clipped_sum", "per_sample_gradient", "per_sample_norms"),
    "matrix_free.curvature": ("fisher_product", "gauss_newton_product"),
    "matrix_free.estimators": (
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
