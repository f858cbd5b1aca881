"""Probes of trained runs: one file each, and the file is the registration.

`explain/probes/gradients.py` holds a `probe` and is thereby known as `gradients`. A probe says itself which models it
applies to, by what they can do.
"""

import functools
import importlib
from pathlib import Path
from typing import Any

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.explain.discovery import configured, module_of, names_in
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.train import Run
from chainrule.train.naming import handle


@functools.cache
def names() -> tuple[str, ...]:
    """Every probe.

    >>> "gradients" in names()
    True
    """
    return names_in(Path(__file__).parent)


def get(name: str) -> Probe:
    """A probe by name.

    >>> get("gradeints")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown probe 'gradeints' (did you mean 'gradients'?)
           list them: chainrule probe
    """
    module = module_of("probe", name, names())
    found: Probe = importlib.import_module(f"{__name__}.{module}").probe
    return found


def applicable(run: Run) -> list[str]:
    """The probes that can look into this run."""
    return [name for name in names() if get(name).applies(run.model, run.schema)]


def configure(name: str, **settings: Any) -> Settings:
    """The validated settings of a probe."""
    return configured(get(name).settings, settings, f"settings of {name}: chainrule probe {name} --help")


def examine(name: str, run: Run, **settings: Any) -> Outcome:
    """Examine a run with one probe."""
    probe = get(name)
    if not probe.applies(run.model, run.schema):
        raise CapabilityError(
            f"{name} does not apply to {run.id}: it needs {probe.needs}",
            remedy=f"what applies: chainrule probe {handle(run.path)}",
        )
    if settings.get("text") and probe.also_without_text and not probe.reads_text(run.schema):
        raise ArgumentError(f"text: {run.id} reads no text", remedy="leave it out, or probe a model of text")
    return probe.examine(run, run.data, configure(name, **settings))


__all__ = ["applicable", "configure", "examine", "get", "names"]
