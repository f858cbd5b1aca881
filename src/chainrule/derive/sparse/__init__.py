"""Sparse derivatives: find the pattern, colour it, compress, decompress.

Names are loaded the first time they are used.
"""

import importlib
from typing import Any

_HOMES = {
    "coloring": ("METHODS", "ORDERS", "Coloring", "ColoringError", "color"),
    "certificate": ("PatternError",),
    "comparison": ("ColoringComparison", "compare"),
    "detection": (
        "DenseDetectionWarning",
        "Detected",
        "Guard",
        "LocalPatternError",
        "analyse",
        "detect",
        "register",
    ),
    "preparation": ("hessian", "jacobian"),
    "patterns": ("Pattern",),
    "sparse_derivative": ("SparseDerivative",),
    "report": ("SparseReport",),
    "storage": ("StorageError", "load"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chainrule.derive.sparse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
