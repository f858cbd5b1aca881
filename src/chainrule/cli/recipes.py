"""Recipes by name: the settings of one, which of them suit the data, and whether this machine is one for it."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.models.protocol import Entry, Recipe

_DAY = 86400.0
"""Seconds."""


def named(own: Mapping[str, str], entry: Entry) -> Recipe:
    """The recipe of the model that is named, or an empty one."""
    if "recipe" not in own:
        return Recipe("")
    name = own["recipe"]
    if name not in entry.recipes:
        known = ", ".join(entry.recipes) or "none"
        raise ArgumentError(
            f"recipe={name}: {entry.name} has no such recipe{suggest(name, entry.recipes)}",
            remedy=f"recipes of {entry.name}: {known}",
        )
    return entry.recipes[name]


def suited(options: Mapping[str, Any], known: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a recipe that the source has; the size of a vocabulary is that of the recipe's own tokenizer."""
    other = {"vocab"} if "tokenizer" in given else set()
    return {name: value for name, value in options.items() if name in known and name not in other}


def check_work(
    name: str, recipe: Recipe, model: Mapping[str, Any], data: Mapping[str, Any], train: Mapping[str, Any]
) -> None:
    """Refuse a recipe for a GPU on a CPU that would take longer than a day; arguments are all its settings."""
    if recipe.work is None or jax.default_backend() != "cpu":
        return
    work = recipe.work(model, data, train)
    seconds = work / _operations_per_second()
    if seconds > _DAY:
        raise ArgumentError(
            f"recipe={name} takes {work:.1e} operations, on this CPU about {_spelled(seconds)}",
            remedy="train on a GPU (chainrule doctor says whether one is found), or less, e.g. layers=4 heads=4 "
            "width=128\ndata.window=64 data.vocab=2000 batch=12 accumulate=1 steps=2000 schedule.warmup=100",
        )


def _operations_per_second() -> float:
    """How fast this processor multiplies matrices, by one product."""
    side = 1024
    a = np.ones((side, side), np.float32)
    a @ a  # the first one also starts the threads
    begun = time.perf_counter()
    a @ a
    return 2 * side**3 / max(time.perf_counter() - begun, 1e-6)


def _spelled(seconds: float) -> str:
    """A long time in words."""
    days = seconds / _DAY
    return f"{days / 365:,.0f} years" if days > 1000 else f"{days:,.0f} days"


__all__ = ["check_work", "named", "suited"]
