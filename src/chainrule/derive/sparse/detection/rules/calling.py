"""Rules for calls, custom derivatives and branches, which hold programs run once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.derive.jaxprs.equations import closed
from chainrule.derive.sparse.detection import values as values_of
from chainrule.derive.sparse.detection.analysis import (
    Analysis,
    Dependence,
    NotCovered,
    Reaches,
    Tracked,
    rule,
    structure,
)
from chainrule.derive.sparse.detection.kinds import Bounds, is_inexact
from chainrule.derive.sparse.detection.reach import Reach, seed, union
from chainrule.derive.sparse.detection.values import TrackedValue


@structure("jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "composite")
def _call(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
    params = equation.params
    program = closed(params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"])
    return analysis.walk(program, operands)


@structure("custom_jvp_call", "custom_vjp_call", "custom_vmap_call")
def _custom(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
    params = equation.params
    program = closed(params["call"] if "call" in params else params["call_jaxpr"])
    if not analysis.slopes:
        return analysis.walk(program, operands)
    found = analysis.walk(program, [Tracked(cell.value, None) for cell in operands])
    if all(cell.reach is None for cell in operands):
        return found
    # The numbers are those of the function, the slopes those of its rule.
    reaches = analysis.slopes_of(equation, operands)
    return [Tracked(cell.value, reach) for cell, reach in zip(found, reaches, strict=True)]


@structure("linear_call")
def _linear_call(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
    return analysis.walk(closed(equation.params["callee"]), operands)


@structure("cond")
def _branch(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> list[Tracked]:
    which, *rest = operands
    branches = equation.params["branches"]
    bounds = which.value.bounds()
    low, high = (0, len(branches) - 1) if bounds is None else (int(bounds[0]), int(bounds[1]))
    last = len(branches) - 1
    chosen = branches[min(max(low, 0), last) : min(max(high, 0), last) + 1]
    outcomes = [analysis.walk(branch, rest) for branch in chosen]
    if len(outcomes) == 1 and which.reach is None:
        return outcomes[0]
    made = []
    for variable, *cells in zip(equation.outvars, *outcomes, strict=True):
        shape = tuple(variable.aval.shape)
        reach = union(shape, [which.reach, *(cell.reach for cell in cells)])
        made.append(Tracked(joined(variable.aval, [cell.value for cell in cells]), reach))
    return made


def joined(aval: Any, values: Sequence[TrackedValue]) -> TrackedValue:
    """A value that is one of several."""
    bounds: list[Bounds | None] = [value.bounds() for value in values]
    masks = [value.mask() for value in values]
    some = [one for one in bounds if one is not None]
    hull = None
    if len(some) == len(bounds):
        hull = (np.minimum.reduce([one[0] for one in some]), np.maximum.reduce([one[1] for one in some]))
    known = [mask for mask in masks if mask is not None]
    return values_of.unknown(aval, hull, np.logical_or.reduce(known) if len(known) == len(masks) else None)


@rule("custom_lin")
def _custom_reverse(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    """The forward side of a custom reverse rule: what the rule reads of each cotangent, turned round."""
    kept = equation.params["num_res"]
    residuals, tangents = operands[:kept], operands[kept:]
    if any(cell.reach is not None for cell in residuals):
        raise NotCovered
    outs = [variable for variable in equation.outvars if is_inexact(variable.aval)]
    starts = np.cumsum([0, *(variable.aval.size for variable in outs)])
    width = int(starts[-1])
    program = analysis.notes.transposed(equation, kept)
    cotangents = [
        Tracked(values_of.unknown(v.aval), seed(width, tuple(v.aval.shape), int(start)))
        for v, start in zip(outs, starts, strict=False)
    ]
    inner = Analysis(width, Dependence.ANY, analysis.notes)
    back = inner.walk(program, [*(Tracked(cell.value, None) for cell in residuals), *cotangents])
    parts: dict[Any, list[Reach | None]] = {variable: [] for variable in outs}
    for cell, answer in zip(tangents, back, strict=True):
        if cell.reach is None or answer.reach is None:
            continue
        elements, reads = answer.reach.table().to_pairs()
        for variable, start in zip(outs, starts, strict=False):
            mine = (reads >= start) & (reads < start + variable.aval.size)
            shape = tuple(variable.aval.shape)
            parts[variable].append(cell.reach.connect(reads[mine] - start, elements[mine], shape))
    return [union(tuple(v.aval.shape), parts[v]) if v in parts else None for v in equation.outvars]


__all__ = ["joined"]
