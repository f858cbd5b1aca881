"""Points from similarities: coordinates whose inner products are a given Gram matrix, unique up to a rotation.

A Gram matrix says how points lie to each other and nothing about where: turning or mirroring all of them leaves it as
it is. So two reconstructions of one matrix may look different; `procrustes` lays one over the other. Building the
matrix of N points costs O(N²) kernels, factoring it O(N³) operations, or O(N r²) for r pivots.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float
from chainrule.kernels.pivoting import pivoted_cholesky
from chainrule.kernels.positive import factored, not_positive, symmetric
from chainrule.kernels.precision import in_double

Matrix = Float[np.ndarray, "points points"]


class Coordinates(NamedTuple):
    """Points in Euclidean space, one a row, whose inner products are the matrix."""

    x: Float[np.ndarray, "points rank"]
    error: float
    """The largest entry of the matrix less that of the inner products."""
    jitter: float
    """What was added to the diagonal to factor it; by "cholesky" alone."""

    @property
    def rank(self) -> int:
        """Coordinates of a point."""
        return self.x.shape[1]


def embed(
    K: Any, rank: int | None = None, method: Literal["eigh", "cholesky", "pivoted"] = "eigh"
) -> Coordinates:
    """Coordinates in plain Euclidean space with `x @ x.T = K`; with a `rank`, of so many dimensions at most.

    "eigh" gives the best coordinates for a rank and orders them by importance; "cholesky" gives the first point one
    coordinate, the second two, and so on; "pivoted" also takes matrices that are singular without adding anything, and
    finds their numerical rank. O(N³), "pivoted" O(N rank²).

    >>> K = [[1.0, 0.8, -0.6], [0.8, 1.0, -0.2], [-0.6, -0.2, 1.0]]
    >>> embed(K, method="cholesky").x.round(6).tolist()
    [[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.6, 0.466667, 0.649786]]
    >>> embed([[1.0, 1.0], [1.0, 1.0]], method="pivoted").rank
    1
    """
    check_choice("embed", "method", method, _METHODS)
    matrix = symmetric("embed", "K", K)
    x, jitter = _METHODS[method](matrix)
    if rank is not None:
        x = x[:, : whole("embed", "rank", rank)]
    return Coordinates(x, float(np.abs(matrix - x @ x.T).max(initial=0.0)), jitter)


def _by_eigenvalues(matrix: Matrix) -> tuple[np.ndarray, float]:
    values, vectors = np.linalg.eigh(matrix)
    largest = np.abs(values).max(initial=0.0)
    if values.min(initial=0.0) < -1e-8 * largest:
        raise not_positive(matrix, "K")
    kept = np.flatnonzero(values > len(values) * np.finfo(np.float64).eps * largest)[::-1]
    return vectors[:, kept] * np.sqrt(values[kept])[None, :], 0.0


def _by_rows(matrix: Matrix) -> tuple[np.ndarray, float]:
    lower, jitter = _factor(matrix)
    return np.asarray(lower), float(jitter)


@in_double
def _factor(matrix: Array) -> tuple[Array, Array]:
    found = factored(matrix)
    return found.lower, found.jitter


def _by_pivots(matrix: Matrix) -> tuple[np.ndarray, float]:
    return pivoted_cholesky(matrix).factor, 0.0


_METHODS: Mapping[str, Callable[[Matrix], tuple[np.ndarray, float]]] = {
    "eigh": _by_eigenvalues,
    "cholesky": _by_rows,
    "pivoted": _by_pivots,
}


@final
@dataclass(frozen=True)
class Reconstruction:
    """Features and a metric that give a matrix back: `features[i] @ metric @ features[j]` is `K[i, j]`."""

    features: Float[np.ndarray, "points dimensions"]
    metric: Float[np.ndarray, "dimensions dimensions"]

    def gram(self) -> Matrix:
        """The matrix of all inner products in the metric."""
        product: np.ndarray = self.features @ self.metric @ self.features.T
        return product

    def rotated(self, rotation: Any) -> "Reconstruction":
        """The same points turned or mirrored: features `Q f`, metric `Q M Q'`, the same matrix."""
        turn = np.asarray(rotation, np.float64)
        size = len(self.metric)
        if turn.shape != (size, size) or np.abs(turn @ turn.T - np.eye(size)).max() > 1e-8:
            raise ArgumentError(
                f"rotated(rotation): needs an orthogonal matrix of shape ({size}, {size}); this one of shape "
                f"{turn.shape} is not",
                remedy="np.linalg.qr(matrix)[0] is orthogonal",
            )
        return Reconstruction(self.features @ turn.T, turn @ self.metric @ turn.T)


def reconstruct(K: Any) -> Reconstruction:
    """Features from a Gram matrix alone: point i is its column `K e_i`, and the metric is the inverse of K.

    The pseudo-inverse where K is singular. O(N³).

    >>> found = reconstruct([[2.0, 1.0], [1.0, 2.0]])
    >>> found.gram().round(12).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    matrix = symmetric("reconstruct", "K", K)
    values, vectors = np.linalg.eigh(matrix)
    largest = np.abs(values).max(initial=0.0)
    if values.min(initial=0.0) < -1e-8 * largest:
        raise not_positive(matrix, "K")
    known = values > len(values) * np.finfo(np.float64).eps * largest
    inverse = np.where(known, 1 / np.where(known, values, 1.0), 0.0)
    return Reconstruction(matrix, (vectors * inverse[None, :]) @ vectors.T)


class Aligned(NamedTuple):
    """One set of points laid over another."""

    x: Float[np.ndarray, "points dimensions"]
    """The first set, turned."""
    rotation: Float[np.ndarray, "dimensions dimensions"]
    """Orthogonal; with determinant -1 it also mirrors."""
    error: float
    """The root of the mean squared distance that is left."""


def procrustes(a: Any, b: Any) -> Aligned:
    """Turn points `a` (mirror them, if that helps) so that they lie as close to `b` as they can.

    Points of fewer coordinates get zeros. Reference: Schönemann, A generalized solution of the orthogonal Procrustes
    problem, 1966.

    >>> procrustes([[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [2.0, 0.0]]).error < 1e-12
    True
    """
    first, second = (np.asarray(one, np.float64) for one in (a, b))
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second):
        raise ArgumentError(
            f"procrustes: a of shape {first.shape} and b of shape {second.shape} are not as many points, one a row"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ArgumentError("procrustes: coordinates of a and b must be finite")
    size = max(first.shape[1], second.shape[1])
    first, second = (np.pad(one, ((0, 0), (0, size - one.shape[1]))) for one in (first, second))
    left, _, right = np.linalg.svd(first.T @ second)
    rotation = left @ right
    turned = first @ rotation
    left_over = np.square(turned - second).sum(axis=1)
    return Aligned(turned, rotation, float(np.sqrt(left_over.mean())) if len(left_over) else 0.0)


__all__ = ["Aligned", "Coordinates", "Reconstruction", "embed", "procrustes", "reconstruct"]
