"""What the library can be asked for, taken from its own settings: a target or weight that is added is in the table."""

import itertools
from dataclasses import dataclass
from typing import Any, final, get_args

from chainrule.models.diffusion.diffusion import DiffusionConfig
from chainrule.models.diffusion.samplers import samplers
from chainrule.models.diffusion.vdm import VDMConfig

STEPS = 50
"""Of every sampler but Langevin dynamics, which makes a hundred moves at each level."""
LEVELS_OF_LANGEVIN = 20


@final
@dataclass(frozen=True)
class Combination:
    """A model by name, and the settings that set it apart."""

    model: str
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As on the command line."""
        return " ".join([self.model, *(f"{name}={value}" for name, value in self.settings)])


def combinations() -> list[Combination]:
    """Every target with every weight and every schedule, and the models that choose two of these themselves.

    >>> len(combinations()) > 100
    True
    """
    names = ("target", "weight", "noise")
    found = [
        Combination("diffusion", tuple(zip(names, chosen, strict=True)))
        for chosen in itertools.product(*(_choices(DiffusionConfig, name) for name in names))
    ]
    found += [Combination("vdm", (("target", target),)) for target in _choices(VDMConfig, "target")]
    return [*found, Combination("edm"), Combination("score")]


def _choices(config: Any, name: str) -> tuple[str, ...]:
    """The values of a setting; `auto` is one of the others."""
    return tuple(value for value in get_args(config.model_fields[name].annotation) if value != "auto")


def walks() -> dict[str, dict[str, Any]]:
    """Options of `sample` for every sampler; guidance would draw from another distribution than that of the data."""
    return {
        name: {
            "sampler": name,
            "steps": LEVELS_OF_LANGEVIN if name == "langevin" else STEPS,
            "guidance": 1.0,
        }
        for name in samplers
    }


__all__ = ["Combination", "combinations", "walks"]
