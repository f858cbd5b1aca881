"""Cholesky factors of a Gram matrix one column at a time, the point that is explained worst first.

Each step takes the point with the largest variance left, so a few columns explain most of a smooth kernel, and the
number of steps until nothing is left is the numerical rank. The matrix as a whole is never needed: only its diagonal
and one column for each step.

Reference: Harbrecht, Peters and Schneider, On the low-rank approximation by the pivoted Cholesky decomposition, 2012.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.kernels.kernel import Kernel, points
from chainrule.kernels.positive import not_positive, symmetric
from chainrule.kernels.precision import in_double


class Pivoted(NamedTuple):
    """What `pivoted_cholesky` found: `factor @ factor.T` is the matrix, up to `left` on its diagonal."""

    factor: Float[np.ndarray, "points rank"]
    pivots: Int[np.ndarray, " rank"]
    """The points taken, in order."""
    left: Float[np.ndarray, " points"]
    """What remains of the diagonal: the variance of each point that the pivots do not explain."""

    @property
    def rank(self) -> int:
        """How many points were needed: the numerical rank, unless fewer were allowed."""
        return len(self.pivots)


def pivoted_cholesky(K: Any, rank: int | None = None) -> Pivoted:
    """Factor of a positive semi-definite matrix with as many columns as its numerical rank, or fewer if told.

    A variance below N eps times the largest counts as nothing. Costs O(N rank²).

    >>> found = pivoted_cholesky([[4.0, 2.0, 4.0], [2.0, 1.0, 2.0], [4.0, 2.0, 5.0]])
    >>> found.rank, found.pivots.tolist()
    (2, [2, 0])
    """
    matrix = symmetric("pivoted_cholesky", "K", K)
    found = _found(_Columns(matrix), np.diagonal(matrix), rank)
    limit = 1e-8 * np.abs(matrix).max(initial=0)
    if found.left.min(initial=0) < -limit:
        raise not_positive(matrix, "K")
    if rank is None and np.abs(matrix - found.factor @ found.factor.T).max(initial=0) > limit:
        raise not_positive(matrix, "K")
    return found


def pivoted_points(kernel: Kernel, x: Any, rank: int) -> Pivoted:
    """The same for the Gram matrix of points, which is never formed."""
    rows = in_double(points)("pivoted_points", "x", x)
    return _found(_KernelColumns(kernel, rows), np.asarray(_diagonal(kernel, rows)), rank)


@final
class _Columns(eqx.Module):
    matrix: Any

    def __call__(self, number: Array) -> Array:
        return jnp.asarray(self.matrix)[:, number]


@final
class _KernelColumns(eqx.Module):
    kernel: Kernel
    rows: Any

    def __call__(self, number: Array) -> Array:
        rows = jnp.asarray(self.rows)
        return self.kernel.tile(rows, rows[number][None])[:, 0]


@in_double
def _diagonal(kernel: Kernel, rows: Array) -> Array:
    return kernel.diagonal(jnp.asarray(rows))


def _found(column: Callable[[Array], Array], diagonal: np.ndarray, rank: int | None) -> Pivoted:
    size = len(diagonal)
    most = size if rank is None else min(size, whole("pivoted_cholesky", "rank", rank))
    tolerance = np.asarray(size * np.finfo(np.float64).eps * diagonal.max(initial=0.0))
    factor, pivots, left, taken = in_double(_pivoted)(column, diagonal, tolerance, most)
    rank = int(taken)
    return Pivoted(np.asarray(factor)[:, :rank], np.asarray(pivots)[:rank], np.asarray(left))


_State = tuple[Array, Array, Array, Array]


@eqx.filter_jit
def _pivoted(column: Callable[[Array], Array], diagonal: Array, tolerance: Scalar, most: int) -> _State:
    size = len(diagonal)

    def goes_on(state: _State) -> Array:
        step, _, _, left = state
        return (step < most) & (left.max() > tolerance)

    def take(state: _State) -> _State:
        step, factor, pivots, left = state
        pivot = left.argmax()
        # Columns of later steps are still zero, so the product is one with those before.
        rest = column(pivot) - factor @ factor[pivot]
        new = jnp.where(left[pivot] > 0, rest / jnp.sqrt(left[pivot]), 0.0)
        left = (left - jnp.square(new)).at[pivot].set(0.0)
        return step + 1, factor.at[:, step].set(new), pivots.at[step].set(pivot.astype(jnp.int32)), left

    start = (
        jnp.zeros((), jnp.int32),
        jnp.zeros((size, most), diagonal.dtype),
        jnp.zeros(most, jnp.int32),
        jnp.asarray(diagonal),
    )
    step, factor, pivots, left = jax.lax.while_loop(goes_on, take, start)
    return factor, pivots, left, step


__all__ = ["Pivoted", "pivoted_cholesky", "pivoted_points"]
