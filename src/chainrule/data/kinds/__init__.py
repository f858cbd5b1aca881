"""Kinds of data: what an example is. One file each, and the file is the registration.

`data/kinds/image.py` holds a `kind` and is thereby known as `image`.
"""

import functools
import importlib
import pkgutil

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data.kind import Kind
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema


@functools.cache
def names() -> tuple[str, ...]:
    """Every kind of data.

    >>> names()
    ('audio', 'image', 'music', 'points', 'sequence', 'table', 'text')
    """
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@functools.cache
def get(name: str) -> Kind:
    """A kind of data by name.

    >>> get("images")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown kind of data 'images' (did you mean 'image'?)
           known: audio, image, music, points, sequence, table, text
    """
    if name not in names():
        raise ArgumentError(
            f"unknown kind of data {name!r}{suggest(name, names())}", remedy=f"known: {', '.join(names())}"
        )
    found: Kind = importlib.import_module(f"{__name__}.{name}").kind
    return found


def of(described: Schema | Contents) -> Kind:
    """The kind of some data.

    >>> of(Schema("image", (8, 8, 1))).spatial
    True
    """
    return get(described.kind)


__all__ = ["get", "names", "of"]
