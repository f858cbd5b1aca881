"""Exact colouring by branch and bound, for graphs of up to sixteen vertices.

Vertices are coloured in turn with every colour used so far or one new colour, so that no two branches differ only in
the names of colours; a branch ends as soon as a coloured part breaks the rule. The search gives up after a fixed
number of steps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.derive.sparse.coloring.graphs import AdjacencyGraph, Nets

MOST_VERTICES = 16
_MOST_STEPS = 60_000

Allowed = Callable[[list[int], int], bool]
"""(colours so far, -1 for none; the vertex coloured last) -> whether the rule still holds around that vertex."""


def fewest(
    neighbours: Sequence[set[int]], allowed: Allowed, least: int, below: int
) -> tuple[np.ndarray, int] | None:
    """A colouring with the fewest colours if that is less than `below`; `None` if there is none.

    Raises `TimeoutError` when the search is too long to tell.
    """
    order = sorted(range(len(neighbours)), key=lambda v: -len(neighbours[v]))
    steps = 0

    def search(colors: list[int], depth: int, used: int, k: int) -> bool:
        nonlocal steps
        steps += 1
        if steps > _MOST_STEPS:
            raise TimeoutError
        if depth == len(order):
            return True
        v = order[depth]
        for color in range(min(used + 1, k)):
            colors[v] = color
            if allowed(colors, v) and search(colors, depth + 1, max(used, color + 1), k):
                return True
        colors[v] = -1
        return False

    for k in range(max(least, 1), below):
        colors = [-1] * len(order)
        if search(colors, 0, 0, k):
            return np.array(colors, dtype=np.int64), k
    return None


def meeting(graph: Nets) -> list[set[int]]:
    """For each vertex those it shares a net with."""
    found: list[set[int]] = [set() for _ in range(graph.vertices)]
    for i in range(graph.nets):
        members = graph.net_idx[graph.net_ptr[i] : graph.net_ptr[i + 1]].tolist()
        for v in members:
            found[v].update(members)
    return [around - {v} for v, around in enumerate(found)]


def beside(graph: AdjacencyGraph) -> list[set[int]]:
    """For each vertex its neighbours."""
    return [set(graph.idx[graph.ptr[v] : graph.ptr[v + 1]].tolist()) for v in range(graph.vertices)]


def rule(method: str, neighbours: Sequence[set[int]]) -> Allowed:
    """What a method demands, judged at the vertex coloured last."""

    def proper(colors: list[int], v: int) -> bool:
        return all(colors[w] != colors[v] for w in neighbours[v])

    def no_two_colored_path(colors: list[int], v: int) -> bool:
        return proper(colors, v) and not any(_starts_path(colors, v, w, neighbours) for w in neighbours[v])

    def no_two_colored_cycle(colors: list[int], v: int) -> bool:
        around = {colors[w] for w in neighbours[v]} - {-1}
        return proper(colors, v) and not any(_on_cycle(colors, v, c, neighbours) for c in around)

    rules: dict[str, Allowed] = {"star": no_two_colored_path, "acyclic": no_two_colored_cycle}
    return rules.get(method, proper)


def _starts_path(colors: list[int], v: int, w: int, neighbours: Sequence[set[int]]) -> bool:
    """Whether some two-coloured path on four vertices holds the edge from v to w, with v at its end or inside."""
    mine, other = colors[v], colors[w]
    if other < 0:
        return False
    after_w = [x for x in neighbours[w] if x != v and colors[x] == mine]
    ends = any(y != w and colors[y] == other for x in after_w for y in neighbours[x])
    inside = bool(after_w) and any(x != w and colors[x] == other for x in neighbours[v])
    return ends or inside


def _on_cycle(colors: list[int], v: int, other: int, neighbours: Sequence[set[int]]) -> bool:
    """Whether v lies on a cycle of its own colour and another one."""
    pair = {colors[v], other}
    starts = [w for w in neighbours[v] if colors[w] == other]
    for number, start in enumerate(starts):
        reached: set[Any] = {v, start}
        waiting = [start]
        while waiting:
            for x in neighbours[waiting.pop()]:
                if x not in reached and colors[x] in pair:
                    reached.add(x)
                    waiting.append(x)
        if reached.intersection(starts[:number]):
            return True
    return False


__all__ = ["MOST_VERTICES", "beside", "fewest", "meeting", "rule"]
