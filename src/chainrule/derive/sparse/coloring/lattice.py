"""Lattice colouring of stencils in closed form: a linear function of the grid coordinates modulo the number of colours.

Banded matrices, grids with or without wrap-around, several fields per grid point in any layout: their column numbers
are numbers in a mixed radix (field, line, position in the line), and columns that meet in a row differ by few
distinct vectors of digits. A linear form modulo k that is zero on none of them is a colouring. First fit rarely finds
those: a periodic grid of 30 by 30 with two fields needs 6 colours, and greedy orders find about 10.
"""

import functools
import itertools

import numpy as np

from chainrule.derive.sparse.coloring.graphs import Nets

_MOST_DIFFERENCES = 600
_MOST_COLORS = 32
_SAMPLED_NETS = 64
_MOST_FORMS = 40_000
_AT_ONCE = 6


def lattice(graph: Nets, least: int, below: int) -> tuple[np.ndarray, int] | None:
    """A colouring of this kind with at least `least` and fewer than `below` colours, if one is found."""
    if below > _MOST_COLORS or least >= below or least < 2:
        return None
    pairs = [_pairs(graph.net_idx[graph.net_ptr[i] : graph.net_ptr[i + 1]]) for i in _sample(graph)]
    left, right = (np.concatenate(side).astype(np.int64) for side in zip(*pairs, strict=True))
    grids = []
    for strides in _radices(graph.vertices, right - left):
        differences = _distinct(_digits(right, strides) - _digits(left, strides))
        if len(differences) <= _MOST_DIFFERENCES:
            grids.append((strides, differences))
    for k in range(least, below):
        for strides, differences in grids:
            colors = _linear(graph, strides, differences, k)
            if colors is not None:
                return colors, k
    return None


def _sample(graph: Nets) -> np.ndarray:
    """Nets spread evenly, and one of every span: at the edges of a grid nets are longer or shorter than inside."""
    nets = np.flatnonzero(np.diff(graph.net_ptr) > 1)
    spans = graph.net_idx[graph.net_ptr[nets + 1] - 1] - graph.net_idx[graph.net_ptr[nets]]
    _, first = np.unique(spans, return_index=True)
    even = np.linspace(0, len(nets) - 1, min(len(nets), _SAMPLED_NETS)).astype(np.int64)
    return nets[np.unique(np.concatenate([even, first[:_SAMPLED_NETS]]))]


def _pairs(members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = _corner(len(members))
    return members[first], members[second]


_corner = functools.lru_cache(maxsize=8)(
    functools.partial(np.triu_indices, k=1)
)  # most nets have one of few lengths


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The different rows of a table of integers, told apart by one number each."""
    low = rows.min(axis=0)
    spans = rows.max(axis=0) - low + 1
    if np.prod(spans.astype(float)) >= 2.0**62:
        return np.unique(rows, axis=0)
    keys = np.ravel_multi_index(tuple((rows - low).T), tuple(spans))
    return np.stack(np.unravel_index(np.unique(keys), tuple(spans)), axis=1) + low


def _radices(n: int, gaps: np.ndarray) -> list[list[int]]:
    """Chains of strides, each a multiple of the one before, taken from distances that are frequent in the pattern."""
    distances, counts = np.unique(np.abs(gaps), return_counts=True)
    common = distances[np.argsort(-counts, kind="stable")][:24]
    strides = sorted({int(d) for d in common if 1 < d < n and n % d == 0})[:10]
    chains = [[1]]
    for length in (1, 2):
        chains += [
            [1, *chain]
            for chain in itertools.combinations(strides, length)
            if all(b % a == 0 for a, b in itertools.pairwise(chain))
        ]
    return chains


def _digits(numbers: np.ndarray, strides: list[int]) -> np.ndarray:
    """The coordinates of vertex numbers, one column each."""
    found = []
    for stride, above in itertools.pairwise([*strides, 0]):
        quotient = numbers // stride
        found.append(quotient % (above // stride) if above else quotient)
    return np.stack(found, axis=1)


def _linear(graph: Nets, strides: list[int], differences: np.ndarray, k: int) -> np.ndarray | None:
    if k ** len(strides) > _MOST_FORMS:
        return None
    forms = np.stack(np.unravel_index(np.arange(k ** len(strides)), (k,) * len(strides)), axis=1)
    remaining = _distinct(differences % k)
    while len(remaining) and len(
        forms
    ):  # a few at a time: where there is no regularity, the first leave no form
        forms = forms[((forms @ remaining[:_AT_ONCE].T) % k != 0).all(axis=1)]
        remaining = remaining[_AT_ONCE:]
    for form in forms[:4]:
        colors = (_digits(np.arange(graph.vertices), strides) @ form) % k
        if _separates(graph, colors, k):
            return np.asarray(colors)
    return None


def _separates(graph: Nets, colors: np.ndarray, k: int) -> bool:
    nets = np.repeat(np.arange(graph.nets), np.diff(graph.net_ptr))
    return int(np.bincount(nets * k + colors[graph.net_idx]).max(initial=0)) <= 1


__all__ = ["lattice"]
