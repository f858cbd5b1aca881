"""Rules for reductions: sums, cumulative operations, windows, sorting, transforms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.derive.sparse.detection import tables
from chainrule.derive.sparse.detection.analysis import Analysis, NotCovered, Reaches, Tracked, rule
from chainrule.derive.sparse.detection.arithmetic import sorting_order
from chainrule.derive.sparse.detection.contraction import window_positions
from chainrule.derive.sparse.detection.reach import Reach


@rule("reduce_sum", "reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin")
def _reduce(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    return [_given(operands).reduce(tuple(map(int, equation.params["axes"])))]  # vmap makes them NumPy's


@rule("reduce_max", "reduce_min", "reduce_prod")
def _extreme(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    _unless_local(analysis, operands)
    return _reduce(analysis, equation, operands)


@rule("cumsum")
def _cumulative(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    reach, axis = _given(operands), equation.params["axis"]
    return [running(reach, axis, reverse=equation.params["reverse"])]


@rule("cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulative_other(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    _unless_local(analysis, operands)
    return _cumulative(analysis, equation, operands)


@rule("sort")
def _sort(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    axis = equation.params["dimension"]
    keys = [cell.value.bounds() for cell in operands[: equation.params["num_keys"]]]
    order = sorting_order(equation, keys)
    if order is not None:
        return [
            None if cell.reach is None else cell.reach.map(lambda i: np.take_along_axis(i, order, axis))
            for cell in operands
        ]
    _unless_local(analysis, operands)
    if analysis.slopes:
        return [
            None if cell.reach is None else mixed(cell.reach, (axis,), cell.reach.shape) for cell in operands
        ]
    raise NotCovered


@rule("top_k")
def _top_k(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    _unless_local(analysis, operands)
    reach = _given(operands)
    axis = equation.params.get("axis", -1) % len(reach.shape)
    return [mixed(reach, (axis,), tuple(variable.aval.shape)) for variable in equation.outvars]


@rule("fft")
def _fft(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    reach = _given(operands)
    count = len(equation.params["fft_lengths"])
    axes = tuple(range(len(reach.shape) - count, len(reach.shape)))
    return [mixed(reach, axes, tuple(equation.outvars[0].aval.shape))]


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "select_and_gather_add")
def _windows(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    if any(cell.reach is not None for cell in operands[1:]):
        raise NotCovered
    reach = _given(operands)
    shape = tuple(equation.outvars[0].aval.shape)
    seen = reach.take(_seen(equation, reach.shape, shape))
    found = None if seen is None else seen.reduce((1,))
    return [None if found is None else found.reshaped(shape)]


@rule("select_and_scatter_add")
def _windows_back(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    source, operand = operands
    if operand.reach is not None or source.reach is None:
        raise NotCovered
    shape = tuple(equation.outvars[0].aval.shape)
    positions = _seen(equation, shape, source.reach.shape)
    spots = np.broadcast_to(np.arange(len(positions))[:, None], positions.shape)
    inside = positions >= 0
    return [source.reach.connect(positions[inside], spots[inside], shape)]


def running(reach: Reach, axis: int, *, reverse: bool) -> Reach | None:
    """Every element depends on those before it along an axis (after it, if reversed) and on itself."""
    length = reach.shape[axis]
    tables.reserve(math.prod(reach.shape) * (length + 1) // 2)
    order = np.arange(length)
    earlier = order[None, :] >= order[:, None] if reverse else order[None, :] <= order[:, None]
    return related(reach, axis, earlier)


def related(reach: Reach, axis: int, relation: np.ndarray) -> Reach | None:
    """Along one axis, element i of the result depends on the elements j with `relation[i, j]`."""
    shape = tuple(relation.shape[0] if a == axis else size for a, size in enumerate(reach.shape))
    moved = reach.map(lambda index: np.moveaxis(index, axis, -1))
    rest = moved.shape[:-1]
    count = math.prod(rest)
    tables.reserve(int(np.count_nonzero(relation)) * count)
    outs, ins = np.nonzero(relation)
    lines = np.arange(count)[:, None]
    found = moved.connect(
        (lines * relation.shape[0] + outs).reshape(-1),
        (lines * relation.shape[1] + ins).reshape(-1),
        (*rest, relation.shape[0]),
    )
    if found is None:
        return None
    back = found.map(lambda index: np.moveaxis(index, -1, axis))
    assert back.shape == shape
    return back


def mixed(reach: Reach, axes: Sequence[int], shape: tuple[int, ...]) -> Reach | None:
    """Along some axes every element of the result depends on every element of the operand."""
    total = reach.reduce(axes)
    if total is None or 0 in shape:
        return None
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(reach.shape))
    return total.reshaped(kept).spread(shape)


def _seen(equation: Any, shape: Sequence[int], out_shape: Sequence[int]) -> np.ndarray:
    params = equation.params
    ones = (1,) * len(shape)
    return window_positions(
        shape,
        out_shape,
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params.get("base_dilation", ones),
        params.get("window_dilation", ones),
    )


def _given(operands: Sequence[Tracked]) -> Reach:
    reach = operands[0].reach
    if reach is None:
        raise NotCovered
    return reach


def _unless_local(analysis: Analysis, operands: Sequence[Tracked]) -> None:
    """At a point, the derivative that JAX takes knows which elements are the largest."""
    if analysis.slopes and any(cell.value.point is not None for cell in operands):
        raise NotCovered


__all__ = ["mixed", "related", "running"]
