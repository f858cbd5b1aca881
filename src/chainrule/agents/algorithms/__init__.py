"""Algorithms, one folder each: settings, learner, card, tests.

A folder that holds a `card.md` and, in its `__init__.py`, an `ENTRY` is an algorithm. The folder is the registration,
and an algorithm's code is imported only when it is asked for.
"""

import functools
import importlib
from pathlib import Path
from typing import Any

import pydantic

from chainrule.agents.learning.base import AlgorithmEntry
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.settings import Config
from chainrule.models import explain

_HERE = Path(__file__).parent


@functools.cache
def _folders() -> dict[str, Path]:
    return {card.parent.name.replace("_", "-"): card.parent for card in sorted(_HERE.glob("*/card.md"))}


def names() -> list[str]:
    """Every algorithm.

    >>> "ppo" in names()
    True
    """
    return list(_folders())


def entry(name: str) -> AlgorithmEntry:
    """What is known about an algorithm.

    >>> entry("pop")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown algorithm 'pop' (did you mean 'ppo'?)
           list them: chainrule models ls
    """
    folder = _folders().get(name)
    if folder is None:
        raise ArgumentError(
            f"unknown algorithm {name!r}{suggest(name, names())}", remedy="list them: chainrule models ls"
        )
    found: AlgorithmEntry = importlib.import_module(f"{__name__}.{folder.name}").ENTRY
    return found


def card(name: str) -> str:
    """The card of an algorithm, Markdown."""
    entry(name)
    return (_folders()[name] / "card.md").read_text(encoding="utf-8")


def configure(name: str, **settings: Any) -> Config:
    """The validated settings of an algorithm.

    >>> configure("ppo", epoch=3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown setting 'epoch' (did you mean 'epochs'?)
           settings of ppo: chainrule models show ppo
    """
    schema = entry(name).config
    try:
        return schema(**settings)
    except pydantic.ValidationError as error:
        raise explain(error, schema, f"settings of {name}: chainrule models show {name}") from None


__all__ = ["card", "configure", "entry", "names"]
