"""Derivatives of any function: products, dense Jacobians and Hessians, dual numbers, graphs, memory, higher order.

Names are loaded the first time they are used.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "dense.products": ("gradient", "jvp", "linearize", "vjp"),
        "dense.jacobians": ("jacobian", "jacobian_blocks"),
        "dense.hessians": ("STRATEGIES", "hessian", "hvp", "lagrangian_hessian", "mixed", "quadratic", "vhp"),
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
    },
    subpackages=("implicit", "sparse"),
)

__all__ = _LAZY.names


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
