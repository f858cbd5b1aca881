"""Linear, quadratic and nonlinear programs whose solutions can be differentiated.

Names are loaded the first time they are used.
"""

import importlib
from typing import Any

_HOMES = {
    "failures": ("InfeasibleError", "UnboundedError"),
    "linear": ("linear_program",),
    "nonlinear": ("NonlinearProgram", "nonlinear_program"),
    "drawing": ("draw_program",),
    "quadratic": ("quadratic_program",),
    "results": ("LinearSolution", "NonlinearSolution", "QuadraticSolution", "Ray", "ProgramStats", "Status"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chainrule.derive.implicit.optimization' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
