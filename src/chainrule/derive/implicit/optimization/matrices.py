"""Sparse matrices of linear programs: known positions, differentiable entries, products with vectors."""

import functools
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental.sparse import BCOO
from jaxtyping import Array, Float

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.sparse import Pattern


@final
class SparseMatrix(eqx.Module):
    """Entries in the order of a pattern. Only what optimality conditions need: `A @ x`, `A.T @ y`, shape and type."""

    entries: Float[Array, "nnz"]
    pattern: Pattern = eqx.field(static=True)
    transposed: bool = eqx.field(static=True, default=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n = self.pattern.shape
        return (n, m) if self.transposed else (m, n)

    @property
    def dtype(self) -> Any:
        """Of the entries."""
        return self.entries.dtype

    @property
    def T(self) -> "SparseMatrix":
        """The transposed matrix."""
        return SparseMatrix(self.entries, self.pattern, not self.transposed)

    def __matmul__(self, vector: Float[Array, "n"]) -> Float[Array, "m"]:
        rows, cols = jnp.asarray(self.pattern.rows), jnp.asarray(self.pattern.cols)
        if self.transposed:
            return jax.ops.segment_sum(self.entries * vector[rows], cols, self.shape[0])
        return jax.ops.segment_sum(self.entries * vector[cols], rows, self.shape[0], indices_are_sorted=True)


def assembled(pattern: Pattern, entries: np.ndarray) -> scipy.sparse.csr_array:
    """A SciPy matrix with these entries in these positions."""
    return scipy.sparse.csr_array((entries, pattern.cols, pattern.indptr), shape=pattern.shape)


def is_sparse(matrix: Any) -> bool:
    """Whether it is a matrix this module reads."""
    return scipy.sparse.issparse(matrix) or isinstance(matrix, BCOO)


def sparse_matrix(where: str, name: str, matrix: Any) -> SparseMatrix:
    """From SciPy, as a constant, or from BCOO, with derivatives in its entries."""
    if matrix.ndim != 2 or (isinstance(matrix, BCOO) and (matrix.n_batch or matrix.n_dense)):
        raise ArgumentError(f"{where}: {name} has shape {matrix.shape}, expected a plain sparse matrix")
    if scipy.sparse.issparse(matrix):
        coordinates = matrix.tocoo()
        rows, cols, data = coordinates.row, coordinates.col, jnp.asarray(coordinates.data)
    else:
        if isinstance(matrix.indices, jax.core.Tracer):
            raise CapabilityError(
                f"{where}: the positions of the entries of {name} are not known when the program is compiled",
                remedy="make the matrix inside the compiled function, from entries and a constant array of indices",
            )
        rows, cols, data = *np.asarray(matrix.indices).T, matrix.data
    pattern = Pattern(rows, cols, matrix.shape)
    # Entries at the same position add up; those of SciPy and BCOO come in any order.
    width = max(matrix.shape[1], 1)
    keys = pattern.rows.astype(np.int64) * width + pattern.cols
    where_to = np.searchsorted(keys, np.asarray(rows, np.int64) * width + np.asarray(cols, np.int64))
    entries = jnp.zeros(pattern.nnz, data.dtype).at[where_to].add(data)
    return SparseMatrix(entries, pattern)


@functools.lru_cache(maxsize=16)
def conditions_pattern(pattern: Pattern) -> Pattern:
    """Where the Jacobian of the conditions of a linear program in (x, y) has entries, given those of A."""
    m, n = pattern.shape
    diagonal = np.arange(n)
    return Pattern(
        np.concatenate([pattern.rows, m + diagonal, m + pattern.cols]),
        np.concatenate([pattern.cols, diagonal, n + pattern.rows]),
        (m + n, m + n),
    )


__all__ = ["SparseMatrix", "assembled", "conditions_pattern", "is_sparse", "sparse_matrix"]
