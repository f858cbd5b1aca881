"""Drawings of tree searches: the most visited moves, and those after them, with what the search knows of each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.agents.envs.drawing import Drawing, Line, Point, Rectangle, Shape, Text
from chainrule.agents.tree_search.reference import SearchNode

_WIDE, _HIGH, _GAP, _LEVEL = 92.0, 62.0, 8.0, 108.0
WIDEST = (4, 2, 1)
"""Moves that are drawn of the root, of each position after it, and so on."""


class _Box(NamedTuple):
    """A position, where it is drawn, and those that are drawn below it, each with its move."""

    node: SearchNode
    x: float
    below: Sequence[tuple[int, "_Box"]]


def search_tree(
    root: SearchNode, move_name: Callable[[int], str], c: float, label: str, widest: Sequence[int] = WIDEST
) -> Drawing:
    """The tree from its root down, at most `widest` moves of every position of a level, the most visited first.

    In a box: the move that leads there, its visits N, its mean value Q for who makes it (green above 0, orange below),
    the share U that keeps it interesting, and the prior P. Lines are as thick as the share of visits.
    """
    placed, right = _placed(root, _GAP, widest)
    depth = _depth(placed)
    height = round(_HIGH + depth * _LEVEL + 2 * _GAP)
    shapes = _drawn(placed, 0, move_name, c)
    top = (placed.x - _WIDE / 2, _GAP)
    shapes += [
        Rectangle(*top, _WIDE, _HIGH, "box", 8),
        Text(placed.x, _GAP + 20, "position", "ink", 13),
        Text(placed.x, _GAP + 40, f"N {int(root.visits.sum())}   V {root.value:+.2f}", "soft", 11),
    ]
    return Drawing(round(right), height, tuple(shapes), label)


def _placed(node: SearchNode, left: float, widest: Sequence[int]) -> tuple[_Box, float]:
    """A position above those that are drawn below it, and where the next one may begin."""
    chosen = np.argsort(-node.visits, kind="stable")[: widest[0] if widest else 0]
    below, right = [], left
    for action in (int(a) for a in chosen if node.visits[a]):
        box, right = _placed(node.children[action], right, widest[1:])
        below.append((action, box))
    if not below:
        return _Box(node, left + _WIDE / 2, ()), left + _WIDE + _GAP
    middle = (below[0][1].x + below[-1][1].x) / 2
    return _Box(node, middle, below), right


def _depth(box: _Box) -> int:
    return max((1 + _depth(child) for _, child in box.below), default=0)


def _drawn(box: _Box, level: int, move_name: Callable[[int], str], c: float) -> list[Shape]:
    shapes: list[Shape] = []
    node, total = box.node, max(int(box.node.visits.sum()), 1)
    bonus = c * node.prior * np.sqrt(1 + node.visits.sum()) / (1 + node.visits)
    low, high = _GAP + level * _LEVEL + _HIGH, _GAP + (level + 1) * _LEVEL
    for action, child in box.below:
        ends: tuple[Point, Point] = ((box.x, low), (child.x, high))
        shapes.append(Line(ends, "axis", 1 + 7 * float(node.visits[action]) / total))
        shapes += _drawn(child, level + 1, move_name, c)
        x, q = child.x, float(node.q[action])
        corner = (x - _WIDE / 2, high)
        shapes += [
            Rectangle(*corner, _WIDE, _HIGH, "paper", 8),
            Rectangle(*corner, _WIDE, _HIGH, "3" if q >= 0 else "2", 8, opacity=0.1 + 0.5 * min(abs(q), 1.0)),
            Text(x, high + 15, f"{move_name(action)}   N {int(node.visits[action])}", "ink", 13),
            Text(x, high + 34, f"Q {q:+.2f}   U {bonus[action]:.2f}", "ink", 11),
            Text(x, high + 50, f"P {node.prior[action]:.2f}", "ink", 11),
        ]
    return shapes


__all__ = ["WIDEST", "search_tree"]
