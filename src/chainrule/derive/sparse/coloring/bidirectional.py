"""Bidirectional colouring: some entries from forward products, the others from reverse products.

A matrix with a dense row and a dense column needs as many products as it has columns one way and as many as it
has rows the other way; reading the dense row by one reverse product leaves the rest to two forward ones. Two ideas
compete: rows (or columns) above a degree are read their own way and everything else the other way, for all degrees
worth trying; and a star colouring (or, where entries may follow by substitution, an acyclic one) of the graph of rows
and columns, from which all colours that nothing has to be read from are dropped.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from chainrule.derive.sparse.coloring import first_fit, graphs, orders, reading
from chainrule.derive.sparse.coloring.acyclic import acyclic
from chainrule.derive.sparse.coloring.star import star
from chainrule.derive.sparse.patterns import Pattern

_TRIED_THRESHOLDS = 64
_COLORED_THRESHOLDS = 3


@final
@dataclass(frozen=True)
class Sides:
    """Colours of rows (reverse products) and of columns (forward products); -1 stands for none."""

    rows: np.ndarray
    columns: np.ndarray
    order: str

    @property
    def counts(self) -> tuple[int, int]:
        """Number of reverse products, number of forward products."""
        return int(self.rows.max(initial=-1)) + 1, int(self.columns.max(initial=-1)) + 1

    def price(self, forward: float, reverse: float) -> float:
        """What all products cost."""
        by_row, by_column = self.counts
        return reverse * by_row + forward * by_column

    def swapped(self) -> "Sides":
        """The same for the transposed matrix."""
        return Sides(self.columns, self.rows, self.order)


def bidirectional(
    pattern: Pattern,
    order: object,
    *,
    seed: int,
    budget: float,
    least: int,
    forward: float = 1.0,
    reverse: float = 1.0,
    substitution: bool = False,
) -> tuple[Sides, dict[str, int]]:
    """The cheapest sides found, and the number of products of each attempt."""
    graph_fit, fit_name = (acyclic, "acyclic") if substitution else (star, "star")
    deadline = time.perf_counter() + budget
    named = orders.ORDERS[1:4] if isinstance(order, str) and order == "auto" else (order,)
    turned = _turned(pattern)
    best: Sides | None = None
    counts: dict[str, int] = {}

    def offer(label: str, sides: Sides) -> None:
        nonlocal best
        counts[label] = min(sum(sides.counts), counts.get(label, sum(sides.counts)))
        if best is None or sides.price(forward, reverse) < best.price(forward, reverse):
            best = sides

    for name in named:
        label = name if isinstance(name, str) else "given"
        if isinstance(name, str):  # an order of rows and columns together fits only the star colouring
            for threshold, price in _thresholds(pattern, forward, reverse):
                if best is None or price < best.price(forward, reverse):
                    offer(f"dense rows apart, {label}", _split(pattern, threshold, name, seed))
            for threshold, price in _thresholds(turned, reverse, forward):
                if best is None or price < best.price(forward, reverse):
                    offer(f"dense columns apart, {label}", _split(turned, threshold, name, seed).swapped())
            if best is not None and (sum(best.counts) <= least or time.perf_counter() > deadline):
                break
        offer(f"{fit_name}, {label}", _joint(pattern, graph_fit, name, seed))
    assert best is not None
    return best, counts


def estimate(pattern: Pattern) -> int:
    """Products that setting dense rows or columns apart needs at least, at the best degree."""
    return int(min(_estimates(pattern)[1].min(), _estimates(_turned(pattern))[1].min()))


def _estimates(pattern: Pattern, forward: float = 1.0, reverse: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Degrees above which rows could be set apart, and the price of the fullest row and column that remain."""
    degrees = np.diff(pattern.indptr)
    found = np.unique(degrees)
    if len(found) > _TRIED_THRESHOLDS:
        found = found[np.linspace(0, len(found) - 1, _TRIED_THRESHOLDS).astype(int)]
    thresholds = np.concatenate([[0], found[found > 0]])
    prices = []
    for threshold in thresholds:
        dense = degrees[pattern.rows] > threshold
        columns = np.bincount(pattern.cols[dense], minlength=1).max()
        prices.append(forward * threshold + reverse * columns)
    return thresholds, np.array(prices)


def _thresholds(pattern: Pattern, forward: float, reverse: float) -> list[tuple[int, float]]:
    """The most promising degrees, each with a price below which it cannot come."""
    thresholds, prices = _estimates(pattern, forward, reverse)
    best = np.argsort(prices, kind="stable")[:_COLORED_THRESHOLDS]
    return [(int(thresholds[i]), float(prices[i])) for i in best]


def _split(pattern: Pattern, threshold: int, order: str, seed: int) -> Sides:
    """Rows of more than `threshold` entries by reverse products, the others by forward products."""
    dense = np.diff(pattern.indptr) > threshold
    of_dense = dense[pattern.rows]
    row_colors = _fit(graphs.rows(_keep(pattern, of_dense)), order, seed)
    column_colors = _fit(graphs.columns(_keep(pattern, ~of_dense)), order, seed)
    return Sides(row_colors, column_colors, order)


def _turned(pattern: Pattern) -> Pattern:
    nets = graphs.columns(pattern)
    return Pattern.from_csr(nets.ptr, nets.idx, (pattern.shape[1], pattern.shape[0]))


def _keep(pattern: Pattern, mask: np.ndarray) -> Pattern:
    counts = np.bincount(pattern.rows[mask], minlength=pattern.shape[0])
    return Pattern.from_csr(np.concatenate([[0], np.cumsum(counts)]), pattern.cols[mask], pattern.shape)


def _fit(nets: graphs.Nets, order: str, seed: int) -> np.ndarray:
    expected = int(np.diff(nets.net_ptr).max(initial=0))
    colors, _ = first_fit.by_nets(nets, orders.arrange(nets, order, seed), expected + 8)
    colors[np.diff(nets.ptr) == 0] = -1
    return colors


def _joint(pattern: Pattern, fit: Callable[..., tuple[np.ndarray, int]], order: object, seed: int) -> Sides:
    """A colouring of rows and columns together, without the colours that need not be read."""
    m = pattern.shape[0]
    graph = graphs.bipartite(pattern)
    colors, _ = fit(graph, orders.arrange(graph, order, seed), first_fit.BITS, two_sided=True)
    row_colors, column_colors = colors[:m], colors[m:]
    first, second = row_colors[pattern.rows], column_colors[pattern.cols]
    needed = reading.cover(
        reading.alone(pattern.cols, first), reading.alone(pattern.rows, second), first, second
    )
    sides = [_renumbered(side, need) for side, need in zip((row_colors, column_colors), needed, strict=True)]
    return Sides(sides[0], sides[1], order if isinstance(order, str) else "given")


def _renumbered(colors: np.ndarray, needed: np.ndarray) -> np.ndarray:
    names = np.where(needed, np.cumsum(needed) - 1, -1)
    # A line without entries may have a colour that nothing needs.
    padded = np.concatenate([names, np.full(max(int(colors.max(initial=-1)) + 1 - len(names), 0), -1)])
    return padded[colors] if len(colors) else colors


__all__ = ["Sides", "bidirectional", "estimate"]
