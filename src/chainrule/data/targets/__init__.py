"""Targets: what stands beside an example. One file each, and the file is the registration.

`data/targets/labels.py` holds a `target` and is thereby known as `labels`.
"""

import functools
import importlib
import pkgutil

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.target import Target


@functools.cache
def modules() -> dict[str, str]:
    """The file of every target; `class` is no name for a Python file, so an underscore stands behind it."""
    return {module.name.rstrip("_"): module.name for module in pkgutil.iter_modules(__path__)}


def names() -> tuple[str, ...]:
    """Every target.

    >>> names()
    ('boxes', 'class', 'identity', 'labels', 'mask', 'none', 'sources', 'text', 'value', 'votes')
    """
    return tuple(sorted(modules()))


@functools.cache
def get(name: str) -> Target:
    """A target by name.

    >>> get("label")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown target 'label' (did you mean 'labels'?)
           known: boxes, class, identity, labels, mask, none, sources, text, value, votes
    """
    if name not in modules():
        raise ArgumentError(
            f"unknown target {name!r}{suggest(name, names())}", remedy=f"known: {', '.join(names())}"
        )
    found: Target = importlib.import_module(f"{__name__}.{modules()[name]}").target
    return found


def of(described: Schema | Contents) -> Target:
    """The target of some data.

    >>> of(Schema("table", (6,), "value", (2, 2))).outputs(Schema("table", (6,), "value", (2, 2)))
    4
    """
    return get(described.target)


__all__ = ["get", "modules", "names", "of"]
