"""Drawings of decision processes: states and moves as a graph, grids with values and the best moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from chainrule.agents.envs.drawing import Drawing, Line, Point, Polygon, Rectangle, Shape, Text

_WIDE, _HIGH = 108.0, 50.0
"""Of a state of a graph."""
_CELL = 56
_HEAD = 9.0
_CURVE = 24
"""Points of a curved line."""
DIRECTIONS: Mapping[str, Point] = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
"""Moves on a grid that are drawn as arrows, by the name of the action."""


@final
@dataclass(frozen=True)
class GraphMove:
    """An arrow from one state to another."""

    start: int
    end: int
    words: str
    strong: bool = False


def transition_graph(
    names: Sequence[str],
    middles: Sequence[Point],
    moves: Sequence[GraphMove],
    lines: Sequence[str],
    values: Float[np.ndarray, "states"],
    size: tuple[int, int],
    label: str,
) -> Drawing:
    """States as boxes, shaded by value (orange below 0, green above), with a line of text each; moves as arrows."""
    both = {(move.start, move.end) for move in moves}
    shapes: list[Shape] = []
    for move in moves:
        bend = 0.16 if (move.end, move.start) in both and move.start != move.end else 0.0
        shapes += _arrow(middles[move.start], middles[move.end], bend, move)
    most = float(np.abs(values).max()) or 1.0
    for name, (x, y), line, value in zip(names, middles, lines, values, strict=True):
        corner = (x - _WIDE / 2, y - _HIGH / 2)
        shade = 0.12 + 0.5 * abs(float(value)) / most
        shapes += [
            Rectangle(*corner, _WIDE, _HIGH, "paper", 10),
            Rectangle(*corner, _WIDE, _HIGH, "3" if value >= 0 else "2", 10, opacity=shade),
            Text(x, y - 10, name, "ink", 13),
            Text(x, y + 10, line, "ink", 12),
        ]
    return Drawing(*size, tuple(shapes), label)


def _arrow(start: Point, end: Point, bend: float, move: GraphMove) -> list[Shape]:
    a, b = np.array(start), np.array(end)
    if move.start == move.end:
        turn = np.linspace(0.80 * np.pi, 2.20 * np.pi, _CURVE)
        points = a + np.array([0.0, -_HIGH / 2 - 10]) + 19 * np.stack([np.cos(turn), np.sin(turn)], 1)
        at = a + np.array([0.0, -_HIGH / 2 - 38])
    else:
        across = np.array([-(b - a)[1], (b - a)[0]])
        middle = (a + b) / 2 + bend * across
        t = np.linspace(0, 1, 4 * _CURVE)[:, None]
        points = (1 - t) ** 2 * a + 2 * t * (1 - t) * middle + t**2 * b
        points = points[_outside(points, a) & _outside(points, b)]
        at = points[len(points) // 2] + _aside(across, move.words)
    color, width = ("1", 3.0) if move.strong else ("axis", 1.6)
    line = Line([(float(x), float(y)) for x, y in points[:-2]], color, width)
    return [
        line,
        _head(points[-4], points[-1], color),
        Text(float(at[0]), float(at[1]), move.words, "soft", 12),
    ]


def _outside(points: np.ndarray, middle: np.ndarray) -> np.ndarray:
    far = np.abs(points - middle) > np.array([_WIDE / 2 + 3, _HIGH / 2 + 3])
    return np.asarray(far.any(1))


def _aside(across: np.ndarray, words: str) -> np.ndarray:
    """Away from the line, far enough that words do not stand on it."""
    way = across / np.linalg.norm(across)
    found: np.ndarray = (10 + 3.5 * len(words) * abs(way[0])) * way
    return found


def _head(before: np.ndarray, tip: np.ndarray, color: str, size: float = _HEAD) -> Polygon:
    along = (tip - before) / (np.linalg.norm(tip - before) or 1.0)
    across = np.array([-along[1], along[0]])
    corners = (tip, tip - size * along + 0.45 * size * across, tip - size * along - 0.45 * size * across)
    return Polygon([(float(x), float(y)) for x, y in corners], color)


def value_grid(
    values: Float[np.ndarray, "height width"],
    actions: Sequence[Sequence[str]],
    background: Sequence[str],
    label: str,
    scale: float,
) -> Drawing:
    """Cells with their values and arrows of the best actions.

    `actions` and `background` have an entry for each cell, row by row: names of actions (none: nothing is to be decided
    there, and no value is written) and the role of a colour. Values are shaded up to `scale`.
    """
    height, width = values.shape
    shapes: list[Shape] = []
    for number, (value, names, color) in enumerate(zip(values.ravel(), actions, background, strict=True)):
        row, column = divmod(number, width)
        x, y = _CELL * column + 1, _CELL * row + 1
        free = bool(names)
        shapes.append(Rectangle(x, y, _CELL - 2, _CELL - 2, "box" if free else color, 6))
        if not free:
            continue
        tint = min(1.0, abs(float(value)) / scale) if scale > 0 else 0.0
        shapes.append(
            Rectangle(x, y, _CELL - 2, _CELL - 2, "3" if value >= 0 else "2", 6, opacity=0.04 + 0.6 * tint)
        )
        middle = np.array([x + _CELL / 2 - 1, y + _CELL / 2 + 8])
        shapes.append(Text(float(middle[0]), y + 13, f"{value:.3g}", "ink", 12))
        for name in names:
            if name in DIRECTIONS:
                step = np.array(DIRECTIONS[name])
                tip = middle + 15 * step
                shapes.append(Line([_point(middle), _point(middle + 10 * step)], "1", 2))
                shapes.append(_head(middle, tip, "1", 7.0))
    return Drawing(_CELL * width, _CELL * height, tuple(shapes), label)


def _point(at: np.ndarray) -> Point:
    return float(at[0]), float(at[1])


__all__ = ["DIRECTIONS", "GraphMove", "transition_graph", "value_grid"]
