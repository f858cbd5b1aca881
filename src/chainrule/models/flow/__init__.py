"""Normalizing flows: invertible models with exact densities, draws and codes."""

from typing import Any

from chainrule.core.lazy import LazyNames

_lazy = LazyNames(
    "chainrule.networks.flows",
    {"density_fit": ("DensityFit", "fit_density", "reverse_divergence"), "audit": ("audit",)},
)


def __getattr__(name: str) -> Any:
    return _lazy.load(name)


def __dir__() -> list[str]:
    return [*globals(), *_lazy.names]
