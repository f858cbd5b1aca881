"""Derivatives of solutions: roots, fixed points, minimisers and programs, from one factorisation.

Names are loaded the first time they are used.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "counting": ("Count", "count"),
        "implicit_function": (
            "Implicit",
            "fixed_point",
            "hypergradient",
            "inverse",
            "least_squares",
            "minimum",
            "root",
        ),
        "tolerances": ("Conditions",),
        "linear": ("LU", "Banded", "Cholesky", "Krylov", "Neumann", "Sparse"),
        "linear.lineax_solver": ("LineaxSparse",),
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
        "report": ("SolutionReport",),
        "solution": ("Solution", "Stats"),
        "proximal": ("project_simplex", "projected_gradient", "proximal_gradient", "soft_threshold"),
        "solvers": (
            "LBFGS",
            "Anderson",
            "GaussNewton",
            "LevenbergMarquardt",
            "Nesterov",
            "Newton",
            "Picard",
        ),
        "theorem": ("attach",),
    },
)

__all__ = _LAZY.names


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
