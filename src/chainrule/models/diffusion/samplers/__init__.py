"""Samplers by name: each is one step in a file of this folder, and the file is the registration.

A new sampler is a new file with a frozen dataclass that is a `NamedSampler`; the loop and its rules are in `base`.
"""

import importlib
import inspect
import pkgutil
from typing import Any, TypeGuard

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.models.diffusion.samplers.ancestral import Ancestral
from chainrule.models.diffusion.samplers.ddim import DDIM
from chainrule.models.diffusion.samplers.dormand_prince import DormandPrince
from chainrule.models.diffusion.samplers.dpm_solver import DPMSolver
from chainrule.models.diffusion.samplers.dpm_solver_2s import DPMSolver2S
from chainrule.models.diffusion.samplers.dpm_solver_3m import DPMSolver3M
from chainrule.models.diffusion.samplers.dpm_solver_sde import DPMSolverSDE
from chainrule.models.diffusion.samplers.euler_ancestral import EulerAncestral
from chainrule.models.diffusion.samplers.gradient_estimation import GradientEstimation
from chainrule.models.diffusion.samplers.heun import Heun
from chainrule.models.diffusion.samplers.langevin import AnnealedLangevin
from chainrule.models.diffusion.samplers.reverse_sde import ReverseSDE
from chainrule.models.diffusion.samplers.runge_kutta import RungeKutta
from chainrule.models.diffusion.samplers.sampler import (
    CLIPS,
    Drawn,
    NamedSampler,
    Sampler,
    Span,
    Transition,
    options_of,
    walk,
)
from chainrule.models.diffusion.samplers.sigma_family import SigmaFamily, implied_eta
from chainrule.models.diffusion.samplers.unipc import UniPC
from chainrule.models.diffusion.samplers.watched import Callback, SamplerStep, WatchedSampler, on_host

samplers: Registry[type[NamedSampler]] = Registry("sampler")
"""Every sampler by its name: those of the files in this folder, and those that users add."""


def discover() -> None:
    """Register the named samplers of all files of this folder that are not registered yet."""
    for module in pkgutil.iter_modules(__path__):
        for thing in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if _is_sampler(thing) and thing.name not in samplers:
                samplers.add(thing.name, thing)


def _is_sampler(thing: object) -> TypeGuard[type[NamedSampler]]:
    return isinstance(thing, type) and issubclass(thing, NamedSampler) and not inspect.isabstract(thing)


def sampler(name: str, **options: Any) -> NamedSampler:
    """A sampler by its name, with options of its own.

    >>> sampler("ddim", eta=1.0)
    DDIM(eta=1.0)
    >>> sampler("dpm-solver", eta=1.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: sampler 'dpm-solver' does not take eta
           it takes: nothing
    """
    make = samplers[name]
    own = list(options_of(make).model_fields)
    for option in options:
        if option not in own:
            raise ArgumentError(
                f"sampler {name!r} does not take {option}", remedy=f"it takes: {', '.join(own) or 'nothing'}"
            )
    return make(**options)


discover()

__all__ = [
    "CLIPS",
    "DDIM",
    "Ancestral",
    "AnnealedLangevin",
    "Callback",
    "DPMSolver",
    "DPMSolver2S",
    "DPMSolver3M",
    "DPMSolverSDE",
    "DormandPrince",
    "Drawn",
    "EulerAncestral",
    "GradientEstimation",
    "Heun",
    "NamedSampler",
    "ReverseSDE",
    "RungeKutta",
    "Sampler",
    "SamplerStep",
    "SigmaFamily",
    "Span",
    "Transition",
    "UniPC",
    "WatchedSampler",
    "discover",
    "implied_eta",
    "on_host",
    "options_of",
    "sampler",
    "samplers",
    "walk",
]
