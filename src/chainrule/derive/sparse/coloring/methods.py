"""Colouring of a pattern by any method and order: `color`."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.derive.sparse.coloring import (
    bounds,
    compiled,
    ejection,
    exact,
    first_fit,
    graphs,
    orders,
    portfolio,
    tabu,
)
from chainrule.derive.sparse.coloring.acyclic import acyclic
from chainrule.derive.sparse.coloring.balance import balanced
from chainrule.derive.sparse.coloring.bidirectional import bidirectional, estimate
from chainrule.derive.sparse.coloring.lattice import lattice
from chainrule.derive.sparse.coloring.result import TWO_SIDED, Coloring, SideColors
from chainrule.derive.sparse.coloring.star import star
from chainrule.derive.sparse.patterns import Pattern

METHODS = ("column", "row", "bidirectional", "bidirectional-acyclic", "star", "acyclic", "distance-1")
_WORTH_IT = 0.8  # both directions together must promise fewer products than this share of either alone
_FAR = 0.67  # rows are worth a try also where their bound is below this share of the columns' colours


def color(
    pattern: Any,
    method: str = "auto",
    order: Any = "auto",
    seed: int = 0,
    budget: float = 1.0,
    *,
    balance: bool = False,
) -> Coloring:
    """Colours for a pattern (or a SciPy sparse matrix), as few as can be found within a budget of seconds.

    Methods: "column" and "row" (no two columns of a colour meet in a row, or the other way round), "bidirectional"
    (both together, for dense rows and columns), "bidirectional-acyclic" (the same by substitution), and for symmetric
    patterns "star" (every entry read directly), "acyclic" (by substitution) and "distance-1" (neighbours differ: not
    enough to compress, for comparison). "auto" takes the best of columns, rows and both together.

    Orders: "natural", "largest-first", "smallest-last", "incidence-degree", "dynamic-largest-first",
    "independent-set", "random", or an array with every vertex once; "auto" tries them all, then recolours, and uses
    closed forms for stencils and exact search for up to 16 vertices. The first order always ends, whatever the budget.
    `balance=True` evens out how many columns (or rows) share a colour, without more colours.

    >>> tridiagonal = scipy.sparse.diags_array([1, 1, 1], offsets=[-1, 0, 1], shape=(6, 6), dtype=float)
    >>> color(tridiagonal)
    Coloring(column, 3 colours by natural, the fewest possible)
    >>> color(tridiagonal, "acyclic").num_colors
    2
    """
    if not isinstance(pattern, Pattern):
        if not scipy.sparse.issparse(pattern):
            raise ArgumentError(
                f"color(pattern={type(pattern).__name__}): a Pattern or a SciPy sparse matrix is needed"
            )
        pattern = Pattern.from_scipy(pattern)
    check_choice("color", "method", method, ("auto", *METHODS))
    orders.check(order)
    if not budget >= 0:
        raise ArgumentError(f"color(budget={budget}): a number of seconds, 0 or more")
    if balance and method not in ("column", "row"):
        raise ArgumentError(
            f'color(method="{method}", balance=True): only colours of columns or of rows can be evened out',
            remedy='use method="column" or "row"',
        )
    began = time.perf_counter()
    with compiled.one_task():
        if pattern.nnz == 0 and method in ("auto", "column", "row", *TWO_SIDED):
            made = _empty(pattern, method)
        elif method == "auto":
            made = choose(pattern, order, seed, budget, lambda: (1.0, 1.0))
        elif method in TWO_SIDED:
            made = _two_sided(pattern, method, order, seed, budget, (1.0, 1.0))
        elif method in ("column", "row"):
            made = _groups(pattern, method, order, seed, budget)
        else:
            made = _symmetric(pattern, method, order, seed, budget)
        if balance and pattern.nnz:
            graph = graphs.columns(pattern) if method == "column" else graphs.rows(pattern)
            made = replace(made, colors=balanced(graph, made.colors, made.num_colors))  # type: ignore[arg-type]  # one side
    return replace(made, seconds=time.perf_counter() - began)


def choose(
    pattern: Pattern, order: Any, seed: int, budget: float, prices: Callable[[], tuple[float, float]]
) -> Coloring:
    """Columns, rows or both: whichever costs least at the prices of a forward and of a reverse product.

    What cannot win is not tried, and prices are measured only if more than one kind could.
    """
    if not isinstance(order, str):
        raise ArgumentError(
            "color(order=...): an order of one's own needs a method of one's own",
            remedy='say whose order it is: method="column", "row", "bidirectional", "star", "acyclic"',
        )
    if pattern.nnz == 0:
        return _empty(pattern, "column")
    tried: list[Coloring] = []
    least = (bounds.columns(pattern), bounds.rows(pattern))
    hopeful = _WORTH_IT * min(least)
    if bounds.products(pattern) < hopeful and estimate(pattern) < hopeful:
        tried.append(_two_sided(pattern, "bidirectional", order, seed, budget, prices()))
    if not tried or least[0] < tried[0].num_colors:
        tried.append(_groups(pattern, "column", order, seed, budget))
    fewest = min(coloring.num_colors for coloring in tried)
    if least[1] < min(least[0], fewest) or least[1] < _FAR * fewest:
        tried.append(_groups(pattern, "row", order, seed, budget))
    best = tried[0]
    if len(tried) > 1:
        forward, reverse = prices()
        best = min(tried, key=lambda coloring: _cost(coloring, forward, reverse))
    return replace(best, considered={coloring.method: coloring.num_colors for coloring in tried})


def _cost(coloring: Coloring, forward: float, reverse: float) -> float:
    """Products at their prices; a price may be infinite, which matters only where such products are needed."""
    return sum(n * price for n, price in ((coloring.forward, forward), (coloring.reverse, reverse)) if n)


def _groups(pattern: Pattern, method: str, order: Any, seed: int, budget: float) -> Coloring:
    graph = graphs.columns(pattern) if method == "column" else graphs.rows(pattern)
    least = bounds.columns(pattern) if method == "column" else bounds.rows(pattern)

    def fit(arranged: np.ndarray) -> tuple[np.ndarray, int]:
        return first_fit.by_nets(graph, arranged, least + 8)

    special: dict[str, portfolio.Special] = {"lattice": lambda below: lattice(graph, least, below)}
    neighbours: Callable[[], list[set[int]]] = lambda: exact.meeting(graph)  # noqa: E731 (built only if small)
    repair = ("tabu", partial(tabu.improved, graph))
    return _search(pattern, method, graph, fit, order, seed, budget, least, special, repair, neighbours)


def _symmetric(pattern: Pattern, method: str, order: Any, seed: int, budget: float) -> Coloring:
    graph = graphs.adjacency(f'color(method="{method}")', pattern)
    least = bounds.proper(graph)
    if method != "distance-1":
        least = max(least, bounds.forests(graph))
    fits = {"star": star, "acyclic": acyclic, "distance-1": first_fit.proper}

    def fit(arranged: np.ndarray) -> tuple[np.ndarray, int]:
        return fits[method](graph, arranged, least + 8)

    neighbours: Callable[[], list[set[int]]] = lambda: exact.beside(graph)  # noqa: E731 (built only if small)
    repairs = {
        "star": ("ejection", partial(ejection.improved, graph)),
        "distance-1": ("tabu", partial(tabu.improved, graph)),
    }
    repair: tuple[str, portfolio.Repair] | None = repairs.get(method)
    return _search(pattern, method, graph, fit, order, seed, budget, least, {}, repair, neighbours)


def _search(
    pattern: Pattern,
    method: str,
    graph: graphs.Nets | graphs.AdjacencyGraph,
    fit: portfolio.Fit,
    order: Any,
    seed: int,
    budget: float,
    least: int,
    special: dict[str, portfolio.Special],
    repair: tuple[str, portfolio.Repair] | None,
    neighbours: Callable[[], list[set[int]]],
) -> Coloring:
    found = portfolio.search(
        graph,
        fit,
        order,
        seed=seed,
        budget=budget,
        least=least,
        special=special,
        repair=repair if graph.vertices > exact.MOST_VERTICES else None,
    )
    automatic = isinstance(order, str) and order == "auto"
    if automatic and found.count > least and graph.vertices <= exact.MOST_VERTICES:
        least = _exactly(found, neighbours(), method, least)
    return Coloring(pattern, method, found.order, found.colors, found.count, least, 0.0, found.counts)


def _exactly(found: portfolio.Found, neighbours: list[set[int]], method: str, least: int) -> int:
    """Improve a colouring of a small graph to the best there is; the lower bound that is then known."""
    try:
        better = exact.fewest(neighbours, exact.rule(method, neighbours), least, found.count)
    except TimeoutError:  # too many ways to try: what the orders found stands, with the bound from counting
        return least
    if better is not None:
        found.offer("exact", *better)
    return found.count


def _two_sided(
    pattern: Pattern, method: str, order: Any, seed: int, budget: float, prices: tuple[float, float]
) -> Coloring:
    least = bounds.products(pattern)
    sides, counts = bidirectional(
        pattern,
        order,
        seed=seed,
        budget=budget,
        least=least,
        forward=prices[0],
        reverse=prices[1],
        substitution=method != "bidirectional",
    )
    colors = SideColors(sides.rows, sides.columns)
    return Coloring(pattern, method, sides.order, colors, sum(sides.counts), least, 0.0, counts)


def _empty(pattern: Pattern, method: str) -> Coloring:
    rows, columns = (np.full(size, -1, dtype=np.int64) for size in pattern.shape)
    both = SideColors(rows, columns)
    colors: Any = {"row": rows, **dict.fromkeys(TWO_SIDED, both)}.get(method, columns)
    return Coloring(pattern, "column" if method == "auto" else method, "natural", colors, 0, 0, 0.0)


__all__ = ["METHODS", "choose", "color"]
