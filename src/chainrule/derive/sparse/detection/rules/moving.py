"""Rules for data movement: slices, reshapes, concatenations, gathers, scatters and their relatives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.derive.sparse.detection import windows
from chainrule.derive.sparse.detection.analysis import Analysis, NotCovered, Reaches, Tracked, rule
from chainrule.derive.sparse.detection.kinds import Bounds, is_exact
from chainrule.derive.sparse.detection.moves import MOVES
from chainrule.derive.sparse.detection.reach import Reach, blend, union
from chainrule.derive.sparse.detection.windows import IndexWindows


@rule(*MOVES)
def _move(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    move = MOVES[equation.primitive.name]
    count = len(equation.outvars)
    if len(operands) == 1:
        reach = operands[0].reach
        assert reach is not None
        if count == 1:
            return [_sized(reach.map(lambda index: move(equation.params, index)[0]))]
        return [
            _sized(reach.map(lambda index, n=number: move(equation.params, index)[n]))  # type: ignore[misc]
            for number in range(count)
        ]
    shapes = [tuple(atom.aval.shape) for atom in equation.invars]
    return [blend([cell.reach for cell in operands], shapes, lambda parts: move(equation.params, *parts)[0])]


def _sized(reach: Reach) -> Reach | None:
    return reach if 0 not in reach.shape else None


@rule("gather", "dynamic_slice")
def _gather(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    source, *indices = operands
    if any(cell.reach is not None for cell in indices) or source.reach is None:
        raise NotCovered
    where = windows.of(equation)
    begins, blurred, _certain = _begins(where, indices)
    reach = _blur(source.reach, where, begins, blurred)
    if reach is None:
        return [None]
    exact = {axis: low for axis, (low, _) in begins.items() if axis not in blurred}
    return [reach.take(windows.element_positions(where, exact, blurred))]


@rule(
    "scatter",
    "scatter-add",
    "scatter-sub",
    "scatter-mul",
    "scatter-min",
    "scatter-max",
    "dynamic_update_slice",
)
def _scatter(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    name = equation.primitive.name
    target, indices, updates = (
        (operands[0], operands[2:], operands[1])
        if name == "dynamic_update_slice"
        else (operands[0], operands[1:2], operands[2])
    )
    if any(cell.reach is not None for cell in indices):
        raise NotCovered
    where = windows.of(equation)
    begins, blurred, certain = _begins(where, indices)
    exact = {axis: low for axis, (low, _) in begins.items() if axis not in blurred}
    positions = windows.element_positions(where, exact, blurred)
    arrived = None
    if updates.reach is not None:
        shape = tuple(1 if axis in blurred else size for axis, size in enumerate(where.shape))
        arrived = updates.reach.collect(positions, shape)
        arrived = (
            None if arrived is None else arrived.spread(where.shape).keep(_range(where, begins, blurred))
        )
    kept = target.reach
    if kept is not None and windows.replaces(equation) and certain:
        untouched = np.ones(where.shape, dtype=bool)
        untouched.reshape(-1)[positions[positions >= 0]] = False
        kept = kept.keep(untouched)
    return [union(where.shape, [kept, arrived])]


def _begins(where: IndexWindows, indices: Sequence[Tracked]) -> tuple[dict[int, Bounds], set[int], bool]:
    """Bounds of the window starts along every indexed axis, the axes along which they are unknown, and if none is."""
    found: dict[int, Bounds] = {}
    blurred: set[int] = set()
    certain = True
    needed = where.loose if where.clip else where.indexed
    for axis, component in _components(where, indices, bounded=bool(needed)).items():
        if component is not None and is_exact(component):
            found[axis] = component
        elif axis in where.loose:
            blurred.add(axis)
            certain = False
            if component is not None:
                found[axis] = component
        else:  # a window as long as the axis lies at its beginning or, where that is allowed, nowhere
            zeros = np.zeros(where.batch, dtype=np.int64)
            found[axis] = (zeros, zeros)
            certain = certain and where.clip
    return found, blurred, certain


def _components(
    where: IndexWindows, indices: Sequence[Tracked], *, bounded: bool
) -> dict[int, Bounds | None]:
    bounds = [cell.value.bounds() if bounded else None for cell in indices]
    if not where.batch and len(indices) == len(where.indexed) and indices[0].value.aval.ndim == 0:
        return dict(zip(where.indexed, bounds, strict=True))
    (only,) = bounds
    if only is None:
        return dict.fromkeys(where.indexed)
    return {axis: (only[0][..., n], only[1][..., n]) for n, axis in enumerate(where.indexed)}


def _span(where: IndexWindows, axis: int, bounds: Bounds | None) -> tuple[int, int]:
    """First and last-but-one position a window may touch along an axis."""
    length, window = where.shape[axis], where.sizes[axis]
    if bounds is None or not bounds[0].size:
        return 0, length
    low, high = int(bounds[0].min()), int(bounds[1].max())
    if where.clip:
        low, high = min(max(low, 0), length - window), min(max(high, 0), length - window)
    return max(low, 0), max(min(high + window, length), 0)


def _blur(reach: Reach, where: IndexWindows, begins: dict[int, Bounds], blurred: set[int]) -> Reach | None:
    """Unite along the axes where the windows' position is unknown, over the range they can be in."""
    if not blurred:
        return reach
    cut = tuple(
        slice(*_span(where, axis, begins.get(axis))) if axis in blurred else slice(None)
        for axis in range(len(where.shape))
    )
    part = reach.map(lambda index: index[cut])
    if 0 in part.shape:
        return None
    short = part.reduce(sorted(blurred))
    shape = tuple(1 if axis in blurred else size for axis, size in enumerate(where.shape))
    return None if short is None else short.reshaped(shape)


def _range(where: IndexWindows, begins: dict[int, Bounds], blurred: set[int]) -> np.ndarray | None:
    """Where windows of unknown position can lie at all."""
    if not blurred:
        return None
    inside = np.ones((1,) * len(where.shape), dtype=bool)
    for axis in blurred:
        first, last = _span(where, axis, begins.get(axis))
        line = np.zeros(where.shape[axis], dtype=bool)
        line[first:last] = True
        inside = inside & line.reshape([-1 if a == axis else 1 for a in range(len(where.shape))])
    return np.broadcast_to(inside, where.shape)


__all__: list[str] = []
