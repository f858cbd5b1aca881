"""Experiments: one file each, and the file is the registration.

`explain/experiments/lr_finder.py` holds an `experiment` and is thereby known as `lr-finder`, in Python, to
`chainrule probe` and to every test that walks through all of them.
"""

import functools
import importlib
from pathlib import Path
from typing import Any

from chainrule.explain.discovery import configured, module_of, names_in
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings, silent


@functools.cache
def names() -> tuple[str, ...]:
    """Every experiment.

    >>> "distances" in names()
    True
    """
    return names_in(Path(__file__).parent)


def get(name: str) -> Experiment:
    """An experiment by name.

    >>> get("distnaces")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown experiment 'distnaces' (did you mean 'distances'?)
           list them: chainrule probe
    """
    module = module_of("experiment", name, names())
    found: Experiment = importlib.import_module(f"{__name__}.{module}").experiment
    return found


def configure(name: str, **settings: Any) -> Settings:
    """The validated settings of an experiment.

    >>> configure("distances", bias=1)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown setting 'bias' (did you mean 'base'?)
           settings of distances: chainrule probe distances --help
    """
    return configured(get(name).settings, settings, f"settings of {name}: chainrule probe {name} --help")


def run(name: str, listener: Listener = silent, **settings: Any) -> Outcome:
    """Run an experiment.

    >>> print(run("distances").findings[0])
    At p = 0.5, q = 0.9: total variation 0.4, KL(p, q) 0.5108 nats, KL(q, p) 0.3681 nats.
    """
    return get(name).run(configure(name, **settings), listener)


__all__ = ["configure", "get", "names", "run"]
