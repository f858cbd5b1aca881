"""Kernel distance of two sets: their squared maximum mean discrepancy under the kernel (x·y/d + 1)³.

Unbiased, so zero on average for two sets of one distribution, and below zero now and then. The usual name is kernel
inception distance where the features are those of Inception; here they are the caller's.

Reference: Bińkowski, Sutherland, Arbel and Gretton, Demystifying MMD GANs, 2018.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError
from chainrule.probability.divergences.kernel_mean import PairMeans
from chainrule.probability.samples.rows import rows_of, two_sets

Labels = Int[np.ndarray, " examples"]
_BLOCK = 256


class DistanceEstimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class SubsetSpread(NamedTuple):
    """Distances of random subsets: their mean and standard deviation, and how many rows each had of either set."""

    mean: float
    deviation: float
    size: int


def kernel_distance(
    one: Any,
    other: Any,
    within: float | None = None,
    strata: Labels | None = None,
) -> DistanceEstimate:
    """The unbiased distance of two sets.

    The error is that of `one`, whose examples are taken for draws; `other` stands as it is. `within` is
    `alikeness(other)` for a caller that has it already. `strata` are the classes of `one` where it was drawn with a
    fixed number of each: pairs are then rarer within a class than among independent draws, and counting them alike
    would make the distance too small.

    >>> x, y = np.random.default_rng(0).normal(size=(2, 50, 3))
    >>> found = kernel_distance(x, y)
    >>> abs(found.value) < 3 * found.error
    True
    """
    one, other = two_sets("kernel_distance", one, other, 2)
    groups = _groups(len(one), strata)
    # What each example adds, to first order: its likeness to the others of its kind less that to the other kind.
    near, far = _likeness(one, groups), _mean_kernels(one, other)
    within = alikeness(other) if within is None else within
    adds = near - far
    centred = adds - (np.bincount(groups, adds) / np.bincount(groups))[groups]
    error = 2 * float(centred.std()) / math.sqrt(len(one))
    return DistanceEstimate(float(near.mean() - 2 * far.mean()) + within, error)


def biased_kernel_distance(one: Any, other: Any) -> float:
    """The squared distance of the mean features of the two sets themselves: never below zero, and too large.

    >>> biased_kernel_distance(np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]]))
    31.0
    """
    one, other = two_sets("biased_kernel_distance", one, other, 1)
    a, b, c = (float(_mean_kernels(*pair).mean()) for pair in ((one, one), (other, other), (one, other)))
    return a + b - 2 * c


def kernel_distance_over_subsets(
    one: Any,
    other: Any,
    *,
    subsets: int = 100,
    size: int = 1000,
    seed: int = 0,
) -> SubsetSpread:
    """Unbiased distances of random subsets of `size` rows of either set, at most half of the smaller one.

    >>> x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    >>> found = kernel_distance_over_subsets(x, y)
    >>> found.size, abs(found.mean) < found.deviation
    (30, True)
    """
    one, other = two_sets("kernel_distance_over_subsets", one, other, 4)
    size, rng = min(size, len(one) // 2, len(other) // 2), np.random.default_rng(seed)
    if size < 2 or subsets < 2:
        raise ArgumentError(
            f"kernel_distance_over_subsets(subsets={subsets}, size={size}): needs two rows and two subsets or more"
        )
    sums = np.array([_subset_means(one, other, rng, size) for _ in range(subsets)])
    means = PairMeans(*sums.T)
    found = np.asarray(means.unbiased((size, size)))
    return SubsetSpread(float(found.mean()), float(found.std(ddof=1)), size)


def alikeness(rows: Any, strata: Labels | None = None) -> float:
    """Mean of the kernel over pairs of independent draws; `strata` as in `kernel_distance`."""
    rows = rows_of("alikeness", "rows", rows)
    if len(rows) < 2:
        raise ArgumentError("alikeness: one example has no other to be like", remedy="give two or more")
    return float(_likeness(rows, _groups(len(rows), strata)).mean())


def _subset_means(
    one: np.ndarray, other: np.ndarray, rng: np.random.Generator, size: int
) -> tuple[float, ...]:
    """Means of the kernel over pairs of a random subset: within either set, across, and of rows with themselves."""
    x, y = (rows[rng.choice(len(rows), size, replace=False)] for rows in (one, other))
    within = (_total_kernel(x, x), _total_kernel(y, y), _total_kernel(x, y))
    return (*(total / size**2 for total in within), _own(x).mean(), _own(y).mean())


def _total_kernel(a: np.ndarray, b: np.ndarray) -> float:
    """Summed over all pairs, a block at a time that stays in the cache."""
    total = 0.0
    for first in range(0, len(a), _BLOCK):
        base = _base(a[first : first + _BLOCK], b)
        total += float(np.vdot(base * base, base))
    return total


def _mean_kernels(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each row of the one with all of the other."""
    return np.concatenate(
        [_kernel(a[first : first + _BLOCK], b).mean(axis=1) for first in range(0, len(a), _BLOCK)]
    )


def _likeness(
    rows: Float[np.ndarray, "some kept"], groups: Int[np.ndarray, " some"]
) -> Float[np.ndarray, " some"]:
    """Mean of the kernel of every example with the others, those of its group counted for itself too."""
    sizes = np.bincount(groups)[groups]
    found, own = np.empty(len(rows)), _own(rows)
    for first in range(0, len(rows), _BLOCK):
        block = slice(first, first + _BLOCK)
        likeness, same = _kernel(rows[block], rows), groups[block, None] == groups[None]
        inside = (np.where(same, likeness, 0).sum(axis=1) - own[block]) * sizes[block] / (sizes[block] - 1)
        found[block] = (inside + np.where(same, 0, likeness).sum(axis=1)) / len(rows)
    return found


def _groups(count: int, strata: Labels | None) -> Int[np.ndarray, " some"]:
    """Numbers of groups of at least two: classes, those of a single example joined to the largest one."""
    if strata is None:
        return np.zeros(count, np.int64)
    _, groups, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    joined = np.where(sizes[groups] < 2, sizes.argmax(), groups)
    return np.unique(joined, return_inverse=True)[1]


def _base(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    base: np.ndarray = (a / a.shape[1]) @ b.T
    base += 1
    return base


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    base = _base(a, b)
    found: np.ndarray = base * base  # a power of 3 takes ten times as long
    found *= base
    return found


def _own(rows: np.ndarray) -> np.ndarray:
    """The kernel of each row with itself."""
    found: np.ndarray = (np.square(rows).sum(axis=1) / rows.shape[1] + 1) ** 3
    return found


__all__ = [
    "DistanceEstimate",
    "SubsetSpread",
    "alikeness",
    "biased_kernel_distance",
    "kernel_distance",
    "kernel_distance_over_subsets",
]
