"""The lowest layer: types, errors, settings, registries, random keys, tree arithmetic, formatting, pictures as data.

Only `errors` and the registry are loaded at once. The rest needs NumPy or JAX and is loaded when first touched, so
that the command line can refuse a setting or list names without paying for them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from chainrule.core import errors
from chainrule.core.registry import Registry

_LAZY = ("pictures", "random", "tree", "types")

__all__ = ["Registry", "errors", "pictures", "random", "tree", "types"]

if TYPE_CHECKING:
    from chainrule.core import pictures, random, tree, types


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'chainrule.core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
