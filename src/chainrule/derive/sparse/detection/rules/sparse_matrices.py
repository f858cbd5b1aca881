"""Rules for products with JAX's own sparse matrices: one dependence per stored entry."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.derive.sparse.detection.analysis import Analysis, NotCovered, Reaches, Tracked, rule
from chainrule.derive.sparse.detection.reach import union


@rule("bcoo_dot_general")
def _coordinates(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    data, indices, right = operands
    positions = indices.value.known()
    if positions is None or indices.value.aval.ndim != 2 or data.value.aval.ndim != 1:
        raise NotCovered
    return _product(equation, data, positions, right)


@rule("bcsr_dot_general")
def _rows(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    data, columns, starts, right = operands
    column, start = columns.value.known(), starts.value.known()
    if column is None or start is None or column.ndim != 1 or data.value.aval.ndim != 1:
        raise NotCovered
    rows = np.searchsorted(start, np.arange(len(column)), side="right") - 1
    return _product(equation, data, np.stack([rows, column], axis=1), right)


def _product(equation: Any, data: Tracked, positions: np.ndarray, right: Tracked) -> Reaches:
    (left_sum, right_sum), (left_batch, _) = equation.params["dimension_numbers"]
    shape = equation.params["lhs_spinfo"].shape
    if left_batch or positions.shape[1] != len(shape):
        raise NotCovered
    stored = np.flatnonzero((positions < np.asarray(shape)).all(axis=1))  # padding points outside
    positions = positions[stored]
    kept = [axis for axis in range(len(shape)) if axis not in left_sum]
    rows = _flat(positions[:, kept], [shape[axis] for axis in kept])
    across = right.value.aval.shape
    free = [axis for axis in range(len(across)) if axis not in right_sum]
    rest = math.prod(across[axis] for axis in free)
    columns = _flat(positions[:, list(left_sum)], [across[axis] for axis in right_sum])
    out_shape = tuple(equation.outvars[0].aval.shape)
    outs = (rows[:, None] * rest + np.arange(rest)).reshape(-1)
    parts = []
    if right.reach is not None:
        arranged = right.reach.map(lambda index: index.transpose([*right_sum, *free]))
        parts.append(
            arranged.connect(outs, (columns[:, None] * rest + np.arange(rest)).reshape(-1), out_shape)
        )
    if data.reach is not None:
        parts.append(data.reach.connect(outs, np.repeat(stored, rest), out_shape))
    return [union(out_shape, parts)]


def _flat(positions: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    if not len(shape):
        return np.zeros(len(positions), dtype=np.int64)
    return np.ravel_multi_index(tuple(positions.T), tuple(shape)).astype(np.int64)


__all__: list[str] = []
