"""Clusters by similarity: k-means in the space of features, and spectral clustering.

Kernel k-means assigns points to the nearest mean of features; distances to means need the Gram matrix alone. Spectral
clustering cuts the graph whose weights are the kernel where little is lost: the rows of the first eigenvectors of its
normalised Laplacian are clustered, and as many eigenvalues are near zero as there are clusters far apart. With
features in place of the kernel both need no matrix of all pairs: means and eigenvectors are those of the features.

References: Dhillon, Guan and Kulis, Kernel k-means, spectral clustering and normalized cuts, 2004; Ng, Jordan and
Weiss, On spectral clustering: analysis and an algorithm, 2001; von Luxburg, A tutorial on spectral clustering, 2007.
"""

from functools import partial
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.kernels.approximation import Approximate
from chainrule.kernels.kernel import Kernel, a_kernel
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import features_of
from chainrule.probability.k_means import Clusters, k_means


class Clustering(NamedTuple):
    """What `kernel_k_means` found."""

    labels: Int[np.ndarray, " rows"]
    """The cluster of each point; clusters are numbered in the order of their first points."""
    error: float
    """Sum of squared distances in feature space from the mean of the cluster."""
    rounds: int
    """Rounds of the best start."""


class SpectralClustering(NamedTuple):
    """What `spectral_clustering` found."""

    labels: Int[np.ndarray, " rows"]
    eigenvalues: Float[np.ndarray, " eigenvalues"]
    """Of the normalised Laplacian, smallest first: as many are near zero as there are clusters far apart. As many as
    there are points, or features in place of the kernel; all others are one."""
    coordinates: Float[np.ndarray, "rows clusters"]
    """The rows that were clustered, each of length one."""


def kernel_k_means(
    x: Any,
    clusters: int,
    kernel: Kernel,
    *,
    restarts: int = 10,
    rounds: int = 300,
    key: Key | None = None,
    approximate: str = "none",
    count: int = 1024,
) -> Clustering:
    """Points in clusters with the least sum of squared distances in feature space, best of several starts.

    `approximate` takes `count` random Fourier features (`rff`) or Nyström landmarks (`nystrom`) in place of the kernel,
    so that time and memory grow with the number of points and no longer with its square.

    >>> from chainrule.kernels import Linear
    >>> kernel_k_means([0.0, 1.0, 10.0, 11.0], 2, Linear()).labels.tolist()
    [0, 0, 1, 1]
    """
    a_kernel("kernel_k_means", kernel)
    clusters = _count("kernel_k_means", clusters, len(x))
    restarts = whole("kernel_k_means", "restarts", restarts)
    rounds = whole("kernel_k_means", "rounds", rounds)
    check_choice("kernel_k_means", "approximate", approximate, get_args(Approximate))
    drawn = random.key(0, "clusters") if key is None else key
    if approximate != "none":
        rows = features_of(kernel, x, approximate, count, drawn)[1]
        found, error = _best_means(rows, clusters, drawn, restarts, rounds)
        return Clustering(in_order(found.nearest), error, found.rounds)
    labels, errors, done = _started(kernel, x, drawn, clusters, restarts, rounds)
    best = int(np.argmin(errors))
    return Clustering(in_order(labels[best]), float(errors[best]), int(done[best]))


def spectral_clustering(
    x: Any,
    clusters: int,
    kernel: Kernel,
    *,
    restarts: int = 10,
    key: Key | None = None,
    approximate: str = "none",
    count: int = 1024,
) -> SpectralClustering:
    """Points in clusters that few strong similarities join; the kernel must not be negative.

    `approximate` and `count` as of `kernel_k_means`.

    >>> from chainrule.kernels import RBF
    >>> spectral_clustering([0.0, 1.0, 10.0, 11.0], 2, RBF(1.0)).labels.tolist()
    [0, 0, 1, 1]
    """
    a_kernel("spectral_clustering", kernel)
    clusters = _count("spectral_clustering", clusters, len(x))
    restarts = whole("spectral_clustering", "restarts", restarts)
    check_choice("spectral_clustering", "approximate", approximate, get_args(Approximate))
    drawn = random.key(0, "clusters") if key is None else key
    if approximate == "none":
        least, eigenvalues, coordinates = _laplacian(kernel, x, clusters)
        if least < 0:
            raise ArgumentError(
                f"spectral_clustering(kernel): a similarity is {float(least):.3g}; weights of a graph are not negative",
                remedy="use a kernel like RBF or Matern",
            )
    else:
        rows = features_of(kernel, x, approximate, count, drawn)[1]
        least, eigenvalues, coordinates = _laplacian_of_features(rows, clusters)
        if least <= 0:
            raise ArgumentError(
                f"spectral_clustering(approximate={approximate!r}): similarities of a point add up to "
                f"{float(least):.3g} by {rows.shape[1]} features, and a degree in a graph is positive",
                remedy='use more features (count), or approximate="nystrom"',
            )
    found, _ = _best_means(coordinates, clusters, drawn, restarts)
    return SpectralClustering(in_order(found.nearest), eigenvalues, coordinates)


def _best_means(
    rows: Float[np.ndarray, "rows features"], clusters: int, key: Key, restarts: int, rounds: int = 100
) -> tuple[Clusters, float]:
    """The best of several starts of k-means, and its sum of squared distances."""
    generator = np.random.default_rng(int(jax.random.randint(key, (), 0, 2**31 - 1)))
    found = [k_means(rows, clusters, generator, rounds=rounds) for _ in range(restarts)]
    errors = [float(np.square(rows - one.centres[one.nearest]).sum()) for one in found]
    best = int(np.argmin(errors))
    return found[best], errors[best]


def in_order(labels: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
    """The same clusters, numbered in the order of their first points.

    >>> in_order(np.array([2, 2, 0, 1])).tolist()
    [0, 0, 1, 2]
    """
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    ranks: np.ndarray = first.argsort().argsort()[numbers]
    return ranks


def _count(where: str, clusters: Any, rows: int) -> int:
    number = whole(where, "clusters", clusters)
    if number > rows:
        raise ArgumentError(
            f"{where}(clusters={number}): there are {rows} points", remedy=f"use {rows} clusters or less"
        )
    return number


@in_double
def _started(kernel: Kernel, x: Any, key: Key, clusters: int, restarts: int, rounds: int) -> Any:
    return _lloyd(kernel.gram(x), jax.random.split(key, restarts), clusters, rounds)


@partial(jax.jit, static_argnames=("clusters", "rounds"))
def _lloyd(matrix: Array, keys: Array, clusters: int, rounds: int) -> tuple[Array, Array, Array]:
    own = jnp.diagonal(matrix)

    def start(key: Array) -> Array:
        """Points drawn one after another with their squared distance from those before as weight; the nearest wins."""
        first, key = jax.random.split(key)
        chosen = jax.random.randint(first, (), 0, len(own))
        near = own + own[chosen] - 2 * matrix[chosen]
        apart = jnp.full((clusters, len(own)), jnp.inf).at[0].set(near)

        def add(i: Array, apart: Array) -> Array:
            weights = jnp.maximum(apart.min(axis=0), 0.0)
            logs = jnp.log(jnp.where(weights > 0, weights, 1e-300))
            chosen = jax.random.categorical(jax.random.fold_in(key, i), logs)
            return apart.at[i].set(own + own[chosen] - 2 * matrix[chosen])

        return jax.lax.fori_loop(1, clusters, add, apart).argmin(axis=0)

    def squares(labels: Array) -> Array:
        """Squared distances of points from means of clusters; from an empty one, infinite."""
        member = jax.nn.one_hot(labels, clusters, dtype=matrix.dtype)
        counts = member.sum(axis=0)
        safe = jnp.maximum(counts, 1.0)
        sums = matrix @ member / safe[None, :]
        within = (member * sums).sum(axis=0) / safe
        return jnp.where(counts > 0, own[:, None] - 2 * sums + within[None, :], jnp.inf)

    def fill(labels: Array, apart: Array) -> Array:
        """An empty cluster takes the point that is farthest from its mean."""

        def one(cluster: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            labels, far = state
            empty = ~(labels == cluster).any()
            worst = far.argmax()
            moved = (labels.at[worst].set(cluster), far.at[worst].set(-1.0))
            return jax.tree.map(lambda new, old: jnp.where(empty, new, old), moved, (labels, far))

        return jax.lax.fori_loop(0, clusters, one, (labels, apart.min(axis=1)))[0]

    def assign(labels: Array) -> Array:
        apart = squares(labels)
        return fill(apart.argmin(axis=1), apart)

    def go_on(state: tuple[Array, Array, Array]) -> Array:
        labels, before, done = state
        return (labels != before).any() & (done < rounds)

    def turn(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        labels, _, done = state
        return assign(labels), labels, done + 1

    def solve(key: Array) -> tuple[Array, Array, Array]:
        labels = start(key)
        state = (assign(labels), labels, jnp.ones((), jnp.int32))
        labels, _, done = jax.lax.while_loop(go_on, turn, state)
        apart = jnp.take_along_axis(squares(labels), labels[:, None], axis=1)
        return labels, jnp.maximum(apart, 0.0).sum(), done

    return jax.lax.map(solve, keys)


@in_double
def _laplacian(kernel: Kernel, x: Any, clusters: int) -> Any:
    """The smallest weight, eigenvalues, and rows of the first eigenvectors, scaled to length one."""
    weights = kernel.gram(x)
    root = jax.lax.rsqrt(jnp.maximum(weights.sum(axis=1), 1e-300))
    similar = root[:, None] * weights * root[None, :]
    values, vectors = jnp.linalg.eigh(similar)
    return weights.min(), jnp.maximum(1 - values[::-1], 0.0), _unit(vectors[:, ::-1][:, :clusters])


@in_double
def _laplacian_of_features(rows: Array, clusters: int) -> Any:
    """The smallest degree, eigenvalues and rows of the first eigenvectors, by the singular vectors of features."""
    degrees = rows @ rows.sum(axis=0)
    root = jax.lax.rsqrt(jnp.maximum(degrees, 1e-300))
    vectors, values, _ = jnp.linalg.svd(root[:, None] * rows, full_matrices=False)
    return degrees.min(), jnp.maximum(1 - jnp.square(values), 0.0), _unit(vectors[:, :clusters])


def _unit(rows: Float[Array, "rows clusters"]) -> Float[Array, "rows clusters"]:
    """Rows scaled to length one."""
    lengths = jnp.linalg.norm(rows, axis=1, keepdims=True)
    return rows / jnp.where(lengths > 0, lengths, 1.0)


__all__ = ["Clustering", "SpectralClustering", "in_order", "kernel_k_means", "spectral_clustering"]
