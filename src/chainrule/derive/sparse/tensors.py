"""Sparse tensors of third order: third derivatives of a number, second derivatives of several outputs.

The entries of a prepared Hessian (or Jacobian) are a function like any other, and their sparse Jacobian is the tensor.
Symmetry settles most of it: an entry can only be there if those of the matrix with any two of its indices are, and of
entries that are equal one is kept.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from chainrule.core.errors import check_choice
from chainrule.core.types import Array, Tree
from chainrule.derive.sparse.detection import detect
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.preparation import hessian, jacobian
from chainrule.derive.sparse.report import SparseReport
from chainrule.derive.sparse.sparse_derivative import SparseDerivative

TENSOR_FORMATS = ("bcoo", "dense", "values")


@final
class SparseTensor:
    """A sparse tensor of third order as a function; call it with the arguments of the function it was prepared for."""

    def __init__(self, matrix: SparseDerivative, slopes: SparseDerivative, format: str) -> None:
        self.matrix = matrix
        """The prepared Hessian or Jacobian whose entries are differentiated."""
        self.slopes = slopes
        """Their prepared Jacobian."""
        self.format = format
        rows, cols = matrix.pattern.rows, matrix.pattern.cols
        entry, last = slopes.pattern.rows, slopes.pattern.cols
        self._kept = np.flatnonzero(last <= cols[entry])
        triples = np.stack([rows[entry], cols[entry], last], axis=1)[self._kept]
        self.indices = triples
        """One triple for each set of equal entries, in the order of the values; its numbers fall from left to right
        (after the first, which counts outputs, where the function has several)."""
        m, n = matrix.pattern.shape
        self.shape = m, n, n
        turns = [(0, *turn) for turn in permutations((1, 2))]
        turns = list(permutations(range(3))) if matrix.what == "hessian" else turns
        everywhere = np.concatenate([triples[:, turn] for turn in turns])
        self._positions, first = np.unique(everywhere, axis=0, return_index=True)
        self._sources = first % max(len(triples), 1)

    @property
    def nnz(self) -> int:
        """Entries of the whole tensor."""
        return len(self._positions)

    @property
    def report(self) -> SparseReport:
        """How the entries of the matrix are differentiated; each product costs as many as `matrix.report` says."""
        return self.slopes.report

    def values(self, x: Tree, *args: Any) -> Shaped[Array, " nnz"]:
        """The entries at `.indices`; works under `jit`, `vmap` and `grad`."""
        return self.slopes.values(x, *args)[jnp.asarray(self._kept)]

    def __call__(self, x: Tree, *args: Any) -> Any:
        """The tensor: JAX's BCOO, dense, or the values alone."""
        values = self.values(x, *args)
        if self.format == "values":
            return values
        spread, positions = values[jnp.asarray(self._sources)], jnp.asarray(self._positions)
        if self.format == "dense":
            empty = jnp.zeros(self.shape, values.dtype)
            return empty.at[tuple(positions.T)].set(spread, unique_indices=True)
        from jax.experimental import sparse

        return sparse.BCOO((spread, positions), shape=self.shape, indices_sorted=True, unique_indices=True)

    def __repr__(self) -> str:
        m, n, _ = self.shape
        return f"sparse tensor {m} x {n} x {n}, {self.nnz} entries, {len(self.indices)} different, as {self.format}"


def third(
    f: Any,
    x: Tree,
    format: str = "bcoo",
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    certify: bool = True,
) -> SparseTensor:
    """The sparse tensor of third derivatives of a function `f(x, *args)` with one number as its value, n x n x n.

    Formats: "bcoo" (JAX), "dense", "values" (one of each set of equal entries, at `.indices`). The other options are
    those of `hessian`.

    >>> T = third(lambda x: jnp.sum(x[1:] * x[:-1] ** 2), jnp.ones(3), "values")
    >>> T.indices.tolist(), T(jnp.ones(3)).tolist()
    ([[1, 0, 0], [2, 1, 1]], [2.0, 2.0])
    """
    check_choice("sparse.third", "format", format, TENSOR_FORMATS)
    made = hessian(f, x, format="values", part="lower", args=args, argnums=argnums, certify=certify)
    return _tensor(made, made.coloring.pattern, x, args, argnums, format, certify)


def second(
    f: Any,
    x: Tree,
    format: str = "bcoo",
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    certify: bool = True,
) -> SparseTensor:
    """The sparse tensor of second derivatives of a function `f(x, *args)` of several outputs, m x n x n.

    Options are those of `third`.

    >>> T = second(lambda x: x[1:] * x[:-1], jnp.ones(3), "dense")
    >>> T(jnp.ones(3))[0].tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_choice("sparse.second", "format", format, TENSOR_FORMATS)
    made = jacobian(f, x, format="values", args=args, argnums=argnums, certify=certify)
    return _tensor(made, made.pattern, x, args, argnums, format, certify)


def _tensor(
    matrix: SparseDerivative,
    whole: Pattern,
    x: Tree,
    args: Any,
    argnums: int | Sequence[int],
    format: str,
    certify: bool,
) -> SparseTensor:
    """`whole` is the pattern of the whole matrix, also where only a triangle of it is differentiated."""
    found = detect(matrix.values, x, args=args, argnums=argnums)
    first, last = matrix.pattern.rows[found.rows], found.cols
    possible = _among(whole, first, last)
    if matrix.what == "hessian":
        possible &= _among(whole, matrix.pattern.cols[found.rows], last)
    pattern = Pattern(found.rows[possible], found.cols[possible], found.shape)
    slopes = jacobian(
        matrix.values,
        x,
        format="values",
        args=args,
        argnums=argnums,
        pattern=pattern,
        certify=certify,
    )
    return SparseTensor(matrix, slopes, format)


def _among(pattern: Pattern, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """Whether positions are in a pattern."""
    width = np.int64(pattern.shape[1])
    known = pattern.rows.astype(np.int64) * width + pattern.cols
    return np.isin(rows.astype(np.int64) * width + cols, known)


__all__ = ["TENSOR_FORMATS", "SparseTensor", "second", "third"]
