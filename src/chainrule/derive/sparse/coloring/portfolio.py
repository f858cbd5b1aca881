"""Portfolio search: several orders under one time budget, then recolouring, until the lower bound is reached.

Taking the vertices class by class, the latest class first, never needs more colours in a proper colouring and often
fewer (Culberson's iterated greedy); for star and acyclic colourings it is a good order like any other. At the end, if
there is time, one colour after another is given up and the colouring repaired, for those kinds where what a vertex
takes part in lies close by (proper and star colourings, not acyclic ones).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from chainrule.derive.sparse.coloring import orders
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph, Nets

_PATIENCE = 24
"""Recolourings without gain before giving up."""
_NEAR = 1.5
"""Times the lower bound up to which a colouring in closed form is taken without a look at other orders."""
_PATIENT = 1.0
"""Seconds; who gives more wants everything tried."""

Fit = Callable[[np.ndarray], tuple[np.ndarray, int]]
"""An order -> colours and their number."""
Special = Callable[[int], tuple[np.ndarray, int] | None]
"""A number of colours -> a colouring with fewer, from somewhere other than first fit."""
Repair = Callable[[np.ndarray, int, int, float], tuple[np.ndarray, int] | None]
"""Colours, their number, the lower bound and a deadline -> a colouring with fewer, by search from there."""


@final
@dataclass
class Found:
    """The best colouring so far, and how many colours each order took."""

    colors: np.ndarray
    count: int
    order: str
    counts: dict[str, int] = field(default_factory=dict)

    def offer(self, name: str, colors: np.ndarray, count: int) -> bool:
        """Take note of a colouring; whether it is better."""
        self.counts[name] = min(count, self.counts.get(name, count))
        if count >= self.count:
            return False
        self.colors, self.count, self.order = colors, count, name
        return True


def search(
    graph: Nets | AdjacencyGraph,
    fit: Fit,
    order: Any,
    *,
    seed: int,
    budget: float,
    least: int,
    special: dict[str, Special],
    repair: tuple[str, Repair] | None,
) -> Found:
    """The best colouring found for an order, or for all of them if it is "auto"; `repair` has a name and does it."""
    deadline = time.perf_counter() + budget
    name = order if isinstance(order, str) else "given"
    first = "natural" if name == "auto" else name
    began = time.perf_counter()
    colors, count = fit(orders.arrange(graph, "natural" if name == "auto" else order, seed))
    taken = time.perf_counter() - began
    found = Found(colors, count, first, {first: count})
    if name != "auto":
        return found
    for label, attempt in special.items():
        if found.count > least:
            offered = attempt(found.count)
            if offered is not None:
                found.offer(label, *offered)
    if found.order in special and found.count <= _NEAR * least and budget <= _PATIENT:
        return found  # orders do not find what the pattern's own regularity does not
    for label in orders.ORDERS[1:]:
        # An order costs a few times what colouring costs; do not begin what cannot be ended in time.
        if found.count <= least or time.perf_counter() + 2 * taken > deadline:
            break
        found.offer(label, *fit(orders.arrange(graph, label, seed)))
    _recolor(found, fit, least, deadline, taken, seed)
    if repair is not None:
        label, improve = repair
        repaired = improve(found.colors, found.count, least, deadline)
        if repaired is not None:
            found.offer(label, *repaired)
    return found


def _recolor(found: Found, fit: Fit, least: int, deadline: float, taken: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    colors, count = found.colors, found.count
    idle = 0
    while found.count > least and idle < _PATIENCE and time.perf_counter() + 2 * taken < deadline:
        sizes = np.bincount(colors, minlength=count)
        choice = idle % 3
        keys = -np.arange(count) if choice == 0 else -sizes if choice == 1 else draw.permutation(count)
        ranks = np.empty(count, dtype=np.int64)
        ranks[np.argsort(keys, kind="stable")] = np.arange(count)
        colors, count = fit(orders.classes(colors, ranks))
        idle = 0 if found.offer("recoloured", colors, count) else idle + 1


__all__ = ["Fit", "Found", "Repair", "Special", "search"]
