"""Tree search: a readable reference (`reference`) and compiled searches of many trees at once (`fast`)."""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "prior": ("Noise",),
        "reference": ("SearchResult", "search"),
        "fast": ("BatchResult", "search_batch", "search_environment", "search_gumbel"),
        "reuse": ("reroot",),
    },
    ("engine", "fast", "prior", "reference", "reuse", "selection"),
)

__all__ = [*_LAZY.names]


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
