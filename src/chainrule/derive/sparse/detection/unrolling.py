"""Loops of unknown length, rewritten for reverse mode with the same sparsity pattern.

JAX has no reverse mode for a `while` loop, so a gradient's program cannot be walked where there is one. Here each such
loop becomes a short `scan` whose steps may or may not take place, each decided by a truth value that nobody knows. What
depends on what in it covers every number of steps that the loop could take: if the dependences between elements of the
state are closed after d steps, then what meets in any step of a longer run can meet after d + 1 (one to enter the state
from a constant of the loop) and reach the result within d more. So 2 d + 2 steps show every second derivative there can
be. The numbers it would compute mean nothing.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.extend.core import ClosedJaxpr, Literal

from chainrule.core.scans import scan_parts
from chainrule.derive.jaxprs.equations import closed, inner_programs, is_plain_call
from chainrule.derive.jaxprs.local import function_of
from chainrule.derive.sparse.detection import values as values_of
from chainrule.derive.sparse.detection.analysis import Analysis, Dependence, Notes, Tracked
from chainrule.derive.sparse.detection.reach import seed

STEPS = 64
"""Steps a loop may be rewritten to; truth values that the rewritten program takes."""


class NotClosed(Exception):
    """A loop needs more steps until everything has met than are worth following."""


def has_loop(program: ClosedJaxpr) -> bool:
    """Whether a program or one inside it has a `while` loop."""
    return any(
        equation.primitive.name == "while" or any(map(has_loop, inner_programs(equation)))
        for equation in program.eqns
    )


def run(program: ClosedJaxpr, operands: Sequence[Any], perhaps: Any) -> list[Any]:
    """The program at these operands with its loops rewritten; `perhaps` are `STEPS` truth values that decide."""
    cells: dict[Any, Any] = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    cells.update(zip(program.jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else cells[atom]

    for equation in program.eqns:
        results = _step(equation, [read(atom) for atom in equation.invars], perhaps)
        cells.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in program.jaxpr.outvars]


def _step(equation: Any, operands: Sequence[Any], perhaps: Any) -> Sequence[Any]:
    name, params = equation.primitive.name, equation.params
    if name == "while":
        return _perhaps_steps(equation, operands, perhaps)
    if any(map(has_loop, inner_programs(equation))):
        if is_plain_call(equation):
            (inner,) = inner_programs(equation)
            return run(inner, operands, perhaps)
        if name == "cond":
            branches = [
                lambda *rest, branch=branch: run(branch, rest, perhaps) for branch in params["branches"]
            ]
            return list(jax.lax.switch(operands[0], branches, *operands[1:]))
        if name == "scan":
            return _scan(equation, operands, perhaps)
    return function_of(equation)(*operands)  # which also knows how to call functions with rules of their own


def _scan(equation: Any, operands: Sequence[Any], perhaps: Any) -> list[Any]:
    parts = scan_parts(equation)
    body = closed(equation.params["jaxpr"])
    ends = parts.constants, parts.constants + parts.carried

    def step(state: Any, part: Any) -> Any:
        results = run(body, [*operands[: ends[0]], *state, *part], perhaps)
        return results[: parts.carried], results[parts.carried :]

    final, stacked = jax.lax.scan(
        step,
        list(operands[ends[0] : ends[1]]),
        list(operands[ends[1] :]),
        length=parts.length,
        reverse=parts.reverse,
    )
    return [*final, *stacked]


def _perhaps_steps(equation: Any, operands: Sequence[Any], perhaps: Any) -> list[Any]:
    params = equation.params
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    body, constants = closed(params["body_jaxpr"]), operands[first:second]
    steps = 2 * _closed_after(body, len(constants)) + 2

    def step(state: Any, go: Any) -> Any:
        after = run(body, [*constants, *state], perhaps)
        return [jnp.where(go, new, old) for new, old in zip(after, state, strict=True)], None

    final, _ = jax.lax.scan(step, [jnp.asarray(one) for one in operands[second:]], perhaps[:steps])
    return final


def _closed_after(body: ClosedJaxpr, constants: int) -> int:
    """Steps after which more steps of a loop bring no more dependences between elements of its state."""
    variables = body.jaxpr.invars[constants:]
    starts = np.cumsum([0, *(variable.aval.size for variable in variables)])
    size = int(starts[-1])
    cells = [Tracked(values_of.unknown(variable.aval), None) for variable in body.jaxpr.invars[:constants]]
    cells += [
        Tracked(values_of.unknown(variable.aval), seed(size, tuple(variable.aval.shape), int(start)))
        for variable, start in zip(variables, starts, strict=False)
    ]
    rows, columns = [np.arange(size)], [np.arange(size)]
    for cell, start in zip(
        Analysis(size, Dependence.SLOPES, Notes()).walk(body, cells), starts, strict=False
    ):
        if cell.reach is not None:
            row, column = cell.reach.table().to_pairs()
            rows.append(row + start)
            columns.append(column)
    row, column = np.concatenate(rows), np.concatenate(columns)
    one = scipy.sparse.csr_array((np.ones(len(row), dtype=bool), (row, column)), shape=(size, size))
    reached, steps = one, 1
    while 2 * steps + 2 <= STEPS:
        further = reached @ one
        if further.nnz == reached.nnz:
            return steps
        reached, steps = further, steps + 1
    raise NotClosed


__all__ = ["STEPS", "NotClosed", "has_loop", "run"]
