"""Star colourings with fewer colours: give up one colour, then colour its vertices at the cost of others.

The colouring is always a star colouring of the vertices that have a colour. One of the others takes the colour that
takes the fewest vertices theirs: its neighbours of that colour, and vertices of that colour two steps away with which
it would form a path of four vertices in two colours. A vertex does not get a colour back for a while after it lost
it. Everything that matters for one vertex lies within three steps, so a move costs no more on a large graph.

Reference: Blöchliger, Zufferey, A graph coloring heuristic using partial solutions and a reactive tabu scheme,
Computers & Operations Research 35 (2008), whose scheme for proper colourings is carried over to stars here.
"""

# Long because a compiled loop calls no other: choosing a move and making it is one function.

import time
from typing import Any

import numpy as np

from chainrule.derive.sparse.coloring.compiled import CompiledLoop
from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph

_MOST_CELLS = 4_000_000
"""Vertices times colours."""
_MOST_STEPS = 200_000
"""Steps around a vertex up to which looking at one is cheap enough; those around a hub would be the whole graph."""
_PIECE = 2_000_000
"""Steps between two readings of the clock."""
_PATIENCE = 32
"""Such pieces without fewer vertices left over, before a number of colours is given up; fewer on small graphs."""
_STIR = 8
"""Every so many such pieces colours are barred for longer, which leads out of corners."""
_CANDIDATES = 8
"""Vertices looked at for a move."""


def improved(
    graph: AdjacencyGraph, colors: np.ndarray, count: int, least: int, deadline: float
) -> tuple[np.ndarray, int] | None:
    """A star colouring with fewer than `count` colours, or `None`."""
    n, steps = graph.vertices, _steps(graph)
    if n * count > _MOST_CELLS or steps.max(initial=0.0) > _MOST_STEPS:
        return None
    moves = max(1, int(_PIECE / (_CANDIDATES * (float(steps.mean()) + count))))
    best = None
    while count > max(least, 2):
        found = _completed(graph, _dissolved(colors, count), count - 1, moves, deadline)
        if found is None:
            break
        colors, count = found, count - 1
        best = (colors, count)
    return best


def _steps(graph: AdjacencyGraph) -> np.ndarray:
    """Walks of three steps from each vertex: what looking at it costs at most."""
    starts = np.repeat(np.arange(graph.vertices), graph.degrees)
    walks: np.ndarray = np.ones(graph.vertices)
    for _ in range(3):
        walks = np.bincount(starts, walks[graph.idx], minlength=graph.vertices)
    return walks


def _dissolved(colors: np.ndarray, count: int) -> np.ndarray:
    """Colours without the smallest class, whose vertices have none."""
    made = colors.astype(np.int64)
    gone = int(np.bincount(made, minlength=count).argmin())
    last = made == count - 1
    homeless = made == gone
    made[last] = gone
    made[homeless] = -1
    return made


def _completed(
    graph: AdjacencyGraph, colors: np.ndarray, count: int, moves: int, deadline: float
) -> np.ndarray | None:
    """A colouring of every vertex, from one of some of them; `None` if it is not found in time."""
    n = graph.vertices
    left = np.flatnonzero(colors < 0)
    waiting = np.zeros(n, dtype=np.int64)
    waiting[: len(left)] = left
    barred = np.zeros(n * count, dtype=np.int64)
    price, near = (np.zeros(count, dtype=np.int64) for _ in range(2))
    # Number of vertices without a colour, the fewest there were, moves made, random state.
    state = np.array([len(left), len(left), 0, 1], dtype=np.int64)
    idle, fewest, patience = 0, len(left), min(_PATIENCE, 1 + n // 8)
    while state[0] and idle < patience and time.perf_counter() < deadline:
        spread = 100 if idle % _STIR == _STIR - 1 else 10
        given = (graph.ptr, graph.idx, count, moves, spread)
        _move(_PIECE, *given, colors, waiting, barred, price, near, state)
        idle = 0 if state[1] < fewest else idle + 1
        fewest = int(state[1])
    return None if state[0] else colors


@CompiledLoop
def _move(
    ptr: Any,
    idx: Any,
    count: int,
    moves: int,
    spread: int,
    colors: Any,
    waiting: Any,
    barred: Any,
    price: Any,
    near: Any,
    state: Any,
) -> int:
    size, fewest, now, random = state[0], state[1], state[2], state[3]
    for _ in range(moves):
        if size == 0:
            break
        random = (random * 1103515245 + 12345) & 0x7FFFFFFF
        start = (random >> 8) % size
        least, ties, who, where = 1 << 40, 0, -1, -1
        for t in range(min(size, _CANDIDATES)):
            slot = (start + t) % size
            v = waiting[slot]
            for c in range(count):
                price[c] = 0
                near[c] = 0
            for e in range(ptr[v], ptr[v + 1]):
                a = colors[idx[e]]
                if a >= 0:
                    near[a] += 1
                    price[a] += 1
            for e in range(ptr[v], ptr[v + 1]):
                w = idx[e]
                a = colors[w]
                if a < 0:
                    continue
                for f in range(ptr[w], ptr[w + 1]):
                    x = idx[f]
                    c = colors[x]
                    if c < 0 or x == v:
                        continue
                    if near[a] > 1:
                        price[c] += 1
                    else:
                        for g in range(ptr[x], ptr[x + 1]):
                            if idx[g] != w and colors[idx[g]] == a:
                                price[c] += 1
                                break
            for c in range(count):
                if price[c] > least or (barred[v * count + c] > now and price[c] > 0):
                    continue
                ties = 1 if price[c] < least else ties + 1
                random = (random * 1103515245 + 12345) & 0x7FFFFFFF
                if price[c] < least or (random >> 8) % ties == 0:
                    least, who, where = price[c], slot, c
        now += 1
        if who < 0:
            continue
        v = waiting[who]
        size -= 1
        waiting[who] = waiting[size]
        for c in range(count):
            near[c] = 0
        for e in range(ptr[v], ptr[v + 1]):
            if colors[idx[e]] >= 0:
                near[colors[idx[e]]] += 1
        first = size
        for e in range(ptr[v], ptr[v + 1]):
            w = idx[e]
            if colors[w] == where:
                colors[w] = -1
                waiting[size] = w
                size += 1
        for e in range(ptr[v], ptr[v + 1]):
            w = idx[e]
            a = colors[w]
            if a < 0:
                continue
            for f in range(ptr[w], ptr[w + 1]):
                x = idx[f]
                if colors[x] != where:
                    continue
                meets = 1 if near[a] > 1 else 0
                for g in range(ptr[x], ptr[x + 1]):
                    if idx[g] != w and colors[idx[g]] == a:
                        meets = 1
                        break
                if meets:
                    colors[x] = -1
                    waiting[size] = x
                    size += 1
        colors[v] = where
        for t in range(first, size):
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            barred[waiting[t] * count + where] = now + size + (random >> 8) % spread
        fewest = min(fewest, size)
    state[0], state[1], state[2], state[3] = size, fewest, now, random
    return size


__all__ = ["improved"]
