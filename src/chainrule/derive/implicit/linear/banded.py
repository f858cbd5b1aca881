"""Banded LU with partial pivoting: memory and time linear in the number of unknowns.

The band is read from lower + upper + 1 products (columns that far apart share no row). LAPACK factorises and solves on
the host: a compiled loop over the rows was tried instead and is two orders of magnitude slower.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.derive.implicit import host_callback
from chainrule.derive.implicit.linear.linear_solver import (
    Factor,
    LinearSolver,
    PreparedSolver,
    Product,
    System,
)
from chainrule.derive.implicit.linear.sparsity import pattern_of
from chainrule.derive.sparse import Pattern


@final
@dataclass(frozen=True)
class Banded(LinearSolver):
    """A is banded, with `lower` diagonals below the main one and `upper` above; found from the program if not given."""

    lower: int | None = None
    upper: int | None = None

    def prepare(self, structure: Any, /) -> PreparedSolver:
        """The bandwidths, from the pattern unless both are given."""
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if value is not None and value < 0:
                raise ArgumentError(f"Banded({name}={value}): a bandwidth is not negative")
        found = (0, 0) if None not in (self.lower, self.upper) else _bandwidths(pattern_of(structure))
        lower, upper = (
            measured if given is None else given
            for given, measured in zip((self.lower, self.upper), found, strict=True)
        )
        most = structure.x.size - 1
        return BandedLU(min(lower, most), min(upper, most))


@final
@dataclass(frozen=True)
class BandedLU(PreparedSolver):
    """With known bandwidths."""

    lower: int
    upper: int

    def factorise(self, system: System, /) -> Factor:
        """From lower + upper + 1 products."""
        band = _band(system, self.lower, self.upper)
        norm = jnp.max(jnp.sum(jnp.abs(band), axis=0), initial=0.0)
        shapes = (
            jax.ShapeDtypeStruct(band.shape, band.dtype),
            jax.ShapeDtypeStruct(band.shape[1:], np.int32),
        )
        factorise = partial(_factorise, self.lower, self.upper)
        lu, pivots = host_callback.call(factorise, shapes, band, norm)
        return BandedFactor(lu, pivots, norm, self.lower, self.upper)


@final
class BandedFactor(Factor):
    """The factors as LAPACK stores them."""

    lu: Float[Array, "band n"]
    pivots: Int[Array, " n"]
    size: Scalar
    lower: int = eqx.field(static=True)
    upper: int = eqx.field(static=True)

    def solve(self, _matvec: Product, b: Array, /) -> Array:
        """By substitution on the host."""
        return self._solve(b, transposed=False)

    def solve_transposed(self, _vecmat: Product, b: Array, /) -> Array:
        """By substitution with the transposed factors on the host."""
        return self._solve(b, transposed=True)

    def norm(self) -> Scalar:
        """Taken before factorising."""
        return self.size

    def _solve(self, b: Array, *, transposed: bool) -> Array:
        run = partial(_solve, self.lower, self.upper, transposed)
        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
        return host_callback.call(run, shape, self.lu, self.pivots, b)


def _bandwidths(pattern: Pattern) -> tuple[int, int]:
    below = pattern.rows.astype(np.int64) - pattern.cols
    return int(below.max(initial=0)), int((-below).max(initial=0))


def _band(system: System, lower: int, upper: int) -> Float[Array, "band n"]:
    """A in LAPACK's storage: entry (i, j) in row lower + upper + i - j of column j, above it room for pivoting."""
    n, width = system.x.size, lower + upper + 1
    group = jnp.arange(n) % width
    seeds = (jnp.arange(width)[:, None] == group[None, :]).astype(system.x.dtype)
    products = system.products(seeds)
    row = jnp.arange(n)[None, :] + jnp.arange(-upper, lower + 1)[:, None]
    inside = (row >= 0) & (row < n)
    entries = jnp.where(inside, products[group[None, :], jnp.clip(row, 0, n - 1)], 0)
    return jnp.concatenate([jnp.zeros((lower, n), entries.dtype), entries])


def _factorise(lower: int, upper: int, band: np.ndarray, norm: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LU on the host, over any leading axes; a vanishing pivot becomes tiny, so that solving shows a null direction."""
    run = scipy.linalg.get_lapack_funcs("gbtrf", (band,))
    lu, pivots = np.empty_like(band), np.empty((*band.shape[:-2], band.shape[-1]), np.int32)
    eps = np.finfo(band.dtype).eps
    for index in np.ndindex(band.shape[:-2]):
        lu[index], pivots[index], _ = run(band[index], lower, upper)
        size = norm[tuple(0 if length == 1 else i for i, length in zip(index, norm.shape, strict=True))]
        least = eps * eps * size if size > 0 else 1.0
        diagonal = lu[index][lower + upper]
        diagonal[np.abs(diagonal) < least] = least
    return lu, pivots


def _solve(
    lower: int, upper: int, transposed: bool, lu: np.ndarray, pivots: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """Substitution on the host: many right-hand sides of one matrix at once, several matrices one after the other."""
    run = scipy.linalg.get_lapack_funcs("gbtrs", (lu,))
    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-1])
    n = b.shape[-1]
    if lu[..., 0, 0].size == 1:
        x, _ = run(
            lu.reshape(lu.shape[-2:]), lower, upper, b.reshape(-1, n).T, pivots.reshape(n), trans=transposed
        )
        return np.ascontiguousarray(x.T).reshape(*batch, n)
    lu, pivots, b = (
        np.broadcast_to(a, (*batch, *a.shape[-tail:])) for a, tail in ((lu, 2), (pivots, 1), (b, 1))
    )
    found = np.empty((*batch, n), b.dtype)
    for index in np.ndindex(batch):
        found[index], _ = run(lu[index], lower, upper, b[index], pivots[index], trans=transposed)
    return found


__all__ = ["Banded", "BandedFactor", "BandedLU"]
