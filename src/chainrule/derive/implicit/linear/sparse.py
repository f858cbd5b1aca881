"""Sparse LU (SuperLU, by SciPy) of a Jacobian or Hessian that `derive.sparse` finds, colours and compresses.

How many numbers a sparse factor holds is not known before it is made, so it cannot be an array of a compiled program.
The handle carries the entries of A and their fingerprint; the factor itself stays on the host under that fingerprint.
The few most recent factors are kept, and one that was dropped meanwhile is made again from the entries: what is cached
decides about time, never about results.
"""

import collections
import functools
import hashlib
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Shaped

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.derive.implicit import host_callback
from chainrule.derive.implicit.linear.linear_solver import (
    Factor,
    LinearSolver,
    PreparedSolver,
    Product,
    System,
)
from chainrule.derive.implicit.linear.sparsity import pattern_of
from chainrule.derive.sparse import Pattern, compressed_products, strategy
from chainrule.derive.sparse.compression import CompressionRecipe

_KEPT = 16
"""Factors on the host."""


@final
@dataclass(frozen=True)
class Sparse(LinearSolver):
    """Sparse LU; the positions of the entries are found from the program of F unless a `pattern` is given."""

    pattern: Pattern | None = None

    def prepare(self, structure: Any, /) -> PreparedSolver:
        """Find the pattern and colour it."""
        n = structure.x.size
        if self.pattern is not None and self.pattern.shape != (n, n):
            raise ArgumentError(f"Sparse: the pattern has shape {self.pattern.shape}, A has shape {(n, n)}")
        pattern = pattern_of(structure) if self.pattern is None else self.pattern
        return coloured(pattern, structure.equations.is_symmetric)


@functools.lru_cache(maxsize=64)
def coloured(pattern: Pattern, symmetric: bool) -> "SparseLU":
    """Sparse LU of matrices with this pattern."""
    search = strategy.Search("auto", 0, 0.2)
    made = (
        strategy.for_hessian(pattern, search) if symmetric else strategy.requested(pattern, "column", search)
    )
    return SparseLU(made.recipe, pattern.fingerprint().encode())


@final
@dataclass(frozen=True, eq=False)
class SparseLU(PreparedSolver):
    """With a known pattern and the products its entries are read from."""

    recipe: CompressionRecipe
    fingerprint: bytes
    """Of the pattern."""

    def factorise(self, system: System, /) -> "SparseFactor":
        """From as many products as there are colours."""
        plan = compressed_products.CompressedProducts(
            lambda x, _: (system.f(x), ()), jax.typeof(system.x), self.recipe, system.x.dtype
        )
        # Behind a barrier, or the compiler would spend its time on working large tables out beforehand.
        tables = jax.lax.optimization_barrier(jax.tree.map(jnp.asarray, plan.tables()))
        entries, _ = plan.values(system.x, (), tables)
        shapes = (jax.ShapeDtypeStruct((4,), np.uint32), jax.ShapeDtypeStruct((), entries.dtype))
        run = partial(_factorise, self.recipe.pattern, self.fingerprint)
        key, norm = host_callback.call(run, shapes, entries)
        return SparseFactor(entries, key, norm, self)


@final
class SparseFactor(Factor):
    """The entries, and the fingerprint under which the host keeps their factors."""

    entries: Float[Array, " nnz"]
    key: Shaped[Array, "4"]
    size: Scalar
    how: SparseLU = eqx.field(static=True)

    def solve(self, _matvec: Product, b: Array, /) -> Array:
        """By substitution on the host."""
        return self._solve(b, "N")

    def solve_transposed(self, _vecmat: Product, b: Array, /) -> Array:
        """By substitution with the transposed factors on the host."""
        return self._solve(b, "T")

    def norm(self) -> Scalar:
        """Taken before factorising."""
        return self.size

    def _solve(self, b: Array, form: str) -> Array:
        run = partial(_solve, self.how.recipe.pattern, form)
        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
        return host_callback.call(run, shape, self.entries, self.key, b)


_factors: "collections.OrderedDict[bytes, Any]" = collections.OrderedDict()
_lock = threading.Lock()


def _factor(pattern: Pattern, entries: np.ndarray, key: bytes) -> Any:
    """The factors of one matrix, made if they are not at hand."""
    with _lock:
        if key in _factors:
            _factors.move_to_end(key)
            return _factors[key]
    n = pattern.shape[0]
    matrix = scipy.sparse.csr_matrix((entries, pattern.cols, pattern.indptr), shape=(n, n)).tocsc()
    try:
        made = scipy.sparse.linalg.splu(matrix)
    except (
        RuntimeError
    ):  # exactly singular: a matrix next to it shows the null direction, and its condition the trouble
        size = abs(matrix).sum(axis=0).max() or 1.0
        made = scipy.sparse.linalg.splu(
            matrix + np.finfo(entries.dtype).eps * size * scipy.sparse.eye(n).tocsc()
        )
    with _lock:
        _factors[key] = made
        while len(_factors) > _KEPT:
            _factors.popitem(last=False)
    return made


def _factorise(pattern: Pattern, fingerprint: bytes, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fingerprints and norms, over any leading axes; the factors stay here."""
    batch = entries.shape[:-1]
    keys, norms = np.empty((*batch, 4), np.uint32), np.empty(batch, entries.dtype)
    for index in np.ndindex(batch):
        digest = hashlib.blake2b(entries[index].tobytes(), digest_size=16, key=fingerprint).digest()
        keys[index] = np.frombuffer(digest, np.uint32)
        norms[index] = np.bincount(pattern.cols, np.abs(entries[index]), minlength=1).max(initial=0)
        if np.isfinite(norms[index]):
            _factor(pattern, entries[index], digest)
    return keys, norms


def _solve(pattern: Pattern, form: str, entries: np.ndarray, keys: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Substitution on the host: many right-hand sides of one matrix at once, several matrices one after the other."""
    batch = np.broadcast_shapes(keys.shape[:-1], b.shape[:-1])
    n = b.shape[-1]
    if keys.size == 4:
        found = _substitute(pattern, form, entries.reshape(-1), keys, b.reshape(-1, n).T)
        return np.ascontiguousarray(found.T).reshape(*batch, n)
    entries, keys, b = (np.broadcast_to(a, (*batch, a.shape[-1])) for a in (entries, keys, b))
    found = np.empty((*batch, n), b.dtype)
    for index in np.ndindex(batch):
        found[index] = _substitute(pattern, form, entries[index], keys[index], b[index])
    return found


def _substitute(
    pattern: Pattern, form: str, entries: np.ndarray, key: np.ndarray, b: np.ndarray
) -> np.ndarray:
    if not np.isfinite(entries).all():
        return np.full_like(b, np.nan)
    found: np.ndarray = _factor(pattern, entries, key.tobytes()).solve(np.ascontiguousarray(b), form)
    return found


__all__ = ["Sparse", "SparseFactor", "SparseLU", "coloured"]
