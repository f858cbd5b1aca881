"""Environments: worlds to act in, one file each, and the file is the registration.

`envs/classic/cartpole.py` holds an `ENTRY` and is thereby known as `cartpole`: `make("cartpole")`.
"""

import functools
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from chainrule.agents.envs.base import (
    AutoResetStep,
    Environment,
    HasDrawing,
    HasLegalActions,
    TimeStep,
    advance_or_restart,
)
from chainrule.agents.envs.checking import EnvironmentCheck, check_env
from chainrule.agents.envs.entry import EnvironmentEntry, EnvironmentSetting, made, settings_of
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.agents.envs.gymnasium_bridge import PREFIX, GymEnvironment, bridge_note, bridged
from chainrule.agents.envs.own import OwnEnvironment, load
from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete, Space
from chainrule.agents.envs.wrappers import innermost, settled, vector_observations
from chainrule.core.errors import ArgumentError, suggest

_FOLDERS = ("classic", "tabular", "arcade")


@functools.cache
def _folders() -> dict[str, str]:
    """The folder of every environment."""
    here = Path(__file__).parent
    files = [file for folder in _FOLDERS for file in (here / folder).glob("[a-z]*.py")]
    return {file.stem.replace("_", "-"): file.parent.name for file in sorted(files)}


def names() -> tuple[str, ...]:
    """Every bundled environment.

    >>> "cartpole" in names()
    True
    """
    return tuple(sorted(_folders()))


def entry(name: str) -> EnvironmentEntry:
    """What is known about an environment before it is made.

    >>> entry("cartpol")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown environment 'cartpol' (did you mean 'cartpole'?)
           known: ...
    """
    folders = _folders()
    if name not in folders:
        raise ArgumentError(
            f"unknown environment {name!r}{suggest(name, folders)}", remedy=f"known: {', '.join(names())}"
        )
    module = importlib.import_module(f"{__name__}.{folders[name]}.{name.replace('-', '_')}")
    found: EnvironmentEntry = module.ENTRY
    return found


def make(name: str, /, **settings: Any) -> Environment[Any]:
    """An environment by name, with settings other than its defaults; `gym:` before a name asks Gymnasium.

    >>> make("cartpole", gravity=1.6).params.gravity
    1.6
    >>> make("cartpole", gravty=1.6)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown setting 'gravty' (did you mean 'gravity'?)
           settings of cartpole: gravity, cart_mass, pole_mass, half_length, force, seconds, limit
    """
    if name.startswith(PREFIX):
        return bridged(name.removeprefix(PREFIX), **settings)
    found = entry(name)
    known = ", ".join(setting.name for setting in settings_of(found.environment))
    return made(found, settings, f"settings of {name}: {known}" if known else f"{name} has no settings")


@final
@dataclass(frozen=True)
class EnvironmentDescription:
    """An environment in words and numbers."""

    name: str
    summary: str
    observations: Space
    actions: Space
    settings: tuple[EnvironmentSetting, ...]
    random_return: float | None
    optimal_return: float | None
    threshold: float | None
    citation: str


def describe(name: str) -> EnvironmentDescription:
    """What an environment is, what can be set, and which returns are known.

    >>> describe("cartpole").threshold
    475.0
    """
    found, env = entry(name), make(name)
    return EnvironmentDescription(
        name,
        found.summary,
        env.observation_space,
        env.action_space,
        settings_of(found.environment),
        found.random_return,
        found.optimal_return,
        found.threshold,
        found.citation,
    )


__all__ = [
    "AutoResetStep",
    "Box",
    "Discrete",
    "Environment",
    "EnvironmentCheck",
    "EnvironmentDescription",
    "EnvironmentEntry",
    "EnvironmentSetting",
    "FiniteEnvironment",
    "GymEnvironment",
    "HasDrawing",
    "HasLegalActions",
    "MultiDiscrete",
    "OwnEnvironment",
    "Space",
    "TimeStep",
    "advance_or_restart",
    "bridge_note",
    "check_env",
    "describe",
    "entry",
    "innermost",
    "load",
    "make",
    "names",
    "settled",
    "vector_observations",
]
