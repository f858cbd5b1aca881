"""Rules for products, convolutions and linear solves."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.derive.sparse.detection import contraction, tables
from chainrule.derive.sparse.detection.analysis import Analysis, NotCovered, Reaches, Tracked, rule
from chainrule.derive.sparse.detection.contraction import Convolution
from chainrule.derive.sparse.detection.kinds import Mask
from chainrule.derive.sparse.detection.reach import Reach, union
from chainrule.derive.sparse.detection.rules.summing import mixed, related


@rule("dot_general")
def _dot(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    dot = contraction.dot_of(equation)
    left, right = operands
    parts = []
    for mine, other, axes, others, flip in (
        (left, right, dot.left, dot.right, False),
        (right, left, dot.right, dot.left, True),
    ):
        if mine.reach is None:
            continue
        reach = mine.reach.map(lambda index, axes=axes: contraction.arranged(index, axes))  # type: ignore[misc]
        mask = other.value.mask()
        columns = math.prod(other.value.aval.shape[axis] for axis in others[1])
        found = _contract(reach, None if mask is None else contraction.arranged(mask, others), columns)
        if found is not None:
            turned = found.map(lambda index: index.swapaxes(1, 2)) if flip else found
            parts.append(turned.reshaped(dot.out_shape))
    return [union(dot.out_shape, parts)]


def _contract(reach: Reach, mask: Mask | None, columns: int) -> Reach | None:
    """(batch, kept, summed) times a factor that is zero where its mask (batch, columns, summed) is false."""
    batch, kept, summed = reach.shape
    if mask is None:
        total = reach.reduce((2,))
        if total is None or columns == 0:
            return None
        return total.reshaped((batch, kept, 1)).spread((batch, kept, columns))
    tables.reserve(int(np.count_nonzero(mask)) * kept)
    lot, column, inner = np.nonzero(mask)
    rows = np.arange(kept)[:, None]
    outs = (lot * kept + rows) * columns + column
    ins = (lot * kept + rows) * summed + inner
    return reach.connect(outs.reshape(-1), ins.reshape(-1), (batch, kept, columns))


@rule("conv_general_dilated")
def _convolution(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    image, kernel = operands
    form = contraction.convolution_of(equation)
    shape = (form.groups, form.batch, form.outs, form.spots)
    parts = []
    if image.reach is not None:
        mask = kernel.value.mask()
        parts.append(
            _of_image(image.reach.map(form.image), form, None if mask is None else form.kernel(mask), shape)
        )
    if kernel.reach is not None:
        parts.append(_of_kernel(kernel.reach.map(form.kernel), form, shape))
    found = union(shape, parts)
    return [None if found is None else found.map(form.result)]


def _of_image(reach: Reach, form: Convolution, mask: Mask | None, shape: tuple[int, ...]) -> Reach | None:
    if mask is None:
        channels = reach.reduce((2,))
        lines = np.arange(form.groups * form.batch).reshape(form.groups, form.batch, 1, 1) * form.pixels
        seen = None if channels is None else channels.take(_inside(lines, form.positions))
        spots = None if seen is None else seen.reduce((3,))
        return None if spots is None else spots.reshaped((*shape[:2], 1, shape[3])).spread(shape)
    tables.reserve(int(np.count_nonzero(mask)) * form.batch * form.spots)
    group, out, channel, tap = np.nonzero(mask)
    lots, spots_axis = np.arange(form.batch)[:, None, None], np.arange(form.spots)[None, :, None]
    outs = ((group * form.batch + lots) * form.outs + out) * form.spots + spots_axis
    lines = ((group * form.batch + lots) * form.channels + channel) * form.pixels
    ins = _inside(lines, form.positions[:, tap][None])
    outs, ins = np.broadcast_arrays(outs, ins)
    present = ins >= 0
    return reach.connect(outs[present], ins[present], shape)


def _of_kernel(reach: Reach, form: Convolution, shape: tuple[int, ...]) -> Reach | None:
    channels = reach.reduce((2,))
    lines = np.arange(form.groups * form.outs).reshape(form.groups, form.outs, 1, 1) * form.taps
    taps = np.where(form.positions >= 0, np.arange(form.taps), -1)
    seen = None if channels is None else channels.take(_inside(lines, taps))
    spots = None if seen is None else seen.reduce((3,))
    return None if spots is None else spots.reshaped((shape[0], 1, *shape[2:])).spread(shape)


def _inside(lines: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return np.where(positions >= 0, lines + positions, -1)


@rule("triangular_solve")
def _triangular_solve(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    matrix, given = operands
    if matrix.reach is not None or given.reach is None:
        raise NotCovered
    params = equation.params
    size = matrix.value.aval.shape[-1]
    tables.reserve(size**2)
    mask = matrix.value.mask()
    side = np.tril if params["lower"] else np.triu
    solved = side(np.ones((size, size), dtype=bool))
    if mask is not None:
        solved = closure(side(mask.reshape(-1, size, size).any(axis=0)))
    # x = A^-1 b, or with A on the right x = b A^-1: then rows of A^-1 are read as columns.
    if params["transpose_a"] == params["left_side"]:
        solved = solved.T
    return [related(given.reach, len(given.reach.shape) - (2 if params["left_side"] else 1), solved)]


@rule("tridiagonal_solve")
def _tridiagonal_solve(_: Analysis, __: Any, operands: Sequence[Tracked]) -> Reaches:
    if any(cell.reach is not None for cell in operands[:3]) or operands[3].reach is None:
        raise NotCovered
    reach = operands[3].reach
    return [mixed(reach, (len(reach.shape) - 2,), reach.shape)]


def closure(relation: np.ndarray) -> np.ndarray:
    """The smallest reflexive and transitive relation that holds wherever this one does."""
    found = relation | np.eye(len(relation), dtype=bool)
    while True:
        step = found.astype(np.float32)
        longer = step @ step > 0
        if (longer == found).all():
            return longer
        found = longer


__all__ = ["closure"]
