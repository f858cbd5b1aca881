"""Distances between samples and held-out examples: kernel and Fréchet distance, variety, nearest neighbours.

Are they as varied as real ones, do they follow the same distribution, and are they new? Whether they are of the right
class is for `reference_classifier` to say.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError

Rows = Float[np.ndarray, "examples features"]
Labels = Int[np.ndarray, " examples"]

_COMPONENTS = 32
_BLOCK = 256


def nearest(
    x: Float[np.ndarray, "some features"], among: Float[np.ndarray, "others features"], count: int = 1
) -> tuple[Float[np.ndarray, "some count"], Int[np.ndarray, "some count"]]:
    """Distances to, and numbers of, the nearest rows.

    >>> nearest(np.array([[0.9]]), np.array([[0.0], [1.0], [3.0]]))[1].tolist()
    [[1]]
    """
    distances, numbers = [], []
    squares = np.square(among).sum(axis=1)
    for first in range(0, len(x), _BLOCK):
        some = x[first : first + _BLOCK]
        apart = np.square(some).sum(axis=1)[:, None] + squares[None] - 2 * some @ among.T
        chosen = np.argsort(apart, axis=1)[:, :count]
        numbers.append(chosen)
        distances.append(np.sqrt(np.maximum(np.take_along_axis(apart, chosen, axis=1), 0)))
    return np.concatenate(distances), np.concatenate(numbers).astype(np.int64)


def components(
    real: Rows,
) -> tuple[Float[np.ndarray, " features"], Float[np.ndarray, "features kept"]]:
    """Mean and principal axes of real examples, scaled to unit variance: features of data that have no classes."""
    mean = real.mean(axis=0)
    _, sizes, axes = np.linalg.svd(real - mean[None], full_matrices=False)
    kept = sizes > 1e-6 * sizes.max()
    scaled = axes[kept].T * math.sqrt(len(real)) / sizes[kept][None]
    return mean, scaled[:, :_COMPONENTS]


class DistanceEstimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


def kernel_distance(
    one: Float[np.ndarray, "some kept"],
    other: Float[np.ndarray, "others kept"],
    within: float | None = None,
    strata: Labels | None = None,
) -> DistanceEstimate:
    """Squared maximum mean discrepancy of two sets under the kernel (x·y/d + 1)³, unbiased (Bińkowski et al., 2018).

    Zero on average for two sets from one distribution. The error is that of `one`, whose examples are taken for
    draws; `other` stands as it is. `within` is `alikeness(other)` for a caller that has it already. `strata` are the
    classes of `one` where it was drawn with a fixed number of each: pairs are then rarer within a class than among
    independent draws, and counting them alike would make the distance too small.

    >>> x, y = np.random.default_rng(0).normal(size=(2, 50, 3))
    >>> found = kernel_distance(x, y)
    >>> abs(found.value) < 3 * found.error
    True
    """
    if min(len(one), len(other)) < 2:
        raise ArgumentError("kernel_distance: two examples of each kind are needed")
    groups = _groups(len(one), strata)
    # What each example adds, to first order: its likeness to the others of its kind less that to the other kind.
    near, far = _likeness(one, groups), _kernel(one, other).mean(axis=1)
    within = alikeness(other) if within is None else within
    adds = near - far
    centred = adds - (np.bincount(groups, adds) / np.bincount(groups))[groups]
    error = 2 * float(centred.std()) / math.sqrt(len(one))
    return DistanceEstimate(float(near.mean() - 2 * far.mean()) + within, error)


def alikeness(rows: Float[np.ndarray, "some kept"], strata: Labels | None = None) -> float:
    """Mean of the kernel over pairs of independent draws; `strata` as in `kernel_distance`."""
    return float(_likeness(rows, _groups(len(rows), strata)).mean())


def _likeness(
    rows: Float[np.ndarray, "some kept"], groups: Int[np.ndarray, " some"]
) -> Float[np.ndarray, " some"]:
    """Mean of the kernel of every example with the others, those of its group counted for itself too."""
    sizes = np.bincount(groups)[groups]
    found = np.empty(len(rows))
    for first in range(0, len(rows), _BLOCK):
        block = slice(first, first + _BLOCK)
        likeness, same = _kernel(rows[block], rows), groups[block, None] == groups[None]
        own = (np.square(rows[block]).sum(axis=1) / rows.shape[1] + 1) ** 3
        inside = (np.where(same, likeness, 0).sum(axis=1) - own) * sizes[block] / (sizes[block] - 1)
        found[block] = (inside + np.where(same, 0, likeness).sum(axis=1)) / len(rows)
    return found


def _groups(count: int, strata: Labels | None) -> Int[np.ndarray, " some"]:
    """Numbers of groups of at least two: classes, those of a single example joined to the largest one."""
    if strata is None:
        return np.zeros(count, np.int64)
    _, groups, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    joined = np.where(sizes[groups] < 2, sizes.argmax(), groups)
    return np.unique(joined, return_inverse=True)[1]


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found: np.ndarray = (a @ b.T / a.shape[1] + 1) ** 3
    return found


def frechet_distance(one: Float[np.ndarray, "some kept"], other: Float[np.ndarray, "others kept"]) -> float:
    """Squared 2-Wasserstein distance of the Gaussians with the means and covariances of two sets (Heusel et al., 2017).

    |m - m'|² + tr(C + C' - 2 (C½ C' C½)½). Unlike the kernel distance it is too large for few examples, so only equal
    numbers of them compare.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(frechet_distance(x, 2.0 + x), 6)
    12.0
    """
    if min(len(one), len(other)) < 2:
        raise ArgumentError("frechet_distance: two examples of each kind are needed")
    first, second = (np.atleast_2d(np.cov(x, rowvar=False)) for x in (one, other))
    sizes, axes = np.linalg.eigh(first)
    root = (axes * np.sqrt(np.maximum(sizes, 0))[None]) @ axes.T
    crossed = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ second @ root), 0)).sum()
    apart = np.square(one.mean(axis=0) - other.mean(axis=0)).sum()
    return float(apart + np.trace(first) + np.trace(second) - 2 * crossed)


def spread(x: Rows, y: Labels | None = None) -> float:
    """Mean distance between two examples, of one class where there are classes."""
    groups = [x] if y is None else [x[y == c] for c in np.unique(y)]
    found = []
    for group in groups:
        if len(group) > 1:
            squares = np.square(group).sum(axis=1)
            apart = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * group @ group.T, 0))
            found.append((apart.sum() - np.trace(apart)) / (len(group) * (len(group) - 1)))
    return float(np.mean(found)) if found else math.nan


__all__ = [
    "DistanceEstimate",
    "alikeness",
    "components",
    "frechet_distance",
    "kernel_distance",
    "nearest",
    "spread",
]
