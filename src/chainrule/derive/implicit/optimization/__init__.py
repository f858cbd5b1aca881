"""Linear, quadratic and nonlinear programs whose solutions can be differentiated.

Names are loaded the first time they are used.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "failures": ("InfeasibleError", "UnboundedError"),
        "linear": ("linear_program",),
        "nonlinear": ("NonlinearProgram", "nonlinear_program"),
        "drawing": ("draw_program",),
        "quadratic": ("quadratic_program",),
        "results": (
            "LinearSolution",
            "NonlinearSolution",
            "QuadraticSolution",
            "Ray",
            "ProgramStats",
            "Status",
        ),
    },
)

__all__ = _LAZY.names


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
