"""Fréchet distance of two sets: that of the Gaussians with their means and covariances.

It is the square of the 2-Wasserstein distance, `probability.gaussian.wasserstein_2`, here on the host in double
precision, for sets. Of few rows it is too large, by an amount that shrinks like one over their number: only distances
of equally many rows compare, or what a line through several of them says of infinitely many.

References: Dowson and Landau, The Fréchet distance between multivariate normal distributions, 1982; Heusel, Ramsauer,
Unterthiner, Nessler and Hochreiter, GANs trained by a two time-scale update rule, 2017; Chong and Forsyth, Effectively
unbiased FID and where to find them, 2020.
"""

from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.probability.samples.rows import two_sets

_SIZES = 8
"""Sizes of subsets that the line to infinity is laid through."""
_EACH = 4
"""Subsets of each size, whose mean counts."""


def frechet_distance_of_moments(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any) -> float:
    """|m - m'|² + tr(C + C' - 2 (C½ C' C½)½), by symmetric eigendecompositions, eigenvalues below zero clipped.

    >>> frechet_distance_of_moments([0, 0], np.eye(2), [3, 4], np.eye(2))
    25.0
    """
    first, second = (np.asarray(c, np.float64) for c in (covariance, other_covariance))
    sizes, axes = np.linalg.eigh(first)
    root = (axes * np.sqrt(np.maximum(sizes, 0))[None]) @ axes.T
    middle = root @ second @ root
    # A product is symmetric up to rounding only, and one triangle of it is what eigvalsh reads.
    crossed = np.sqrt(np.maximum(np.linalg.eigvalsh((middle + middle.T) / 2), 0)).sum()
    apart = np.square(np.asarray(mean, np.float64) - np.asarray(other_mean, np.float64)).sum()
    return max(float(apart + np.trace(first) + np.trace(second) - 2 * crossed), 0.0)


def frechet_distance(one: Any, other: Any) -> float:
    """The distance of two sets of rows.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(frechet_distance(x, 2.0 + x), 6)
    12.0
    """
    first, second = two_sets("frechet_distance", one, other, 2)
    return frechet_distance_of_moments(*_moments(first), *_moments(second))


def frechet_at_infinity(one: Any, other: Any, seed: int = 0) -> float:
    """What the distance of ever more rows of `one` from `other` tends to, by a line through subsets over 1/size.

    Subsets have half of the rows and more; it is an estimate, and may be below zero.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(400, 20)), rng.normal(size=(4000, 20))
    >>> abs(frechet_at_infinity(x, y)) < frechet_distance(x, y) / 2
    True
    """
    if len(one) < 2 * _SIZES:
        raise ArgumentError(
            f"frechet_at_infinity: {len(one)} examples are too few to be divided",
            remedy=f"give {2 * _SIZES} or more",
        )
    one, other = two_sets("frechet_at_infinity", one, other, 2)
    rng, moments = np.random.default_rng(seed), _moments(other)
    sizes = np.unique(np.linspace(len(one) / 2, len(one), _SIZES).astype(int))
    found = []
    for size in sizes:
        subsets = (rng.choice(len(one), size, replace=False) for _ in range(_EACH if size < len(one) else 1))
        found.append(
            np.mean([frechet_distance_of_moments(*_moments(one[rows]), *moments) for rows in subsets])
        )
    return float(np.polyfit(1 / sizes, found, 1)[1])


def _moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = rows.mean(axis=0)
    centred = rows - mean
    return mean, centred.T @ centred / (len(rows) - 1)  # one triangle is computed: np.cov computes both


__all__ = ["frechet_at_infinity", "frechet_distance", "frechet_distance_of_moments"]
