"""Solving with a kernel matrix that is never stored: products by tiles, conjugate gradients, a low-rank preconditioner.

Conjugate gradients need one product with the matrix a step, for all right-hand sides together. A pivoted Cholesky
factor of low rank, plus the noise, is close to the matrix for smooth kernels and inverted cheaply; with it a few dozen
steps do. The coefficients of the steps are a tridiagonal matrix whose logarithm gives that of the determinant.

References: Gardner et al., GPyTorch: blackbox matrix-matrix Gaussian process inference with GPU acceleration, 2018;
Wang et al., Exact Gaussian processes on a million data points, 2019; Ubaru, Chen and Saad, Fast estimation of tr(f(A))
via stochastic Lanczos quadrature, 2017.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh_tridiagonal

from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.kernel import TILE, Kernel, Points
from chainrule.kernels.positive import Factored, factored

Columns = Float[Array, "rows columns"]


def _tiles(x: Points, *others: Columns) -> tuple[int, tuple[Array, ...]]:
    """Rows of all in tiles of about four million kernel values; the last is filled up."""
    rows = len(x)
    size = max(1, min(rows, TILE // rows))
    count = -(-rows // size)
    return size, tuple(
        jnp.pad(a, ((0, count * size - rows), (0, 0))).reshape(count, size, -1) for a in (x, *others)
    )


def kernel_product(kernel: Kernel, x: Points, right: Columns) -> Columns:
    """`k(x, x)` times the columns, a tile of rows at a time, which derivatives compute once more."""
    _, (tiles,) = _tiles(x)
    found = jax.lax.map(jax.checkpoint(lambda tile: kernel.tile(tile, x) @ right), tiles)
    return found.reshape(-1, right.shape[1])[: len(x)]


def kernel_form(kernel: Kernel, x: Points, left: Columns, right: Columns) -> Scalar:
    """The sum over columns of `left' k(x, x) right`; its derivative goes through the tiles once more."""
    _, (tiles, parts) = _tiles(x, left)

    @jax.checkpoint
    def add(total: Array, tile: tuple[Array, Array]) -> tuple[Array, None]:
        rows, own = tile
        return total + (own * (kernel.tile(rows, x) @ right)).sum(), None

    return jax.lax.scan(add, jnp.zeros((), right.dtype), (tiles, parts))[0]


class Preconditioner(NamedTuple):
    """`L L' + noise I` by a factor of few columns."""

    factor: Float[Array, "rows rank"]
    noise: Scalar
    inner: Factored
    """Of `noise I + L' L`."""

    def solve(self, b: Columns) -> Columns:
        """Its inverse times the columns (Woodbury's identity)."""
        return (b - self.factor @ self.inner.solve(self.factor.T @ b)) / self.noise

    @property
    def log_det(self) -> Scalar:
        """The logarithm of its determinant."""
        rows, rank = self.factor.shape
        return self.inner.log_det + (rows - rank) * jnp.log(self.noise)

    def draw(self, key: Array, count: int) -> Columns:
        """Columns of normal noise with it as their covariance."""
        rows, rank = self.factor.shape
        low, own = jax.random.split(key)
        shared = self.factor @ jax.random.normal(low, (rank, count), self.factor.dtype)
        return shared + jnp.sqrt(self.noise) * jax.random.normal(own, (rows, count), self.factor.dtype)


def preconditioner(factor: Float[Array, "rows rank"], noise: Scalar) -> Preconditioner:
    """From a factor of the kernel matrix alone; a factor without columns leaves the noise."""
    inner = noise * jnp.eye(factor.shape[1], dtype=factor.dtype) + factor.T @ factor
    return Preconditioner(factor, noise, factored(inner, "noise I + L' L"))


class Solved(NamedTuple):
    """What conjugate gradients found."""

    solution: Columns
    residual: Float[Array, " columns"]
    """What is left of each right-hand side, as a share of it."""
    steps: Array
    diagonal: Float[Array, "columns limit"]
    """Of Lanczos's tridiagonal matrix of the preconditioned matrix, filled up with ones."""
    beside: Float[Array, "columns limit"]
    """Beside the diagonal, filled up with zeros."""


def conjugate_gradients(
    kernel: Kernel, x: Points, near: Preconditioner, right: Columns, tolerance: float, limit: int
) -> Solved:
    """`(k(x, x) + noise I)^-1 right`, until what is left of every column is below the tolerance."""
    size = jnp.maximum(jnp.linalg.norm(right, axis=0), jnp.finfo(right.dtype).tiny)

    def goes_on(state: Any) -> Array:
        step, _, left, *_ = state
        return (step < limit) & (jnp.linalg.norm(left, axis=0) > tolerance * size).any()

    def advance(state: Any) -> Any:
        step, found, left, way, square, lengths, turns = state
        open_still = jnp.linalg.norm(left, axis=0) > tolerance * size
        seen = kernel_product(kernel, x, way) + near.noise * way
        bent = (way * seen).sum(axis=0)
        length = jnp.where(open_still, square / jnp.where(bent > 0, bent, 1.0), 0.0)
        found = found + length[None] * way
        left = left - length[None] * seen
        ahead = near.solve(left)
        new = (left * ahead).sum(axis=0)
        turn = jnp.where(open_still, new / jnp.where(square > 0, square, 1.0), 0.0)
        way = jnp.where(open_still[None], ahead + turn[None] * way, way)
        square = jnp.where(open_still, new, square)
        return step + 1, found, left, way, square, lengths.at[step].set(length), turns.at[step].set(turn)

    start = near.solve(right)
    zeros = jnp.zeros((limit, right.shape[1]), right.dtype)
    state = (
        *(jnp.zeros((), jnp.int32), jnp.zeros_like(right), right, start),
        *((right * start).sum(axis=0), zeros, zeros),
    )
    step, found, left, _, _, lengths, turns = jax.lax.while_loop(goes_on, advance, state)
    diagonal, beside = _tridiagonal(lengths, turns)
    return Solved(found, jnp.linalg.norm(left, axis=0) / size, step, diagonal, beside)


def solution(
    kernel: Kernel, x: Points, near: Preconditioner, right: Columns, tolerance: float, limit: int
) -> Columns:
    """The same solution alone, with derivatives: those of a linear equation, by another solve."""

    def product(columns: Columns) -> Columns:
        return kernel_product(kernel, x, columns) + near.noise * columns

    def solve(_: Any, columns: Columns) -> Columns:
        still = jax.lax.stop_gradient((kernel, x, near))
        return conjugate_gradients(*still, columns, tolerance, min(limit, 10 * len(x))).solution

    found: Columns = jax.lax.custom_linear_solve(product, right, solve, symmetric=True)
    return found


def _tridiagonal(lengths: Array, turns: Array) -> tuple[Array, Array]:
    """Lanczos's matrix from the coefficients of the steps; columns that were done earlier end with ones."""
    there = lengths > 0
    inverse = jnp.where(there, 1 / jnp.where(there, lengths, 1.0), 0.0)
    before = jnp.pad((turns * inverse)[:-1], ((1, 0), (0, 0)))
    diagonal = jnp.where(there, inverse + before, 1.0)
    follows = jnp.pad(there[1:], ((0, 1), (0, 0)))
    beside = jnp.where(there & follows, jnp.sqrt(jnp.maximum(turns, 0.0)) * inverse, 0.0)
    return diagonal.T, beside.T


def mean_logs(
    diagonal: Float[np.ndarray, "columns limit"], beside: Float[np.ndarray, "columns limit"], steps: int
) -> Float[np.ndarray, " columns"]:
    """`u' log(A) u` for the preconditioned matrix A and every right-hand side at unit length in its geometry.

    On the host, where tridiagonal matrices are decomposed as such.
    """
    found = []
    for own, off in zip(diagonal[:, :steps], beside[:, : steps - 1], strict=True):
        values, vectors = eigh_tridiagonal(own, off)
        found.append((np.square(vectors[0]) * np.log(np.maximum(values, np.finfo(np.float64).tiny))).sum())
    return np.array(found)


__all__ = [
    "Preconditioner",
    "Solved",
    "conjugate_gradients",
    "kernel_form",
    "kernel_product",
    "mean_logs",
    "preconditioner",
    "solution",
]
