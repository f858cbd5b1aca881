"""Rows and columns of a nonnegative matrix scaled to given sums (Sinkhorn, 1964; Sinkhorn and Knopp, 1967).

A positive square matrix A has `D1 A D2` doubly stochastic, unique up to `(t D1, D2 / t)`. Zeros change that: with total
support (every entry that is not zero lies on some transversal) there is a scaling; with mere support the iterates
converge, slowly, to a matrix that is no scaling of A, because entries outside all transversals go to zero; without
support there is nothing to converge to. Support is decided exactly, by flows, before anything is iterated.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.sparse.csgraph

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import finite, floating, require
from chainrule.probability.transport.costs import weights_of
from chainrule.probability.transport.entropic.solving import tolerance_of

Support = Literal["positive", "total", "partial"]
_SMALL = 1e-9
"""Mass, beside the total, that counts as none."""


class ScaledMatrix(NamedTuple):
    """`diag(left) A diag(right)` with the wanted sums, or as near as the iteration came."""

    matrix: Float[Array, "rows columns"]
    left: Float[Array, " rows"]
    right: Float[Array, " columns"]
    support: Support
    """"positive": no zeros; "total": zeros that leave a scaling; "partial": there is none, and iterates creep."""
    error: Array
    iterations: Array

    @property
    def exists(self) -> bool:
        """Whether there is a scaling at all."""
        return self.support != "partial"


def scale_matrix(
    matrix: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    tolerance: float | None = None,
    max_iterations: int = 1000,
) -> ScaledMatrix:
    """A nonnegative matrix with rows and columns scaled to sums `rows` and `columns` (none: ones, or equal shares).

    >>> found = scale_matrix([[1.0, 2.0], [3.0, 4.0]], tolerance=1e-6)
    >>> round(float(found.matrix[0, 0]), 5), found.support
    (0.44949, 'positive')
    >>> scale_matrix([[1.0, 1.0], [0.0, 1.0]], max_iterations=3).support
    'partial'
    """
    given = finite("scale_matrix", "matrix", floating(matrix))
    if given.ndim != 2 or not given.size:
        raise ArgumentError(f"scale_matrix(matrix): two axes are scaled, not shape {given.shape}")
    given = require("scale_matrix", "matrix", given, lambda v: v >= 0, "not be negative")
    height, width = given.shape
    wanted = [
        jnp.full(count, total / count, given.dtype)
        if sums is None
        else weights_of("scale_matrix", name, sums, count, given.dtype)
        for name, sums, count, total in (("rows", rows, height, height), ("columns", columns, width, height))
    ]
    if columns is not None and rows is None:
        wanted[0] = jnp.full(height, wanted[1].sum() / height, given.dtype)
    if rows is not None and columns is None:
        wanted[1] = jnp.full(width, wanted[0].sum() / width, given.dtype)
    if not np.isclose(float(wanted[0].sum()), float(wanted[1].sum()), rtol=1e-5):
        raise ArgumentError(
            f"scale_matrix: rows sum to {float(wanted[0].sum()):.6g} and columns to {float(wanted[1].sum()):.6g}",
            remedy="give sums of the same total",
        )
    support = support_of(np.asarray(given), *(np.asarray(sums, np.float64) for sums in wanted))
    goal = (tolerance_of(given.dtype) if tolerance is None else tolerance) * float(wanted[0].sum())
    most = whole("scale_matrix", "max_iterations", max_iterations)
    left, right, error, count = _scaled(given, *wanted, goal, most)
    return ScaledMatrix(left[:, None] * given * right[None], left, right, support, error, count)


def support_of(
    matrix: Float[np.ndarray, "rows columns"],
    rows: Float[np.ndarray, " rows"],
    columns: Float[np.ndarray, " columns"],
) -> Support:
    """What zeros leave possible; raises, with rows and columns that cannot be matched, where it is nothing.

    Where all sums are equal, a perfect matching is a first transversal, and another entry lies on one if and only if
    an alternating cycle leads through it (Dulmage and Mendelsohn, 1958). For other sums a linear program finds the
    matrix with these sums, and zeros where they have to be, whose smallest other entry is largest: positive for total
    support, zero for partial support, and none without.

    >>> support_of(np.array([[1.0, 1.0], [0.0, 1.0]]), np.ones(2), np.ones(2))
    'partial'
    """
    if (matrix > 0).all():
        return "positive"
    alike = len(rows) == len(columns) and np.ptp(np.concatenate([rows, columns])) == 0
    _check_matching(matrix, rows, columns, slack=0 if alike else sum(matrix.shape))
    if alike:
        matched = scipy.sparse.csgraph.maximum_bipartite_matching(
            scipy.sparse.csr_array(matrix != 0), perm_type="column"
        )
        steps = matrix[:, matched] != 0  # from a row over an entry to the row that has this column
        _, parts = scipy.sparse.csgraph.connected_components(
            scipy.sparse.csr_array(steps), directed=True, connection="strong"
        )
        return "total" if (parts[:, None] == parts[None, :])[steps].all() else "partial"
    at, to = np.nonzero(matrix)
    count, total = len(at), rows.sum()
    ones = np.ones(count)
    sums = scipy.sparse.vstack(
        [
            scipy.sparse.csr_matrix((ones, (at, range(count))), shape=(len(rows), count)),
            scipy.sparse.csr_matrix((ones, (to, range(count))), shape=(len(columns), count)),
        ]
    )
    slack = scipy.sparse.hstack([sums, scipy.sparse.csr_matrix((sums.shape[0], 1))])
    floor = scipy.sparse.hstack([-scipy.sparse.identity(count), scipy.sparse.csr_matrix(np.ones((count, 1)))])
    found = scipy.optimize.linprog(
        [*np.zeros(count), -1.0],
        A_ub=floor,
        b_ub=np.zeros(count),
        A_eq=slack,
        b_eq=np.concatenate([rows, columns]),
        bounds=[(0, None)] * (count + 1),
        method="highs",
    )
    return "total" if found.status == 0 and found.x[-1] > _SMALL * total else "partial"


def _check_matching(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray, slack: int) -> None:
    """Raise where some rows have more to give than all columns they reach can take, by more than rounding."""
    scale = 2**24 / max(rows.sum(), 1e-300)
    give, take = (np.floor(scale * sums).astype(np.int32) for sums in (rows, columns))
    height, width = matrix.shape
    source, sink = height + width, height + width + 1
    at, to = np.nonzero(matrix)
    graph = scipy.sparse.csr_matrix(
        (
            np.concatenate([np.full(len(at), 2**26), give, take]).astype(np.int32),
            (
                np.concatenate([at, np.full(height, source), height + np.arange(width)]),
                np.concatenate([height + to, np.arange(height), np.full(width, sink)]),
            ),
        ),
        shape=(height + width + 2, height + width + 2),
    )
    found = scipy.sparse.csgraph.maximum_flow(graph, source, sink)
    if found.flow_value >= min(give.sum(), take.sum()) - slack:
        return
    left = graph - found.flow
    left.data[left.data < 0] = 0
    left.eliminate_zeros()
    reached = set(scipy.sparse.csgraph.breadth_first_order(left, source, return_predecessors=False).tolist())
    stuck = [i for i in range(height) if i in reached]
    can = [j for j in range(width) if height + j in reached]
    raise ArgumentError(
        f"scale_matrix: rows {_listed(stuck)} have {rows[stuck].sum():.4g} to give, and the columns they reach, "
        f"{_listed(can)}, take {columns[can].sum():.4g}: no matrix with these zeros has these sums",
        remedy="make some of their zeros positive, or change the sums",
    )


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return (shown + ", ..." if len(numbers) > 8 else shown) or "none"


@jax.jit
def _scaled(
    matrix: Array, rows: Array, columns: Array, goal: Any, most: Any
) -> tuple[Array, Array, Array, Array]:
    """Rows, then columns, in turn; the error is that of the rows, which the last step did not enforce."""

    def divided(wanted: Array, found: Array) -> Array:
        return jnp.where(wanted > 0, wanted / jnp.where(found > 0, found, 1.0), 0.0)

    def step(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        _, right, _, count = carry
        left = divided(rows, matrix @ right)
        right = divided(columns, left @ matrix)
        error = jnp.abs(left * (matrix @ right) - rows).sum()
        return left, right, error, count + 1

    def unfinished(carry: tuple[Array, Array, Array, Array]) -> Array:
        return (carry[2] > goal) & (carry[3] < most)

    start = (
        jnp.ones_like(rows),
        jnp.ones_like(columns),
        jnp.asarray(jnp.inf, rows.dtype),
        jnp.zeros((), int),
    )
    left, right, error, count = jax.lax.while_loop(unfinished, step, start)
    return left, right, error, count


__all__ = ["ScaledMatrix", "scale_matrix", "support_of"]
