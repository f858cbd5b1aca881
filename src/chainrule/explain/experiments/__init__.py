"""Experiments: one file each, and the file is the registration.

`explain/experiments/lr_finder.py` holds an `experiment` and is thereby known as `lr-finder`, in Python, to
`chainrule probe` and to every test that walks through all of them.
"""

import functools
import importlib
from pathlib import Path
from typing import Any

import pydantic

from chainrule.core.errors import ArgumentError, suggest
from chainrule.explain.base import Experiment, Listener, Outcome, Settings, silent
from chainrule.models import explain


@functools.cache
def names() -> tuple[str, ...]:
    """Every experiment.

    >>> "distances" in names()
    True
    """
    files = Path(__file__).parent.glob("[a-z]*.py")
    return tuple(sorted(file.stem.replace("_", "-") for file in files if not file.stem.startswith("test_")))


def get(name: str) -> Experiment:
    """An experiment by name.

    >>> get("distnaces")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown experiment 'distnaces' (did you mean 'distances'?)
           list them: chainrule probe
    """
    if name not in names():
        raise ArgumentError(
            f"unknown experiment {name!r}{suggest(name, names())}", remedy="list them: chainrule probe"
        )
    found: Experiment = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").experiment
    return found


def configure(name: str, **settings: Any) -> Settings:
    """The validated settings of an experiment.

    >>> configure("distances", bias=1)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown setting 'bias' (did you mean 'base'?)
           settings of distances: chainrule probe distances --help
    """
    schema = get(name).settings
    try:
        return schema(**settings)
    except pydantic.ValidationError as error:
        raise explain(error, schema, f"settings of {name}: chainrule probe {name} --help") from None


def run(name: str, listener: Listener = silent, **settings: Any) -> Outcome:
    """Run an experiment.

    >>> print(run("distances").findings[0])
    At p = 0.5, q = 0.9: total variation 0.4, KL(p, q) 0.5108 nats, KL(q, p) 0.3681 nats.
    """
    return get(name).run(configure(name, **settings), listener)


__all__ = ["configure", "get", "names", "run"]
