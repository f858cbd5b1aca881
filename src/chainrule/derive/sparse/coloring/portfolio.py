"""Portfolio search: several orders under one time budget, then recolouring, until the lower bound is reached.

Taking the vertices class by class, the latest class first, never needs more colours in a proper colouring and often
fewer (Culberson's iterated greedy); for star and acyclic colourings it is a good order like any other. Proper
colourings are improved by tabu search at the end, if there is time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from chainrule.derive.sparse.coloring import orders, tabu
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph, Nets

_PATIENCE = 24
"""Recolourings without gain before giving up."""

Fit = Callable[[np.ndarray], tuple[np.ndarray, int]]
"""An order -> colours and their number."""
Special = Callable[[int], tuple[np.ndarray, int] | None]
"""A number of colours -> a colouring with fewer, from somewhere other than first fit."""


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
    proper: bool,
) -> Found:
    """The best colouring found for an order, or for all of them if it is "auto"; `proper` ones can be repaired."""
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
    for label in orders.ORDERS[1:]:
        # An order costs a few times what colouring costs; do not begin what cannot be ended in time.
        if found.count <= least or time.perf_counter() + 2 * taken > deadline:
            break
        found.offer(label, *fit(orders.arrange(graph, label, seed)))
    _recolor(found, fit, least, deadline, taken, seed)
    repaired = tabu.improved(graph, found.colors, found.count, least, deadline) if proper else None
    if repaired is not None:
        found.offer("tabu", *repaired)
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


__all__ = ["Fit", "Found", "Special", "search"]
