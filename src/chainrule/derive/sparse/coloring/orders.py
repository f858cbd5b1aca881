"""Vertex orders of first fit, on which its number of colours depends.

Degrees count neighbours. Where neighbours are columns that meet in rows, a column met in two rows counts twice and
rows of more than 1024 entries are left out (they add the same to nearly every degree), which keeps every order
close to linear in the entries.
"""

from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.derive.sparse.coloring import first_fit
from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph, Nets

ORDERS = (
    "natural",
    "largest-first",
    "smallest-last",
    "incidence-degree",
    "dynamic-largest-first",
    "independent-set",
    "random",
)
_WIDEST_NET = 1024


def arrange(graph: Nets | AdjacencyGraph, order: Any, seed: int) -> np.ndarray:
    """The vertices in a named or given order."""
    n = graph.vertices
    if not isinstance(order, str):
        return given(order, n)
    if order == "natural":
        return np.arange(n)
    if order == "random":
        return np.random.default_rng(seed).permutation(n)
    if order == "largest-first":
        return np.argsort(-degrees(graph), kind="stable")
    if order == "independent-set":
        return _independent_sets(graph)
    return _by_buckets(graph, order)


def given(order: Any, n: int) -> np.ndarray:
    """A user's order, which must hold every vertex once."""
    found = np.asarray(order)
    if found.shape != (n,) or not np.issubdtype(found.dtype, np.integer):
        raise ArgumentError(
            f"color(order=...): an order is {n} whole numbers, one for each vertex; "
            f"got shape {found.shape} of {found.dtype}"
        )
    if not np.array_equal(np.sort(found), np.arange(n)):
        raise ArgumentError(f"color(order=...): every number from 0 to {n - 1} must occur once")
    return found.astype(np.int64)


def check(order: Any) -> None:
    """Raise unless `order` is a known name or could be an order itself."""
    if isinstance(order, str) or order is None or np.ndim(order) == 0:
        check_choice("color", "order", order, ("auto", *ORDERS))


def degrees(graph: Nets | AdjacencyGraph) -> np.ndarray:
    """Neighbours of each vertex, as counted here."""
    if isinstance(graph, AdjacencyGraph):
        return graph.degrees
    sizes = np.diff(graph.net_ptr) - 1
    sizes[sizes >= _WIDEST_NET] = 0
    sums = np.concatenate([[0], np.cumsum(sizes[graph.idx])])
    return sums[graph.ptr[1:]] - sums[graph.ptr[:-1]]


def classes(colors: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The vertices class by class: the class of lowest rank first."""
    return np.argsort(ranks[colors], kind="stable")


def _independent_sets(graph: Nets | AdjacencyGraph) -> np.ndarray:
    """Maximal independent sets, each grown from the vertices of smallest degree; the largest set first."""
    order = np.argsort(degrees(graph), kind="stable")
    fit = first_fit.proper if isinstance(graph, AdjacencyGraph) else first_fit.by_nets
    colors, count = fit(graph, order, first_fit.BITS)  # type: ignore[arg-type]
    sizes = np.bincount(colors, minlength=count)
    ranks = np.empty(count, dtype=np.int64)
    ranks[np.argsort(-sizes, kind="stable")] = np.arange(count)
    return classes(colors, ranks)


def _by_buckets(graph: Nets | AdjacencyGraph, order: str) -> np.ndarray:
    n = graph.vertices
    most = degrees(graph)
    keys = np.zeros(n, dtype=np.int64) if order == "incidence-degree" else most.astype(np.int64)
    head = np.full(int(most.max(initial=0)) + 2, -1, dtype=np.int64)
    after, before, out = (np.full(n, -1, dtype=np.int64) for _ in range(3))
    nets = graph if isinstance(graph, Nets) else Nets(graph.ptr, graph.idx, graph.ptr, graph.idx)
    _buckets(
        float(most.sum()) + 4 * n,
        *(nets.ptr, nets.idx, nets.net_ptr, nets.net_idx),
        int(isinstance(graph, AdjacencyGraph)),
        int(order != "smallest-last"),
        1 if order == "incidence-degree" else -1,
        *(keys, head, after, before, out),
    )
    return out[::-1].copy() if order == "smallest-last" else out


@CompiledLoop
def _buckets(
    ptr: Any,
    idx: Any,
    net_ptr: Any,
    net_idx: Any,
    direct: int,
    largest: int,
    step: int,
    keys: Any,
    head: Any,
    after: Any,
    before: Any,
    out: Any,
) -> int:
    n = len(keys)
    at = 0 if largest else len(head) - 1
    for back in range(n):
        v = n - 1 - back
        k = keys[v]
        after[v] = head[k]
        if head[k] >= 0:
            before[head[k]] = v
        head[k] = v
        at = max(at, k) if largest else min(at, k)
    for t in range(n):
        while head[at] < 0:
            at += -1 if largest else 1
        v = head[at]
        head[at] = after[v]
        if after[v] >= 0:
            before[after[v]] = -1
        keys[v] = -1
        out[t] = v
        for e in range(ptr[v], ptr[v + 1]):
            first, last = e, e + 1
            if not direct:
                first, last = net_ptr[idx[e]], net_ptr[idx[e] + 1]
                if last - first > _WIDEST_NET:
                    continue
            for other in range(first, last):
                w = net_idx[other]
                k = keys[w]
                if k < 0:
                    continue
                if before[w] >= 0:
                    after[before[w]] = after[w]
                else:
                    head[k] = after[w]
                if after[w] >= 0:
                    before[after[w]] = before[w]
                k += step
                keys[w] = k
                before[w] = -1
                after[w] = head[k]
                if head[k] >= 0:
                    before[head[k]] = w
                head[k] = w
                at = max(at, k) if largest else min(at, k)
    return n


__all__ = ["ORDERS", "arrange", "check", "classes", "degrees", "given"]
