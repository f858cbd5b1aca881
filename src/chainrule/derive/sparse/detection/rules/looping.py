"""Rules for loops: the body is walked once, as one boolean matrix, which is applied step by step.

A set of inputs is a row of bits here, so a step costs a few gathers and ors however large the body is. The exact
steps are taken while that is cheap; a `while` ends at its fixed point. Where it is not, everything that the body
connects is united at once, which is larger than the truth but never smaller. If the pattern depends on the number of
the step (an index that counts), a short loop is written out instead.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.core.scans import ScanParts, scan_parts
from chainrule.derive.jaxprs.equations import closed, inner_programs, is_literal
from chainrule.derive.sparse.detection import values as values_of
from chainrule.derive.sparse.detection.analysis import Analysis, Reaches, Tracked, structure
from chainrule.derive.sparse.detection.kinds import Bounds, is_exact, is_inexact
from chainrule.derive.sparse.detection.reach import Reach, blend, union
from chainrule.derive.sparse.detection.stepping import LoopStepper
from chainrule.derive.sparse.detection.values import LoopAnalysis, TrackedValue

_WRITTEN_OUT = 2000
"""Equations a loop that is written out may come to."""


@structure("scan")
def _scan(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
    values = values_of.results(equation, [cell.value for cell in operands])
    if all(cell.reach is None for cell in operands):
        return [Tracked(value, None) for value in values]
    parts = scan_parts(equation)
    program = closed(equation.params["jaxpr"])
    constants = operands[: parts.constants]
    start = operands[parts.constants : parts.constants + parts.carried]
    slices = operands[parts.constants + parts.carried :]
    loop = LoopAnalysis()
    moving = [
        *constants,
        *_carried(program, start, parts.constants, parts.length, loop),
        *(
            Tracked(_any_slice(cell.value, variable.aval, loop), cell.reach)
            for cell, variable in _sliced(program, slices)
        ),
    ]
    carried = range(parts.constants, parts.constants + parts.carried)
    stepper = LoopStepper(analysis, program, moving, carried)
    if loop.used and parts.length * equations(program) <= _WRITTEN_OUT:
        reaches = _written_out(analysis, program, parts, constants, start, slices)
    else:
        reaches = stepper.scan([cell.reach for cell in operands], parts.length, reverse=parts.reverse)
    return [Tracked(value, reach) for value, reach in zip(values, reaches, strict=True)]


@structure("while")
def _while(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
    values = values_of.results(equation, [cell.value for cell in operands])
    params = equation.params
    condition, body = closed(params["cond_jaxpr"]), closed(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    condition_constants, constants, start = operands[:first], operands[first:second], operands[second:]
    if all(cell.reach is None for cell in [*constants, *start]) and (
        analysis.smooth or all(cell.reach is None for cell in condition_constants)
    ):
        return [Tracked(value, None) for value in values]
    reaches = _known_steps(analysis, condition, body, condition_constants, constants, start)
    if reaches is None:
        carried = range(len(constants), len(constants) + len(start))
        moving = [*constants, *_carried(body, start, len(constants), None, LoopAnalysis())]
        stepper = LoopStepper(analysis, body, moving, carried)
        reaches = stepper.settle([cell.reach for cell in [*constants, *start]])
        if not analysis.smooth:
            cells = [
                *condition_constants,
                *(Tracked(v, reach) for v, reach in zip(values, reaches, strict=True)),
            ]
            if any(cell.reach is not None for cell in analysis.walk(condition, cells)):
                reaches = analysis.everything(equation.outvars, operands)
    return [Tracked(value, reach) for value, reach in zip(values, reaches, strict=True)]


def equations(program: Any) -> int:
    """Operations of a program, those of inner programs included."""
    return sum(1 + sum(equations(inner) for inner in inner_programs(one)) for one in program.eqns)


def _carried(
    program: Any, start: Sequence[Tracked], offset: int, length: int | None, loop: LoopAnalysis
) -> list[Tracked]:
    """The state at an unknown step: numbers that never change keep their value, counters their range."""
    made = []
    written_by = {variable: one for one in program.eqns for variable in one.outvars}
    for number, cell in enumerate(start):
        before, after = program.jaxpr.invars[offset + number], program.jaxpr.outvars[number]
        if before is after:
            made.append(cell)
            continue
        value = values_of.unknown(before.aval)
        writer = None if is_literal(after) else written_by.get(after)
        stride = _stride(writer, before)
        if stride is not None and length is not None:
            value = _counter(cell.value, before.aval, stride * (length - 1), loop)
        made.append(Tracked(value, cell.reach))
    return made


def _stride(writer: Any, before: Any) -> int | None:
    """What is added to a counter at each step, if a variable is one."""
    if writer is None or writer.primitive.name != "add" or is_inexact(before.aval):
        return None
    a, b = writer.invars
    if b is before:
        a, b = b, a
    return int(b.val) if a is before and is_literal(b) and np.ndim(b.val) == 0 else None


def _counter(first: TrackedValue, aval: Any, travel: int, loop: LoopAnalysis) -> TrackedValue:
    def bounds() -> Bounds | None:
        begin = first.bounds()
        return None if begin is None else (begin[0] + min(travel, 0), begin[1] + max(travel, 0))

    return values_of.of_step(aval, bounds, loop)


def _any_slice(whole: TrackedValue, aval: Any, loop: LoopAnalysis) -> TrackedValue:
    def bounds() -> Bounds | None:
        found = whole.bounds()
        return None if found is None or not len(found[0]) else (found[0].min(axis=0), found[1].max(axis=0))

    return values_of.of_step(aval, bounds, loop)


def _sliced(program: Any, slices: Sequence[Tracked]) -> list[tuple[Tracked, Any]]:
    variables = program.jaxpr.invars[len(program.jaxpr.invars) - len(slices) :]
    return list(zip(slices, variables, strict=True))


def _written_out(
    analysis: Analysis,
    program: Any,
    parts: ScanParts,
    constants: Sequence[Tracked],
    start: Sequence[Tracked],
    slices: Sequence[Tracked],
) -> Reaches:
    state = list(start)
    stacked: list[list[Reach | None]] = [[None] * parts.length for _ in range(parts.stacked)]
    for number in range(parts.length):
        step = parts.length - 1 - number if parts.reverse else number
        now = [_one_slice(cell, variable.aval, step) for cell, variable in _sliced(program, slices)]
        results = analysis.walk(program, [*constants, *state, *now])
        state = results[: parts.carried]
        for row, cell in zip(stacked, results[parts.carried :], strict=True):
            row[step] = cell.reach
    outs = program.jaxpr.outvars[parts.carried :]
    shapes = [tuple(variable.aval.shape) for variable in outs]
    return [
        *(cell.reach for cell in state),
        *(
            blend(row, [shape] * parts.length, lambda rows: np.stack(rows))
            for row, shape in zip(stacked, shapes, strict=True)
        ),
    ]


def _one_slice(cell: Tracked, aval: Any, step: int) -> Tracked:
    found = cell.value.bounds()
    value = values_of.unknown(aval)
    if found is not None:
        value = values_of.unknown(aval, (found[0][step], found[1][step]))
        if not cell.value.varies and is_exact(found):
            value = values_of.constant(aval, found[0][step].astype(aval.dtype))
    reach = None if cell.reach is None else cell.reach.map(lambda index: index[step])
    return Tracked(value, reach if reach is None or 0 not in reach.shape else None)


def _known_steps(
    analysis: Analysis,
    condition: Any,
    body: Any,
    condition_constants: Sequence[Tracked],
    constants: Sequence[Tracked],
    start: Sequence[Tracked],
) -> Reaches | None:
    """The loop written out, if it is short and its condition does not depend on the input."""
    state = list(start)
    cost = equations(body) + equations(condition)
    for _ in range(max(_WRITTEN_OUT // max(cost, 1), 1)):
        (go,) = analysis.walk(condition, [*condition_constants, *state])
        known = go.value.known() if go.reach is None else None
        if known is None:
            return None
        if not known.any():
            return [cell.reach for cell in state]
        after = analysis.walk(body, [*constants, *state])
        state = after if known.all() else list(map(functools.partial(_in_lanes, known), after, state))
    return None


def _in_lanes(going: np.ndarray, after: Tracked, before: Tracked) -> Tracked:
    """The state of a loop under `vmap`, whose lanes, the leading axes, end one by one."""
    aval = after.value.aval
    lanes = np.broadcast_to(going.reshape(going.shape + (1,) * (aval.ndim - going.ndim)), aval.shape)
    new, old = after.value.bounds(), before.value.bounds()
    chosen = None
    if new is not None and old is not None:
        low, high = (np.where(lanes, a, b) for a, b in zip(new, old, strict=True))
        chosen = low, high
    parts = [(after.reach, lanes), (before.reach, ~lanes)]
    reach = union(aval.shape, [None if one is None else one.keep(mask) for one, mask in parts])
    return Tracked(values_of.unknown(aval, chosen), reach)


__all__ = ["equations"]
