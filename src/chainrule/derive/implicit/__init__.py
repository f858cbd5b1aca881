"""Derivatives of solutions: roots, fixed points, minimisers and programs, from one factorisation.

Names are loaded the first time they are used.
"""

import importlib
from typing import Any

_HOMES = {
    "counting": ("Count", "count"),
    "implicit_function": (
        "Implicit",
        "Solution",
        "Stats",
        "fixed_point",
        "hypergradient",
        "inverse",
        "minimum",
        "root",
    ),
    "tolerances": ("Conditions",),
    "linear": ("LU", "Banded", "Cholesky", "Krylov", "Neumann", "Sparse"),
    "optimization": (
        "InfeasibleError",
        "LinearSolution",
        "NonlinearSolution",
        "QuadraticSolution",
        "Status",
        "UnboundedError",
        "draw_program",
        "linear_program",
        "nonlinear_program",
        "quadratic_program",
    ),
    "solvers": ("LBFGS", "Anderson", "Newton", "Picard"),
    "theorem": ("attach",),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chainrule.derive.implicit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
