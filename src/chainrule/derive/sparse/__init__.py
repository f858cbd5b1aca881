"""Sparse derivatives: find the pattern, colour it, compress, decompress.

Names are loaded the first time they are used.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
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
        "tensors": ("SparseTensor", "second", "third"),
        "report": ("SparseReport",),
        "storage": ("StorageError", "load"),
    },
)

__all__ = _LAZY.names


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
