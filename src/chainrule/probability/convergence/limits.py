"""Law of large numbers and central limit theorem for a source of one's own, and which of their hypotheses it breaks.

Means of independent draws go to the mean of the source, if it has one. Their errors, times sqrt(n), become normal with
the variance of the source, if that is finite. A Cauchy distribution has neither, and both fail.
"""

import math
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.probability.distributions.base import Distribution

_POINTS = 80
_NORMAL_QUARTILES = 1.3489795
"""Distance of the quartiles of a standard normal variable."""


@final
class RunningMeans(NamedTuple):
    """Means of the first n draws of every path."""

    n: np.ndarray
    means: np.ndarray
    """`[paths, len(n)]`."""
    mean: float
    """Of the source; not a number if it has none."""
    band: np.ndarray
    """1.96 standard errors of the mean of n draws; not a number where the variance is infinite."""
    broken: str
    """The hypothesis of the law of large numbers that the source breaks, in a sentence; empty if none."""

    def spread(self) -> np.ndarray:
        """Distance between the 5 % and the 95 % quantile of the paths, for each n."""
        low, high = np.quantile(self.means, (0.05, 0.95), axis=0)
        spread: np.ndarray = high - low
        return spread


@final
class StandardizedSums(NamedTuple):
    """Sums of n draws, each less the mean, over sqrt(n)."""

    n: np.ndarray
    sums: np.ndarray
    """`[len(n), paths]`."""
    deviation: float
    """Of the normal limit: that of the source. Where that is infinite, of the normal variable with its quartiles."""
    distance: np.ndarray
    """Kolmogorov distance from that normal distribution, for each n."""
    noise: float
    """What that distance would be of draws of the normal distribution itself, at most, in 99 of 100 cases."""
    broken: str
    """The hypothesis of the central limit theorem that the source breaks, in a sentence; empty if none."""


def running_means(source: Distribution, key: Key, *, steps: int = 5000, paths: int = 200) -> RunningMeans:
    """Means of the first n of `steps` draws, for many paths.

    >>> from chainrule.probability import StudentT
    >>> running_means(StudentT(1.0), jax.random.key(0), steps=100, paths=20).broken
    'the source has no mean, which the law of large numbers needs (StudentT: degrees is 1; degrees must exceed 1 ...'
    """
    steps = whole("running_means", "steps", steps, least=10)
    paths = whole("running_means", "paths", paths, least=10)
    mean, deviation, why = _moments("running_means", source)
    draws = np.asarray(source.sample(key, (paths, steps)), np.float64)
    n = np.unique(np.geomspace(1, steps, _POINTS).round().astype(int))
    means = (np.cumsum(draws, axis=1) / np.arange(1, steps + 1))[:, n - 1]
    broken = (
        "" if math.isfinite(mean) else f"the source has no mean, which the law of large numbers needs{why}"
    )
    band = 1.96 * deviation / np.sqrt(n) if math.isfinite(deviation) else np.full(len(n), np.nan)
    return RunningMeans(n, means, mean, band, broken)


def standardized_sums(
    source: Distribution, key: Key, *, n: tuple[int, ...] = (1, 4, 16, 64, 256), paths: int = 4000
) -> StandardizedSums:
    """Sums of n draws, standardised, against the normal distribution.

    >>> from chainrule.probability import Exponential
    >>> found = standardized_sums(Exponential(1.0), jax.random.key(0), n=(1, 256), paths=1000)
    >>> bool(found.distance[0] > 0.1), bool(found.distance[1] < 0.06)
    (True, True)
    """
    paths = whole("standardized_sums", "paths", paths, least=10)
    if not n:
        raise ArgumentError("standardized_sums(n=()): at least one number of draws is needed")
    sizes = np.array([whole("standardized_sums", "n", one) for one in n])
    mean, deviation, why = _moments("standardized_sums", source)
    keys = jax.random.split(key, len(sizes))
    first = np.asarray(source.sample(jax.random.fold_in(key, 1), 20_000), np.float64)
    lower, middle, upper = np.quantile(first, (0.25, 0.5, 0.75))
    centre = mean if math.isfinite(mean) else middle
    finite = math.isfinite(deviation)
    scale = deviation if finite else (upper - lower) / _NORMAL_QUARTILES
    sums = np.stack(
        [
            np.asarray(_sums(source, one, jnp.asarray(size), paths, jnp.asarray(centre)), np.float64)
            for one, size in zip(keys, sizes, strict=True)
        ]
    )
    distance = np.array([scipy.stats.kstest(row, "norm", args=(0.0, scale)).statistic for row in sums])
    broken = (
        "" if finite else f"the source has no finite variance, which the central limit theorem needs{why}"
    )
    return StandardizedSums(sizes, sums, float(scale), distance, 1.63 / math.sqrt(paths), broken)


@eqx.filter_jit
def _sums(source: Distribution, key: Key, n: Array, paths: int, centre: Array) -> Array:
    """Standardised sums `[paths]`; n is an argument of the program, which serves all of them."""

    def add(i: Array, total: Array) -> Array:
        return total + (source.sample(jax.random.fold_in(key, i), paths) - centre)

    return jax.lax.fori_loop(0, n, add, jnp.zeros(paths)) / jnp.sqrt(n)


def _moments(where: str, source: Distribution) -> tuple[float, float, str]:
    """Mean and standard deviation of a source of single numbers, not finite where there is none, and why that is."""
    if source.batch_shape or source.event_shape:
        raise ArgumentError(
            f"{where}: the source draws shape {source.batch_shape + source.event_shape}, not single numbers",
            remedy="give one distribution of numbers, such as Exponential(1.0)",
        )
    try:
        return float(source.mean), math.sqrt(float(source.variance)), ""
    except ArgumentError as refused:  # a distribution without moments says so, in words worth passing on
        return math.nan, math.nan, f" ({refused.message})"


__all__ = ["RunningMeans", "StandardizedSums", "running_means", "standardized_sums"]
