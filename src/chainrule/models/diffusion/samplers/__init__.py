"""Samplers by name: each is one step in a file of its own; the engine and its rules are in `base`."""

from collections.abc import Callable
from typing import Any

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.models.diffusion.samplers.ancestral import Ancestral
from chainrule.models.diffusion.samplers.base import CLIPS, Drawn, Sampler, Span, Transition, walk
from chainrule.models.diffusion.samplers.ddim import DDIM
from chainrule.models.diffusion.samplers.dpm_solver import DPMSolver
from chainrule.models.diffusion.samplers.gradient_estimation import GradientEstimation
from chainrule.models.diffusion.samplers.heun import Heun
from chainrule.models.diffusion.samplers.langevin import AnnealedLangevin
from chainrule.models.diffusion.samplers.reverse_sde import ReverseSDE
from chainrule.models.diffusion.samplers.sigma_family import SigmaFamily, implied_eta

samplers: Registry[Callable[..., Sampler]] = Registry("sampler")
samplers.add("ddim", DDIM)
samplers.add("ddpm", Ancestral)
samplers.add("sigma", SigmaFamily)
samplers.add("gradient-estimation", GradientEstimation)
samplers.add("heun", Heun)
samplers.add("dpm-solver", DPMSolver)
samplers.add("langevin", AnnealedLangevin)
samplers.add("reverse-sde", ReverseSDE)


def sampler(name: str, **options: Any) -> Sampler:
    """A sampler by its name, with options of its own.

    >>> sampler("ddim", eta=1.0)
    DDIM(eta=1.0)
    >>> sampler("dpm-solver", eta=1.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: sampler 'dpm-solver' does not take eta
           it takes: nothing
    """
    make = samplers[name]
    own = list(getattr(make, "__dataclass_fields__", {}))
    for option in options:
        if option not in own:
            raise ArgumentError(
                f"sampler {name!r} does not take {option}", remedy=f"it takes: {', '.join(own) or 'nothing'}"
            )
    return make(**options)


__all__ = [
    "CLIPS",
    "DDIM",
    "Ancestral",
    "AnnealedLangevin",
    "DPMSolver",
    "Drawn",
    "GradientEstimation",
    "Heun",
    "ReverseSDE",
    "Sampler",
    "SigmaFamily",
    "Span",
    "Transition",
    "implied_eta",
    "sampler",
    "samplers",
    "walk",
]
