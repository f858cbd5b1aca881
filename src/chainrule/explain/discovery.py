"""Discovery of experiments and probes: every file of a folder registers itself.

A folder of modules, each holding one object under the same name; the file's name, with hyphens, is the object's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic

from chainrule.core.errors import ArgumentError, suggest
from chainrule.explain.protocol import Settings
from chainrule.models import explain


def names_in(folder: Path) -> tuple[str, ...]:
    """The names of the modules of a folder."""
    return tuple(sorted(file.stem.replace("_", "-") for file in folder.glob("[a-z]*.py")))


def module_of(what: str, name: str, known: tuple[str, ...]) -> str:
    """The module that holds the experiment or probe of this name."""
    if name not in known:
        raise ArgumentError(
            f"unknown {what} {name!r}{suggest(name, known)}", remedy="list them: chainrule probe"
        )
    return name.replace("-", "_")


def configured(schema: type[Settings], settings: Mapping[str, Any], remedy: str) -> Settings:
    """Validated settings."""
    try:
        return schema(**settings)
    except pydantic.ValidationError as error:
        raise explain(error, schema, remedy) from None


__all__ = ["configured", "module_of", "names_in"]
