"""Conditional independence read off a directed graph: d-separation with the path that disproves it, Markov blankets.

Reference: Koller and Friedman, Probabilistic Graphical Models, MIT Press, 2009, section 3.3.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import final

Parents = Mapping[str, tuple[str, ...]]
"""The parents of every node."""


@final
@dataclass(frozen=True)
class DSeparation:
    """Whether two sets of nodes are d-separated, so that every model on the graph makes them independent."""

    value: bool
    witness: tuple[str, ...] | None
    """An active path between them, node by node; none if they are separated."""

    def __bool__(self) -> bool:
        return self.value


def separation(
    parents: Parents, a: Collection[str], b: Collection[str], given: Collection[str]
) -> DSeparation:
    """Search for an active path: one whose chains and forks avoid `given` and whose colliders lead into it."""
    children = children_of(parents)
    opened = ancestors(parents, given)
    # A search state is a node and whether the path came into it from a child ("up") or from a parent.
    came_from: dict[tuple[str, bool], tuple[str, bool] | None] = {(node, True): None for node in a}
    frontier = list(came_from)
    while frontier:
        node, up = frontier.pop(0)
        if node in b and node not in given:
            return DSeparation(False, _path(came_from, (node, up)))
        steps: list[tuple[str, bool]] = []
        if up and node not in given:
            steps = [(one, True) for one in parents[node]] + [(one, False) for one in children[node]]
        elif not up:
            steps = [(one, False) for one in children[node]] if node not in given else []
            steps += [(one, True) for one in parents[node]] if node in opened else []
        for step in steps:
            if step not in came_from:
                came_from[step] = (node, up)
                frontier.append(step)
    return DSeparation(True, None)


def children_of(parents: Parents) -> dict[str, tuple[str, ...]]:
    """The children of every node."""
    return {name: tuple(child for child, of in parents.items() if name in of) for name in parents}


def ancestors(parents: Parents, nodes: Collection[str]) -> set[str]:
    """Nodes that lead to one of these, and these themselves."""
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(parents[node])
    return found


def find_cycle(parents: Parents) -> tuple[str, ...] | None:
    """A cycle along the arrows, its first node repeated at the end; none if there is none."""
    done: set[str] = set()
    for root in parents:
        path: list[str] = []
        waiting = [(root, False)]
        while waiting:
            node, leaving = waiting.pop()
            if leaving:
                path.pop()
                done.add(node)
            elif node in path:
                return tuple(reversed([*path[path.index(node) :], node]))
            elif node not in done:
                path.append(node)
                waiting.append((node, True))
                waiting.extend((one, False) for one in parents[node])
    return None


def _path(
    came_from: Mapping[tuple[str, bool], tuple[str, bool] | None], end: tuple[str, bool]
) -> tuple[str, ...]:
    path = [end[0]]
    step = came_from[end]
    while step is not None:
        path.append(step[0])
        step = came_from[step]
    return tuple(reversed(path))


__all__ = ["DSeparation", "Parents", "ancestors", "children_of", "find_cycle", "separation"]
