"""Layered graph layout from left to right (Sugiyama, Tagawa and Toda, 1981).

Longest-path layering, stand-ins for edges that skip layers, crossings reduced by barycentres, and heights by
alternating least squares: each layer takes the heights closest to the mean of its neighbours that keep the order and
the spacing (isotonic regression).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

_ROUNDS = 12


@final
@dataclass(frozen=True)
class LayeredLayout:
    """Centres of the boxes, the points each edge passes, and the size of the whole."""

    x: np.ndarray
    y: np.ndarray
    room: np.ndarray
    """The width of each box's column."""
    routes: list[list[tuple[float, float]]]
    width: float
    height: float


def depth(count: int, links: Sequence[tuple[int, int]]) -> int:
    """How many layers a drawing of these links has."""
    return max(_layers(count, links), default=-1) + 1


def arrange(
    widths: Sequence[float],
    heights: Sequence[float],
    links: Sequence[tuple[int, int]],
    *,
    between: float,
    apart: float,
) -> LayeredLayout:
    """Place boxes of the given sizes so that all links run to the right, `between` layers and `apart` within one."""
    layers = _layers(len(widths), links)
    heights = list(heights)
    chains: list[list[int]] = []
    for tail, head in links:  # stand-ins keep a lane free for a link that passes other layers
        chain = [tail]
        for layer in range(layers[tail] + 1, layers[head]):
            layers.append(layer)
            heights.append(14.0)
            chain.append(len(layers) - 1)
        chains.append([*chain, head])
    count = max(layers, default=-1) + 1
    rows: list[list[int]] = [[] for _ in range(count)]
    for one, layer in enumerate(layers):
        rows[layer].append(one)
    before, after = _neighbours(len(layers), chains)
    _reduce_crossings(rows, before, after)
    lanes = {one: chain[1:-1] for chain in chains for one in chain[1:-1]}
    y = _heights(rows, before, after, lanes, np.asarray(heights), apart)
    columns = [max((widths[one] for one in row if one < len(widths)), default=0.0) for row in rows]
    starts = np.concatenate([[0.0], np.cumsum(np.asarray(columns) + between)])[: max(count, 1)]
    x = np.array([starts[layer] + columns[layer] / 2 for layer in layers])
    if len(layers):
        y = y - min(y[one] - heights[one] / 2 for one in range(len(layers)))
    routes = [
        [(float(x[one]), float(y[one]), float(columns[layers[one]])) for one in chain] for chain in chains
    ]
    return LayeredLayout(
        x=x[: len(widths)],
        y=y[: len(widths)],
        room=np.array([columns[layer] for layer in layers[: len(widths)]]),
        routes=[_route(points) for points in routes],
        width=float(starts[-1] + columns[-1]) if count else 0.0,
        height=float(max((y[one] + heights[one] / 2 for one in range(len(layers))), default=0.0)),
    )


def _route(points: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """A stand-in is crossed from one side of its layer to the other, so links run straight beside boxes."""
    route = []
    for position, (x, y, width) in enumerate(points):
        if position in (0, len(points) - 1):
            route.append((x, y))
        else:
            route += [(x - width / 2, y), (x + width / 2, y)]
    return route


def _layers(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for tail, head in links:
        after[tail].append(head)
        waiting[head] += 1
    layers = [0] * count
    ready = [one for one in range(count) if not waiting[one]]
    sources = list(ready)
    while ready:
        one = ready.pop()
        for head in after[one]:
            layers[head] = max(layers[head], layers[one] + 1)
            waiting[head] -= 1
            if not waiting[head]:
                ready.append(head)
    for one in sources:  # an input stands right before its first use
        if after[one]:
            layers[one] = min(layers[head] for head in after[one]) - 1
    return layers


def _neighbours(count: int, chains: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for tail, head in itertools.pairwise(chain):
            after[tail].append(head)
            before[head].append(tail)
    return before, after


def _reduce_crossings(rows: list[list[int]], before: list[list[int]], after: list[list[int]]) -> None:
    best, fewest = [list(row) for row in rows], _crossings(rows, after)
    for turn in range(_ROUNDS):
        neighbours = before if turn % 2 == 0 else after
        for row in rows if turn % 2 == 0 else reversed(rows):
            index = {one: i for other in rows for i, one in enumerate(other)}
            row.sort(key=lambda one: _mean([index[n] for n in neighbours[one]], index[one]))
        crossings = _crossings(rows, after)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, kept in zip(rows, best, strict=True):
        row[:] = kept


def _mean(indices: list[int], otherwise: float) -> float:
    return sum(indices) / len(indices) if indices else float(otherwise)


def _crossings(rows: list[list[int]], after: list[list[int]]) -> int:
    total = 0
    for row, following in itertools.pairwise(rows):
        index = {one: i for i, one in enumerate(following)}
        ends = np.array([index[head] for tail in row for head in sorted(after[tail], key=index.__getitem__)])
        total += int(sum((ends[:i] > end).sum() for i, end in enumerate(ends)))
    return total


def _heights(
    rows: list[list[int]],
    before: list[list[int]],
    after: list[list[int]],
    lanes: dict[int, list[int]],
    heights: np.ndarray,
    apart: float,
) -> np.ndarray:
    """Alternate over the layers; stand-ins of one link agree on one height, so that long links run straight."""
    # Stand-ins pull hard; a box without operands (a parameter, say) makes room rather than bending what it joins.
    pull = np.array([4.0 if one in lanes else 1.0 if before[one] else 0.02 for one in range(len(heights))])
    both = [b + a for b, a in zip(before, after, strict=True)]
    y = np.zeros(len(heights))
    for row in rows:
        y[row] = np.cumsum(heights[row] + apart)
        y[row] -= y[row].mean() if row else 0.0
    for turn in range(5 * _ROUNDS):
        neighbours = both if turn >= 2 * _ROUNDS else (before, after)[turn % 2]
        for row in rows if turn % 2 == 0 else reversed(rows):
            wanted = []
            for one in row:
                near = lanes[one] if one in lanes and turn >= 2 * _ROUNDS else neighbours[one]
                wanted.append(np.average(y[near], weights=pull[near]) if near else y[one])
            gaps = (heights[row][:-1] + heights[row][1:]) / 2 + apart
            y[row] = _spaced(np.array(wanted), gaps, pull[row])
    return y


def _spaced(wanted: np.ndarray, gaps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The numbers closest to `wanted` in weighted least squares whose successive differences are at least `gaps`."""
    offsets = np.concatenate([[0.0], np.cumsum(gaps)])
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted - offsets, weights, strict=True):
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            other, other_weight, other_count = blocks.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, count = weight + other_weight, count + other_count
        blocks.append((mean, float(weight), count))
    return np.concatenate([np.full(count, mean) for mean, _, count in blocks]) + offsets


__all__ = ["LayeredLayout", "arrange", "depth"]
