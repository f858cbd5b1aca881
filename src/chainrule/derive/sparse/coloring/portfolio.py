"""Portfolio search: several orders under one time budget, then recolouring, until the lower bound is reached.

Taking the vertices class by class, the latest class first, never needs more colours in a proper colouring and often
fewer (Culberson's iterated greedy); for star and acyclic colourings it is a good order like any other. At the end, if
there is time, proper colourings are improved by tabu search and the others by shifting, in the best order, what got
the last colour and its neighbours forward, as long as that makes the last class smaller.
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
_SHIFTS = 256
"""Shifted orders without gain before giving up."""
_NEAR = 1.5
"""Times the lower bound up to which a colouring in closed form is taken without a look at other orders."""
_PATIENT = 1.0
"""Seconds; who gives more wants everything tried."""
_FAR = 2
"""Times the lower bound from which on shifting is worth its time."""

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
    sequence: np.ndarray | None = None
    """The order of the vertices, where the colouring came from one."""

    def offer(self, name: str, colors: np.ndarray, count: int, sequence: np.ndarray | None = None) -> bool:
        """Take note of a colouring; whether it is better."""
        self.counts[name] = min(count, self.counts.get(name, count))
        if count >= self.count:
            return False
        self.colors, self.count, self.order, self.sequence = colors, count, name, sequence
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
    sequence = orders.arrange(graph, "natural" if name == "auto" else order, seed)
    colors, count = fit(sequence)
    taken = time.perf_counter() - began
    found = Found(colors, count, first, {first: count}, sequence)
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
        sequence = orders.arrange(graph, label, seed)
        found.offer(label, *fit(sequence), sequence)
    _recolor(found, fit, least, deadline, taken, seed)
    if not proper:
        _shift(found, graph, fit, least, deadline, taken, seed)
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
        sequence = orders.classes(colors, ranks)
        colors, count = fit(sequence)
        idle = 0 if found.offer("recoloured", colors, count, sequence) else idle + 1


def _shift(
    found: Found,
    graph: Nets | AdjacencyGraph,
    fit: Fit,
    least: int,
    deadline: float,
    taken: float,
    seed: int,
) -> None:
    draw = np.random.default_rng(seed)
    if found.sequence is None:
        return
    position = np.argsort(found.sequence).astype(np.float64)
    colors, best = found.colors, (found.count, int((found.colors == found.count - 1).sum()))
    idle = 0
    while best[0] > _FAR * least and idle < _SHIFTS and time.perf_counter() + 2 * taken < deadline:
        moved = position.copy()
        late = np.flatnonzero(colors == best[0] - 1)
        n = len(position)
        if idle % 3 == 0:
            moved[late] -= draw.uniform(0, n, len(late))
        elif idle % 3 == 1:
            moved += draw.normal(0, 0.02 * n, n)
            moved[late] -= 0.3 * n
        else:
            one = draw.choice(late)
            moved[[one, *graph.idx[graph.ptr[one] : graph.ptr[one + 1]]]] -= draw.uniform(0, n)
        order = np.argsort(moved, kind="stable")
        shifted, count = fit(order)
        rank = (count, int((shifted == count - 1).sum()))
        found.offer("shifted", shifted, count, order)
        idle = 0 if rank < best else idle + 1
        if rank <= best:
            colors, best, position[order] = shifted, rank, np.arange(n)


__all__ = ["Fit", "Found", "Special", "search"]
