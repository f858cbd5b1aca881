"""The kernel trick: means, distances and neighbours of features that are never formed.

Whatever is a combination `sum_i a_i phi(x_i)` of features is known by its weights alone: inner products are `a' K b`.
So are squared distances, `(a - b)' K (a - b)`, the mean of a set, its spread, and which of several means is nearest.

Reference: Shawe-Taylor and Cristianini, Kernel Methods for Pattern Analysis, 2004, chapter 5.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.kernels.kernel import Kernel, points
from chainrule.kernels.positive import symmetric
from chainrule.kernels.precision import in_double

Matrix = Float[np.ndarray, "points points"]
_BLOCK = 4096
"""New points that are compared at once."""


def combined(K: Any, a: Any, b: Any) -> float:
    """The inner product `a' K b` of `sum_i a_i phi(x_i)` and `sum_i b_i phi(x_i)`.

    >>> combined([[1.0, 0.5], [0.5, 1.0]], [1.0, 0.0], [0.5, 0.5])
    0.75
    """
    matrix = symmetric("combined", "K", K)
    first, second = _weights("a", a, matrix), _weights("b", b, matrix)
    return float(first @ matrix @ second)


def squared_distance(K: Any, a: Any, b: Any) -> float:
    """`(a - b)' K (a - b)`: how far apart two combinations of features are, squared.

    >>> squared_distance([[1.0, 0.5], [0.5, 1.0]], [1.0, 0.0], [0.0, 1.0])
    1.0
    """
    matrix = symmetric("squared_distance", "K", K)
    apart = _weights("a", a, matrix) - _weights("b", b, matrix)
    return max(0.0, float(apart @ matrix @ apart))


def centre(K: Any) -> Matrix:
    """`H K H` with `H = I - 11'/N`: the matrix of features less their mean.

    >>> centre([[1.0, 0.0], [0.0, 1.0]]).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    found: np.ndarray = centred(symmetric("centre", "K", K))
    return found


def centred(matrix: Any) -> Any:
    """The same of a symmetric matrix of NumPy or of JAX, in traced code too."""
    means = matrix.mean(axis=0)
    return matrix - means[None, :] - means[:, None] + means.mean()


def normalise(K: Any) -> Matrix:
    """`K_ij / sqrt(K_ii K_jj)`: cosines of the angles between features; a feature of length zero is refused.

    >>> normalise([[4.0, 1.0], [1.0, 1.0]]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    matrix = symmetric("normalise", "K", K)
    own = np.diagonal(matrix)
    if not (own > 0).all():
        first = int(np.argmax(~(own > 0)))
        raise ArgumentError(
            f"normalise(K): K[{first}, {first}] is {own[first]:.6g}; a feature of length zero has no direction",
            remedy=f"leave out point {first}",
        )
    return matrix / np.sqrt(own[:, None] * own[None, :])


def feature_variance(kernel: Kernel, x: Any) -> float:
    """The mean squared distance of features from their mean: `mean K_ii - mean K_ij`.

    >>> from chainrule.kernels import Linear
    >>> feature_variance(Linear(), [[0.0], [2.0]])
    1.0
    """
    rows = _rows("feature_variance", "x", x)
    return max(0.0, float(in_double(_variance)(kernel, rows)))


def feature_distances(kernel: Kernel, x: Any, y: Any) -> Float[np.ndarray, "rows columns"]:
    """Distances of features: `|phi(x_i) - phi(y_j)|` of every pair."""
    first, second = _rows("feature_distances", "x", x), _rows("feature_distances", "y", y)
    return np.asarray(in_double(_distances)(kernel, first, second))


class Neighbours(NamedTuple):
    """The nearest of some points, nearest first."""

    numbers: Int[np.ndarray, "rows count"]
    distances: Float[np.ndarray, "rows count"]


def nearest_neighbours(kernel: Kernel, x: Any, known: Any, count: int = 1) -> Neighbours:
    """The points of `known` whose features are nearest to those of each row of x.

    >>> from chainrule.kernels import RBF
    >>> nearest_neighbours(RBF(1.0), [[0.2]], [[5.0], [0.0], [1.0]], 2).numbers.tolist()
    [[1, 2]]
    """
    rows, others = _rows("nearest_neighbours", "x", x), _rows("nearest_neighbours", "known", known)
    count = whole("nearest_neighbours", "count", count)
    if count > len(others):
        raise ArgumentError(
            f"nearest_neighbours(count={count}): there are only {len(others)} points",
            remedy=f"use count={len(others)} or less",
        )
    numbers, apart = [], []
    for start in range(0, len(rows), _BLOCK):
        found = feature_distances(kernel, rows[start : start + _BLOCK], others)
        order = np.argsort(found, axis=1, kind="stable")[:, :count]
        numbers.append(order)
        apart.append(np.take_along_axis(found, order, axis=1))
    empty = np.zeros((0, count))
    return Neighbours(
        np.concatenate(numbers) if numbers else empty.astype(np.int64),
        np.concatenate(apart) if apart else empty,
    )


def distances_to_means(
    kernel: Kernel, x: Any, known: Any, groups: Any = None
) -> Float[np.ndarray, "rows groups"]:
    """Distances of the features of x from the mean feature of each group of known points; of all without groups.

    Groups are numbered from 0, one number for each known point.

    >>> from chainrule.kernels import Linear
    >>> distances_to_means(Linear(), [[1.0]], [[0.0], [4.0]]).tolist()
    [[1.0]]
    """
    rows, others = _rows("distances_to_means", "x", x), _rows("distances_to_means", "known", known)
    labels = np.zeros(len(others), np.int64) if groups is None else np.asarray(groups)
    if (
        labels.shape != (len(others),)
        or not np.issubdtype(labels.dtype, np.integer)
        or labels.min(initial=0) < 0
    ):
        raise ArgumentError(
            f"distances_to_means(groups): needs one whole number from 0 for each of {len(others)} points, not an array "
            f"of {labels.dtype} of shape {labels.shape}",
            remedy="np.unique(groups, return_inverse=True)[1] numbers them",
        )
    sizes = np.bincount(labels)
    if not len(sizes) or not sizes.all():
        empty = int(np.argmax(sizes == 0)) if len(sizes) else 0
        raise ArgumentError(f"distances_to_means(groups): no point is in group {empty}, so it has no mean")
    weights = np.zeros((len(others), len(sizes)))
    weights[np.arange(len(others)), labels] = 1 / sizes[labels]
    return np.asarray(in_double(_to_means)(kernel, rows, others, weights))


def nearest_mean(kernel: Kernel, x: Any, known: Any, labels: Any) -> Int[np.ndarray, " rows"]:
    """The class whose mean feature is nearest to each row of x: a classifier with nothing to set but the kernel.

    >>> from chainrule.kernels import RBF
    >>> nearest_mean(RBF(1.0), [[0.4], [3.5]], [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]).tolist()
    [0, 1]
    """
    return distances_to_means(kernel, x, known, labels).argmin(axis=1)


def _variance(kernel: Kernel, rows: Array) -> Array:
    rows = jnp.asarray(rows)
    return kernel.diagonal(rows).mean() - kernel.gram(rows).mean()


def _distances(kernel: Kernel, x: Array, y: Array) -> Array:
    x, y = jnp.asarray(x), jnp.asarray(y)
    squares = kernel.diagonal(x)[:, None] + kernel.diagonal(y)[None, :] - 2 * kernel.gram(x, y)
    return jnp.sqrt(jnp.maximum(squares, 0.0))


def _to_means(kernel: Kernel, x: Array, known: Array, weights: Array) -> Array:
    x, known, weights = jnp.asarray(x), jnp.asarray(known), jnp.asarray(weights)
    own = (weights * (kernel.gram(known) @ weights)).sum(axis=0)
    squares = kernel.diagonal(x)[:, None] - 2 * kernel.gram(x, known) @ weights + own[None, :]
    return jnp.sqrt(jnp.maximum(squares, 0.0))


def _rows(where: str, name: str, x: Any) -> np.ndarray:
    rows = np.asarray(in_double(points)(where, name, x))
    if not len(rows) and name != "x":
        raise ArgumentError(f"{where}({name}): no points")
    return rows


def _weights(name: str, values: Any, matrix: np.ndarray) -> np.ndarray:
    weights = np.asarray(values, np.float64)
    if weights.shape != (len(matrix),):
        raise ArgumentError(
            f"{name}: needs {len(matrix)} weights, one for each point, not shape {weights.shape}"
        )
    return weights


__all__ = [
    "Neighbours",
    "centre",
    "centred",
    "combined",
    "distances_to_means",
    "feature_distances",
    "feature_variance",
    "nearest_mean",
    "nearest_neighbours",
    "normalise",
    "squared_distance",
]
