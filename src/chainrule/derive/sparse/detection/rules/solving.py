"""Rules for linear solves whose matrix is a program: JAX's `custom_linear_solve` and lineax's `linear_solve`.

The inverse of an invertible matrix is a polynomial in it (Cayley and Hamilton), so an entry of the solution depends on
those of the right-hand side that a chain of nonzero entries leads to: itself for a diagonal matrix, all before it for a
lower triangular one, its own block for a block-diagonal one. A pseudoinverse couples whatever the matrix connects.
"""

from collections.abc import Sequence
from typing import Any

import equinox.internal as eqxi
import jax
import numpy as np
import scipy.sparse
from jax.extend.core import ClosedJaxpr
from scipy.sparse import csgraph

from chainrule.derive.sparse.detection import values as values_of
from chainrule.derive.sparse.detection.analysis import (
    Analysis,
    Dependence,
    NotCovered,
    Reaches,
    Tracked,
    rule,
)
from chainrule.derive.sparse.detection.reach import Reach, seed, union
from chainrule.derive.sparse.detection.stepping import blocks

_CHAINS = 1 << 24
"""Pairs of elements up to which chains are followed; beyond, whatever is connected counts as coupled."""


@rule("custom_linear_solve")
def _linear_solve(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    lengths, programs = equation.params["const_lengths"], equation.params["jaxprs"]
    constants = sum(lengths)
    if any(cell.reach is not None for cell in operands[:constants]):
        raise NotCovered
    given = operands[constants:]
    matrix = _matrix(analysis, programs.matvec, operands[: lengths.matvec], [c.value.aval for c in given])
    if matrix is None:
        return analysis.everything(equation.outvars, given)
    rows, columns = matrix
    size = sum(cell.value.aval.size for cell in given)
    return _solved(given, equation.outvars, *_chains(rows, columns, size))


@rule("linear_solve")
def _lineax_solve(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    """Operands are the leaves of (operator, state, vector, options, solver, throw), results those of the solution."""
    params = equation.params
    avals = [cell.value.aval for cell in operands]
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    operator, solver = (_arguments(params, shapes)[number] for number in (0, 4))
    vector = jax.tree.leaves(_arguments(params, range(len(operands)))[2])
    if any(cell.reach is not None for number, cell in enumerate(operands) if number not in vector):
        raise NotCovered
    inputs = jax.tree.leaves(operator.in_structure())
    given = [operands[number] for number in vector]
    solution, rest = equation.outvars[: len(inputs)], equation.outvars[len(inputs) :]

    def product(leaves: Sequence[Any], direction: Any) -> Any:
        return _arguments(params, leaves)[0].mv(direction)

    program = jax.make_jaxpr(product)(shapes, operator.in_structure())
    fixed = [Tracked(cell.value, None) for cell in operands]
    matrix = _matrix(analysis, program, fixed, inputs)
    if matrix is None:
        return analysis.everything(equation.outvars, given)
    rows, columns = matrix
    height, width = sum(cell.value.aval.size for cell in given), sum(leaf.size for leaf in inputs)
    if height == width and solver.assume_full_rank():
        found = _solved(given, solution, *_chains(rows, columns, width))
    else:
        block = blocks(rows + width, columns, width + height)
        groups = np.arange(int(block.max()) + 1)
        found = _solved(given, solution, block[width:], block[:width], groups, groups)
    return [*found, *analysis.everything(rest, given)]


@eqxi.filter_primitive_def
def _as_they_are(*arguments: Any) -> Any:
    return arguments


def _arguments(params: Any, leaves: Sequence[Any]) -> Any:
    """The arguments of an Equinox primitive, put together from its operands."""
    return _as_they_are(
        *leaves, treedef=params["treedef"], static=params["static"], flatten=lambda arguments: arguments
    )


def _matrix(
    analysis: Analysis, program: ClosedJaxpr, fixed: Sequence[Tracked], inputs: Sequence[Any]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and columns of the entries of a matrix given by its products; none if it has none."""
    sizes = [leaf.size for leaf in inputs]
    starts = np.cumsum([0, *sizes])
    width = int(starts[-1])
    seeds = [
        Tracked(values_of.unknown(variable.aval), seed(width, tuple(variable.aval.shape), int(start)))
        for variable, start in zip(program.jaxpr.invars[len(fixed) :], starts, strict=False)
    ]
    inner = Analysis(width, Dependence.LINEAR, analysis.notes)
    rows, columns, offset = [], [], 0
    for cell in inner.walk(program, [*fixed, *seeds]):
        if cell.reach is not None:
            row, column = cell.reach.table().to_pairs()
            rows.append(row + offset)
            columns.append(column)
        offset += cell.value.aval.size
    return (np.concatenate(rows), np.concatenate(columns)) if rows else None


def _chains(
    rows: np.ndarray, columns: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Groups of elements (of the right-hand side, of the solution), and pairs of groups that chains lead between."""
    ones = np.ones(len(rows), dtype=bool)
    graph = scipy.sparse.csr_array((ones, (rows, columns)), shape=(size, size))
    count, group = csgraph.connected_components(graph, connection="strong")
    between = scipy.sparse.csr_array((ones, (group[rows], group[columns])), shape=(count, count))
    weak = np.bincount(csgraph.connected_components(between, directed=False)[1]).astype(np.float64)
    if (weak**2).sum() > max(_CHAINS, count):
        block = blocks(rows, columns, size)
        groups = np.arange(int(block.max()) + 1)
        return block, block, groups, groups
    reached = between + scipy.sparse.eye_array(count, dtype=bool, format="csr")
    while True:
        further = reached @ reached
        if further.nnz == reached.nnz:
            after, before = further.nonzero()
            return group, group, after, before
        reached = further


def _solved(
    given: Sequence[Tracked],
    variables: Sequence[Any],
    of_given: np.ndarray,
    of_solution: np.ndarray,
    after: np.ndarray,
    before: np.ndarray,
) -> Reaches:
    """Every element of the solution depends on all groups of the right-hand side that its own reads."""
    groups = int(max(of_given.max(), of_solution.max())) + 1
    parts: list[Reach | None] = []
    start = 0
    for cell in given:
        stop = start + cell.value.aval.size
        parts.append(None if cell.reach is None else cell.reach.collect(of_given[start:stop], (groups,)))
        start = stop
    total = union((groups,), parts)
    if total is not None and not np.array_equal(after, before):
        total = total.connect(after, before, (groups,))
    found: Reaches = []
    start = 0
    for variable in variables:
        stop = start + variable.aval.size
        own = of_solution[start:stop].reshape(variable.aval.shape)
        found.append(None if total is None else total.take(own))
        start = stop
    return found


__all__: list[str] = []
