"""Chainrule: exact derivatives and the building blocks of modern machine learning.

The package is imported lazily: `import chainrule` costs milliseconds, and each area (and JAX with it) is loaded
the first time it is touched.

>>> import chainrule as cr
>>> data = cr.data.load("digits")
>>> model = cr.models.build("mlp", data, width=32)
>>> type(model).__name__
'MLP'
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Areas reachable as attributes, and the handful of names that live at the top.
_AREAS = (
    "agents",
    "core",
    "data",
    "derive",
    "explain",
    "information",
    "kernels",
    "models",
    "nn",
    "probability",
    "report",
    "train",
    "transfer",
)
_NAMES = {"fit": "chainrule.api", "Run": "chainrule.api", "summary": "chainrule.api"}

__all__ = [*_AREAS, *_NAMES, "__version__"]

if TYPE_CHECKING:
    from chainrule import (
        agents,
        core,
        data,
        derive,
        explain,
        information,
        kernels,
        models,
        nn,
        probability,
        report,
        train,
        transfer,
    )
    from chainrule.api import Run, fit, summary


def __getattr__(name: str) -> Any:
    if name in _AREAS:
        return importlib.import_module(f"chainrule.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'chainrule' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
