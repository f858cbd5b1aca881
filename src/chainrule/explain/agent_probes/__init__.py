"""Probes of runs of agents: one file each, and the file is the registration.

`explain/agent_probes/episodes.py` holds a `probe` and is thereby known as `episodes`. Runs of agents have an
environment and policies instead of data and a model: probes of models do not apply to them, nor these to models.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from chainrule.agents import AgentRun
from chainrule.core.errors import CapabilityError
from chainrule.explain.discovery import configured, module_of, names_in
from chainrule.explain.protocol import NoSettings, Outcome, Settings
from chainrule.train.naming import handle


@final
@dataclass(frozen=True)
class AgentProbe:
    """An examination of trained agents."""

    summary: str
    """One line."""
    needs: str
    """What it applies to, as the end of "it needs ..."."""
    applies: Callable[[AgentRun], bool]
    examine: Callable[[AgentRun, Any], Outcome]
    settings: type[Settings] = NoSettings
    toy: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which it takes a second or two, for tests."""


@functools.cache
def names() -> tuple[str, ...]:
    """Every probe of agents.

    >>> "episodes" in names()
    True
    """
    return names_in(Path(__file__).parent)


def get(name: str) -> AgentProbe:
    """A probe by name."""
    module = module_of("probe of agents", name, names())
    found: AgentProbe = importlib.import_module(f"{__name__}.{module}").probe
    return found


def applicable(run: AgentRun) -> list[str]:
    """The probes that can look into this run."""
    return [name for name in names() if get(name).applies(run)]


def configure(name: str, **settings: Any) -> Settings:
    """The validated settings of a probe."""
    return configured(get(name).settings, settings, f"settings of {name}: chainrule probe RUN {name} --help")


def examine(name: str, run: AgentRun, **settings: Any) -> Outcome:
    """Examine a run with one probe."""
    probe = get(name)
    if not probe.applies(run):
        raise CapabilityError(
            f"{name} does not apply to {run.id}: it needs {probe.needs}",
            remedy=f"what applies: chainrule probe {handle(run.path)}",
        )
    return probe.examine(run, configure(name, **settings))


__all__ = ["AgentProbe", "applicable", "configure", "examine", "get", "names"]
