"""Nyström's approximation: the kernel as a few landmarks see it.

With landmarks Z the matrix K is replaced by `Q = K_xz K_zz^-1 K_zx`, which is never larger than K. Its features are
`L^-1 k(Z, x)` with `L L' = K_zz`: as many as landmarks. The trace of K - Q, the variance that the landmarks do not
explain, bounds the error in every norm and is reported. Landmarks are drawn uniformly, are the means of clusters, or
are chosen one by one where most variance is left (pivoted Cholesky), which has the smallest trace as a rule.

Reference: Williams and Seeger, Using the Nyström method to speed up kernel machines, 2001.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.kernels.features import Features, KernelFeatures, Rows
from chainrule.kernels.kernel import Kernel, a_kernel, points
from chainrule.kernels.pivoting import pivoted_points
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double
from chainrule.probability.k_means import k_means

Choice = Literal["uniform", "kmeans", "pivoted"]
_CLUSTERED = 20_000
"""Rows that are clustered at most; of more, so many are drawn."""
_ROUNDS = 25
Points = Float[np.ndarray, "rows features"]
Chosen = Float[np.ndarray, "count features"]


@final
class Nystrom(KernelFeatures):
    """Features of a kernel by landmarks; `trace_gap` and `jitter` say how good they are.

    Outside of compiled code everything is computed in double precision.

    >>> from chainrule.kernels import RBF
    >>> x = np.linspace(-2, 2, 40)[:, None]
    >>> features = Nystrom(RBF(1.0), x, count=8, key=jax.random.key(0))
    >>> features(x).shape, bool(features.trace_gap < 1e-3)
    ((40, 8), True)
    """

    kernel: Kernel
    landmarks: Float[Array | np.ndarray, "count size"]
    lower: Float[Array | np.ndarray, "count count"]
    """The factor of the matrix of the landmarks."""
    trace_gap: Float[Array | np.ndarray, ""]
    """The trace of K - Q on the points given: the sum of the variances that the landmarks leave unexplained."""
    jitter: Float[Array | np.ndarray, ""]
    """What had to be added to the diagonal of the matrix of the landmarks."""

    def __init__(
        self, kernel: Kernel, x: Any, *, count: int, choice: Choice = "pivoted", key: Key | None = None
    ) -> None:
        rows = in_double(points)("Nystrom", "x", x)
        self.kernel = kernel
        self.landmarks = landmarks(kernel, rows, count, choice=choice, key=key)
        self.lower, self.jitter = _factor(kernel, self.landmarks)
        self.trace_gap = _gap(kernel, rows, self.landmarks, self.lower)

    @property
    def count(self) -> int:
        return len(self.landmarks)

    def __call__(self, x: Rows) -> Features:
        return _features(self.kernel, x, self.landmarks, self.lower)


def landmarks(
    kernel: Kernel, x: Any, count: int, *, choice: Choice = "pivoted", key: Key | None = None
) -> Float[np.ndarray, "count features"]:
    """Points that stand for many: drawn uniformly, means of clusters, or those with the most variance left.

    `uniform` and `kmeans` draw, so they need a key. Where more points are asked for than tell each other apart, the
    last of `pivoted` are any others.
    """
    a_kernel("landmarks", kernel)
    check_choice("landmarks", "choice", choice, _CHOICES)
    rows = in_double(points)("landmarks", "x", x)
    count = whole("landmarks", "count", count)
    if count > len(rows):
        raise ArgumentError(
            f"landmarks(count={count}): there are only {len(rows)} points", remedy=f"use count={len(rows)}"
        )
    return _CHOICES[choice](kernel, np.asarray(rows), count, key)


def _uniform(kernel: Kernel, rows: Points, count: int, key: Key | None) -> Chosen:
    del kernel
    return rows[np.sort(_random(key, "uniform").choice(len(rows), count, replace=False))]


def _kmeans(kernel: Kernel, rows: Points, count: int, key: Key | None) -> Chosen:
    del kernel
    random = _random(key, "kmeans")
    if len(rows) > _CLUSTERED:
        rows = rows[random.choice(len(rows), max(_CLUSTERED, count), replace=False)]
    return k_means(rows, count, random, rounds=_ROUNDS).centres


def _pivoted(kernel: Kernel, rows: Points, count: int, key: Key | None) -> Chosen:
    del key
    taken = pivoted_points(kernel, rows, count).pivots
    others = np.setdiff1d(np.arange(len(rows)), taken)[: count - len(taken)]
    return rows[np.concatenate([taken, others])]


_CHOICES: Mapping[str, Callable[[Kernel, Points, int, Key | None], Chosen]] = {
    "uniform": _uniform,
    "kmeans": _kmeans,
    "pivoted": _pivoted,
}


def _random(key: Key | None, choice: str) -> np.random.Generator:
    if key is None:
        raise ArgumentError(
            f'landmarks(choice="{choice}"): draws, so it needs a key', remedy="key=jax.random.key(0)"
        )
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())


@in_double
def _factor(kernel: Kernel, chosen: Array) -> tuple[Array, Array]:
    found = factored(kernel.gram(chosen), "K of the landmarks")
    return found.lower, found.jitter


@in_double
def _features(kernel: Kernel, x: Any, chosen: Any, lower: Any) -> Array:
    rows = points("Nystrom", "x", x)
    return jax.scipy.linalg.solve_triangular(
        jnp.asarray(lower), kernel.gram(jnp.asarray(chosen), rows), lower=True
    ).T


@in_double
def _gap(kernel: Kernel, rows: Array, chosen: Array, lower: Array) -> Array:
    explained = jnp.square(_features(kernel, rows, chosen, lower)).sum()
    return kernel.diagonal(jnp.asarray(rows)).sum() - explained


__all__ = ["Choice", "Nystrom", "landmarks"]
