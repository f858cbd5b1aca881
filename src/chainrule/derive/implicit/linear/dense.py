"""Dense factorisations: LU with partial pivoting, Cholesky for matrices declared positive definite, and the SVD for
least-squares answers where A is singular."""

from dataclasses import dataclass
from typing import ClassVar, final

import jax.numpy as jnp
from jax.lax import linalg

from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.derive.implicit.linear.linear_solver import Factor, PreparedSolver, Product, System


@final
@dataclass(frozen=True)
class LU(PreparedSolver):
    """Dense LU with partial pivoting; the default."""

    def factorise(self, system: System, /) -> Factor:
        """Of the transposed matrix: that is what products with unit vectors give row by row."""
        transposed = system.transposed_matrix()
        norm = _norm(transposed)
        lu, _, order = linalg.lu(transposed)
        return LUFactor(_bounded_pivots(lu, norm), order, jnp.argsort(order), norm)


@final
class LUFactor(Factor):
    """Aᵀ with its rows in another order = L U."""

    lu: Float[Array, "n n"]
    order: Int[Array, " n"]
    inverse_order: Int[Array, " n"]
    size: Scalar

    def solve(self, _matvec: Product, b: Array, /) -> Array:
        """By forward substitution with Uᵀ and backward substitution with Lᵀ."""
        y = _triangular(self.lu, b, transposed=True, lower=False)
        return _triangular(self.lu, y, transposed=True, lower=True)[self.inverse_order]

    def solve_transposed(self, _vecmat: Product, b: Array, /) -> Array:
        """By forward substitution with L and backward substitution with U."""
        y = _triangular(self.lu, b[self.order], transposed=False, lower=True)
        return _triangular(self.lu, y, transposed=False, lower=False)

    def norm(self) -> Scalar:
        """Taken before factorising."""
        return self.size


@final
@dataclass(frozen=True)
class Cholesky(PreparedSolver):
    """Dense Cholesky, for a Jacobian declared symmetric and positive definite: half the work of LU.

    A matrix that is not positive definite is found out by the factorisation, one that is not symmetric by holding the
    factor against a product.
    """

    def factorise(self, system: System, /) -> Factor:
        """NaN throughout where a pivot is not positive."""
        matrix = system.transposed_matrix()
        return CholeskyFactor(linalg.cholesky(matrix, symmetrize_input=False), _norm(matrix))


@final
class CholeskyFactor(Factor):
    """A = L Lᵀ."""

    lower: Float[Array, "n n"]
    size: Scalar

    def solve(self, _matvec: Product, b: Array, /) -> Array:
        """By two substitutions."""
        y = _triangular(self.lower, b, transposed=False, lower=True, unit=False)
        return _triangular(self.lower, y, transposed=True, lower=True, unit=False)

    def solve_transposed(self, _vecmat: Product, b: Array, /) -> Array:
        """The same: A is symmetric."""
        return self.solve(_vecmat, b)

    def norm(self) -> Scalar:
        """Taken before factorising."""
        return self.size


@final
@dataclass(frozen=True)
class LeastSquares(PreparedSolver):
    """The shortest least-squares solution by an SVD, with singular values below n eps times the largest left out."""

    exact: ClassVar[bool] = False

    def factorise(self, system: System, /) -> Factor:
        """Never fails."""
        u, values, vt = jnp.linalg.svd(system.transposed_matrix().T)
        floor = values.size * jnp.finfo(values.dtype).eps * jnp.max(values, initial=0.0)
        kept = values > floor
        return SVDFactor(u, jnp.where(kept, 1 / jnp.where(kept, values, 1), 0), vt)


@final
class SVDFactor(Factor):
    """A = U diag(values) Vᵀ, with the inverses of the values that are kept."""

    u: Float[Array, "n n"]
    inverses: Float[Array, " n"]
    vt: Float[Array, "n n"]

    def solve(self, _matvec: Product, b: Array, /) -> Array:
        """The pseudo-inverse times b."""
        return (self.inverses * (b @ self.u)) @ self.vt

    def solve_transposed(self, _vecmat: Product, b: Array, /) -> Array:
        """The transposed pseudo-inverse times b."""
        return self.u @ (self.inverses * (self.vt @ b))

    def norm(self) -> Scalar:
        """Not of interest: a singular matrix is what this is for."""
        return jnp.asarray(jnp.nan, self.inverses.dtype)


def _norm(transposed: Float[Array, "n n"]) -> Scalar:
    return jnp.max(jnp.sum(jnp.abs(transposed), axis=1), initial=0.0)


def _bounded_pivots(lu: Float[Array, "n n"], norm: Scalar) -> Float[Array, "n n"]:
    """Pivots that vanish replaced by tiny ones, so that solving with a singular matrix shows its null direction."""
    eps = jnp.finfo(lu.dtype).eps
    least = jnp.where(norm > 0, eps * eps * norm, 1.0)
    pivots = jnp.diagonal(lu)
    bounded = jnp.where(jnp.abs(pivots) < least, least, pivots)
    diagonal = jnp.arange(pivots.size)
    return lu.at[diagonal, diagonal].set(bounded)


def _triangular(a: Array, b: Array, *, transposed: bool, lower: bool, unit: bool | None = None) -> Array:
    """A triangular solve with one right-hand side; L of an LU factorisation has ones on its diagonal."""
    unit = lower if unit is None else unit
    return linalg.triangular_solve(
        a, b[:, None], left_side=True, lower=lower, transpose_a=transposed, unit_diagonal=unit
    )[:, 0]


__all__ = ["LU", "Cholesky", "CholeskyFactor", "LUFactor", "LeastSquares", "SVDFactor"]
