"""Loop bodies as boolean matrices, and their repeated application.

The matrix says which elements of the state, of the constants and of a step's slices every new element of the state and
of the step's output depends on. Steps are taken on rows of bits while that fits, otherwise on lazy reaches for a few
steps; beyond that, everything the body connects is united at once.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

from chainrule.derive.sparse.detection import tables
from chainrule.derive.sparse.detection.analysis import Analysis, Reaches, Tracked
from chainrule.derive.sparse.detection.kinds import is_inexact
from chainrule.derive.sparse.detection.reach import Layer, Reach, Shape, blend, seed
from chainrule.derive.sparse.detection.tables import InputSets

_ROOM = 1 << 27
"""Elements times inputs up to which sets are held as bits."""
_WORK = 1 << 28
"""Words that may be read in all steps of one loop."""
_STEPS = 64
"""Steps that are followed one by one where bits would take too much room."""


@final
class LoopStepper:
    """The body of a loop, with what moves in it laid out in one row: constants, state, slices."""

    def __init__(self, analysis: Analysis, program: Any, operands: Sequence[Tracked], state: range) -> None:
        """Walk a body once; what moves are the state and the operands that depend on something already."""
        self.width = analysis.width
        self.state = state
        self.shapes = [tuple(variable.aval.shape) for variable in program.jaxpr.invars]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.starts: list[int | None] = []
        self.size = 0
        for number, (cell, variable) in enumerate(zip(operands, program.jaxpr.invars, strict=True)):
            stateful = number in state and (not analysis.smooth or is_inexact(variable.aval))
            moves = (stateful or cell.reach is not None) and self.sizes[number] > 0
            self.starts.append(self.size if moves else None)
            self.size += self.sizes[number] if moves else 0
        cells = [
            Tracked(cell.value, None if start is None else seed(self.size, shape, start))
            for cell, start, shape in zip(operands, self.starts, self.shapes, strict=True)
        ]
        inner = Analysis(self.size, analysis.sense, analysis.notes)
        self.results = [cell.reach for cell in inner.walk(program, cells)]
        self.out_shapes = [tuple(variable.aval.shape) for variable in program.jaxpr.outvars]
        self._tables: dict[int, InputSets] = {}

    def scan(self, operands: Reaches, length: int, *, reverse: bool) -> Reaches:
        """The final state and the stacked outputs after a known number of steps."""
        order = range(length - 1, -1, -1) if reverse else range(length)
        count = len(self.state)
        final: Reaches = [operands[number] for number in self.state]
        stacked: Reaches = [None] * (len(self.results) - count)
        if length == 0:
            return [*final, *stacked]
        free = [n for n in range(count, len(self.results)) if not self._reads_state(n)]
        for number in free:
            stacked[number - count] = self._side_by_side(number, operands, length)
        busy = [n for n in range(count, len(self.results)) if n not in free and self.results[n] is not None]
        if not busy and all(result is None for result in self.results[:count]):
            return [*([None] * count), *stacked]
        steps = _Steps(self, operands, order)
        if self._fits(length, busy):
            final = steps.by_bits(busy, stacked)
        elif length <= _STEPS:
            final = steps.by_reach(busy, stacked)
        else:
            final = steps.at_once(busy, stacked)
        return [*final, *stacked]

    def settle(self, operands: Reaches) -> Reaches:
        """The state after any number of steps: the smallest reach that one more step does not change."""
        if self._fits(0, ()):
            rows = self.rows(operands)
            for _ in range(max(_WORK // max(self._nnz(()) * rows.shape[1], 1), 1)):
                before = rows.copy()
                for number, part in self.moving_state():
                    rows[part] |= tables.united_bits(self.table(number), before)
                if (rows == before).all():
                    return [self._reach(number, rows, operands) for number in range(len(self.state))]
        return _Steps(self, operands, range(0)).at_once((), [])

    def rows(self, operands: Reaches) -> np.ndarray:
        """All that moves as rows of bits; slices are left empty."""
        found = np.zeros((self.size, tables.words(self.width)), dtype=np.uint64)
        for start, size, reach in zip(self.starts, self.sizes, operands, strict=False):
            if start is not None and reach is not None:
                found[start : start + size] = tables.to_bits(reach.table(), self.width)
        return found

    def moving_state(self) -> list[tuple[int, slice]]:
        """The parts of the state that can depend on anything: number of the result, and position among what moves."""
        found = []
        for number, operand in enumerate(self.state):
            start = self.starts[operand]
            if start is not None:
                found.append((number, slice(start, start + self.sizes[operand])))
        return found

    def table(self, number: int) -> InputSets:
        """One result of the body as rows of the boolean matrix."""
        if number not in self._tables:
            result = self.results[number]
            height = math.prod(self.out_shapes[number])
            empty = InputSets(np.zeros(height + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
            self._tables[number] = empty if result is None else result.table()
        return self._tables[number]

    def joined(self, operands: Reaches) -> Reach | None:
        """All that moves in one row."""
        shapes = [(size,) for size, start in zip(self.sizes, self.starts, strict=True) if start is not None]
        parts = [
            None if reach is None else reach.reshaped((size,))
            for reach, size, start in zip(operands, self.sizes, self.starts, strict=True)
            if start is not None
        ]
        return blend(parts, shapes, np.concatenate)

    def _reach(self, number: int, rows: np.ndarray, operands: Reaches) -> Reach | None:
        operand = self.state[number]
        start = self.starts[operand]
        if start is None:
            return operands[operand]
        return reach_of(rows[start : start + self.sizes[operand]], self.shapes[operand], self.width)

    def _reads_state(self, number: int) -> bool:
        read = self.table(number).indices
        return any(bool(((read >= part.start) & (read < part.stop)).any()) for _, part in self.moving_state())

    def _side_by_side(self, number: int, operands: Reaches, length: int) -> Reach | None:
        """An output that does not read the state is the same at every step, on that step's slices."""
        result = self.results[number]
        if result is None:
            return None
        last = self.state.stop
        shapes = [
            (length, size) for size, start in zip(self.sizes, self.starts, strict=True) if start is not None
        ]
        parts: Reaches = []
        for operand, (reach, size, start) in enumerate(zip(operands, self.sizes, self.starts, strict=True)):
            if start is None:
                continue
            if operand in self.state or reach is None:
                parts.append(None)
            elif operand >= last:
                parts.append(reach.reshaped((length, size)))
            else:
                parts.append(reach.reshaped((1, size)).spread((length, size)))
        whole = blend(parts, shapes, lambda rows: np.concatenate(rows, axis=1))
        return None if whole is None else _repeated(result, length).through(whole)

    def _nnz(self, outputs: Sequence[int]) -> int:
        return sum(self.table(number).nnz for number in [*range(len(self.state)), *outputs])

    def _fits(self, length: int, outputs: Sequence[int]) -> bool:
        sliced = sum(
            size
            for size, start in zip(self.sizes[self.state.stop :], self.starts[self.state.stop :], strict=True)
            if start is not None
        )
        room = (self.size + sliced * length) * max(self.width, 64)
        return room <= _ROOM and length * self._nnz(outputs) * tables.words(self.width) <= _WORK


@final
class _Steps:
    """One run of a loop."""

    def __init__(self, body: LoopStepper, operands: Reaches, order: range) -> None:
        self.body = body
        self.operands = operands
        self.order = order
        last = body.state.stop
        self.slices = [
            (number, slice(start, start + body.sizes[number]))
            for number, start in enumerate(body.starts)
            if number >= last and start is not None
        ]

    def by_bits(self, busy: Sequence[int], stacked: Reaches) -> Reaches:
        """Exact steps on rows of bits, stopping early when nothing changes any more."""
        body = self.body
        rows = body.rows(self.operands[: body.state.stop])
        sliced = {number: self._sliced(number) for number, _ in self.slices}
        found: dict[int, dict[int, np.ndarray]] = {number: {} for number in busy}
        for step in self.order:
            for number, part in self.slices:
                rows[part] = sliced[number][step]
            for number in busy:
                found[number][step] = tables.united_bits(body.table(number), rows)
            before = rows.copy()
            for number, part in body.moving_state():
                rows[part] = tables.united_bits(body.table(number), before)
            if not self.slices and (rows == before).all():
                break
        for number in busy:
            stacked[number - len(body.state)] = self._stacked(number, found[number])
        return [body._reach(number, rows, self.operands) for number in range(len(body.state))]

    def _sliced(self, number: int) -> np.ndarray:
        """The slices of all steps as rows of bits: (step, element, word)."""
        reach, size = self.operands[number], self.body.sizes[number]
        assert reach is not None
        return tables.to_bits(reach.table(), self.body.width).reshape(len(self.order), size, -1)

    def _stacked(self, number: int, found: dict[int, np.ndarray]) -> Reach | None:
        body = self.body
        shape = (len(self.order), *body.out_shapes[number])
        steps = list(found)
        height = math.prod(body.out_shapes[number])
        if not height:
            return None
        table = tables.from_bits(np.concatenate([found[step] for step in steps]), body.width)
        # Steps after nothing changed any more look like the last one that was taken.
        row_of = {step: row for row, step in enumerate(steps)}
        which = np.array([row_of.get(step, len(steps) - 1) for step in range(len(self.order))])
        index = which[:, None] * height + np.arange(height)
        return (
            Reach(body.width, shape, [Layer(index.astype(np.int32).reshape(shape), table)])
            if table.nnz
            else None
        )

    def by_reach(self, busy: Sequence[int], stacked: Reaches) -> Reaches:
        """Exact steps on lazy reaches."""
        body = self.body
        now = list(self.operands)
        rows: dict[int, Reaches] = {number: [None] * len(self.order) for number in busy}
        for step in self.order:
            for number, _ in self.slices:
                whole = self.operands[number]
                now[number] = None if whole is None else whole.map(lambda index, step=step: index[step])  # type: ignore[misc]
            row = body.joined(now)
            for number in busy:
                rows[number][step] = _follow(body.results[number], row)
            after = [_follow(body.results[number], row) for number in range(len(body.state))]
            for number, operand in enumerate(body.state):
                now[operand] = after[number]
        for number in busy:
            shapes = [body.out_shapes[number]] * len(self.order)
            stacked[number - len(body.state)] = blend(rows[number], shapes, np.stack)
        return [now[operand] for operand in body.state]

    def at_once(self, busy: Sequence[int], stacked: Reaches) -> Reaches:
        """Unite all that the body connects: never too small, whatever the number of steps."""
        body = self.body
        first = list(self.operands)
        for number, _ in self.slices:
            whole = self.operands[number]
            first[number] = None if whole is None else whole.reduce((0,))
        row = body.joined(first)
        pairs = [(part.start, body.table(number).to_pairs()) for number, part in body.moving_state()]
        rows = np.concatenate([start + owners for start, (owners, _) in pairs] or [np.zeros(0, np.int64)])
        columns = np.concatenate([read for _, (_, read) in pairs] or [np.zeros(0, np.int32)])
        block = blocks(rows, columns, body.size)
        total = None if row is None else row.collect(block, (int(block.max(initial=-1)) + 1,))
        spread = None if total is None else total.take(block)
        for number in busy:
            found = _follow(body.results[number], spread)
            shape = (len(self.order), *body.out_shapes[number])
            stacked[number - len(body.state)] = None if found is None else found.spread(shape)
        final: Reaches = [self.operands[operand] for operand in body.state]
        for number, part in body.moving_state():
            shape = body.shapes[body.state[number]]
            final[number] = (
                None
                if spread is None
                else spread.map(
                    lambda index, part=part, shape=shape: index[part].reshape(shape)  # type: ignore[misc]
                )
            )
        return final


def reach_of(rows: np.ndarray, shape: Shape, width: int) -> Reach | None:
    """Rows of bits as a reach."""
    table = tables.from_bits(rows, width)
    if not table.nnz:
        return None
    return Reach(width, shape, [Layer(np.arange(table.height, dtype=np.int32).reshape(shape), table)])


def blocks(rows: np.ndarray, columns: np.ndarray, size: int) -> np.ndarray:
    """Number of the connected block every element belongs to."""
    graph = scipy.sparse.coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(size, size))
    return np.asarray(csgraph.connected_components(graph, directed=False)[1])


def _follow(result: Reach | None, row: Reach | None) -> Reach | None:
    return None if result is None else result.through(row)


def _repeated(reach: Reach, count: int) -> Reach:
    """A reach over one step's operands as one over those of `count` steps, side by side."""
    shift = np.arange(count, dtype=np.int32)
    ahead = (slice(None), *[None] * len(reach.shape))
    layers = []
    for index, table in reach.layers:
        if table is None:
            layers.append(
                Layer(np.where(index < 0, -1, index + shift[ahead] * reach.width).astype(np.int32), None)
            )
            continue
        many = np.where(index < 0, -1, index + shift[ahead] * table.height).astype(np.int32)
        starts = (table.indptr[:-1] + shift[:, None] * table.nnz).reshape(-1)
        indices = (table.indices + shift[:, None] * reach.width).reshape(-1).astype(np.int32)
        layers.append(Layer(many, InputSets(np.append(starts, count * table.nnz), indices)))
    return Reach(reach.width * count, (count, *reach.shape), layers)


__all__ = ["LoopStepper", "blocks"]
