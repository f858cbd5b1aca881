"""Maximum mean discrepancy: the distance between the mean features of two samples, by their kernel alone.

What a kernel says of the pairs of two samples are a few means; the square of the distance is a sum of them, and there
are two: biased, which is never negative, and unbiased, which leaves pairs of a point with itself out and may be. Here
is the arithmetic that any kernel shares, with the Gaussian one; machines on other kernels are in `chainrule.kernels`.

Reference: Gretton, Borgwardt, Rasch, Schölkopf and Smola, A kernel two-sample test, JMLR 13, 2012.
"""

from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distances import squared_distances
from chainrule.probability.distributions.parameters import finite, floating, positive

_Means: TypeAlias = Float[Any, "*batch"]
"""Arrays of JAX, or of NumPy where nothing is to be compiled."""


class PairMeans(NamedTuple):
    """Means of a kernel over the pairs of two samples; with leading axes, of several pairs of samples."""

    first: _Means
    """Over all pairs of the first sample, those of a point with itself included."""
    second: _Means
    between: _Means
    own_first: _Means
    """Of points of the first sample with themselves."""
    own_second: _Means

    @property
    def biased(self) -> _Means:
        """The squared distance of the two mean features."""
        return self.first + self.second - 2 * self.between

    def unbiased(self, sizes: tuple[int, int]) -> _Means:
        """An estimate of the squared distance of two distributions, right on average; it may be negative."""
        n, m = sizes
        first = (n * self.first - self.own_first) / (n - 1)
        second = (m * self.second - self.own_second) / (m - 1)
        return first + second - 2 * self.between


def root_of_square(square: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The root of a biased square; zero, with a derivative of zero, where it is no more than rounding."""
    above = square > 4 * jnp.finfo(square.dtype).eps
    return jnp.where(above, jnp.sqrt(jnp.where(above, square, 1.0)), 0.0)


def mmd(x: Any, y: Any, scale: Any = None, bandwidth: Any = 0.0) -> Scalar:
    """Maximum mean discrepancy of two samples under the kernel exp(-|x - y|² / (2 scale²)), between 0 and sqrt(2).

    Samples are `[points]` or `[points, features]`. `scale` defaults to the median distance of all pairs. A `bandwidth`
    gives the value for both samples convolved with N(0, bandwidth² I), exactly.

    >>> float(mmd([0.0, 1.0], [0.0, 1.0])), round(float(mmd([0.0], [100.0], scale=1.0)), 4)
    (0.0, 1.4142)
    """
    first, second = (_points(name, one) for name, one in (("x", x), ("y", y)))
    if first.shape[1] != second.shape[1]:
        raise ArgumentError(f"mmd: x has {first.shape[1]} features and y has {second.shape[1]}")
    width = median_distance(first, second) if scale is None else positive("mmd", "scale", floating(scale))
    wide = jnp.square(width) + 2 * jnp.square(floating(bandwidth))
    # What the convolution does to the kernel: it gets wider, and lower by this factor.
    lower = (jnp.square(width) / wide) ** (first.shape[1] / 2)

    def mean(a: Array, b: Array) -> Array:
        return lower * jnp.exp(-squared_distances(a, b) / (2 * wide)).mean()

    means = PairMeans(mean(first, first), mean(second, second), mean(first, second), lower, lower)
    return root_of_square(means.biased)


def median_distance(x: Any, y: Any) -> Scalar:
    """The median distance between different points of two samples taken together; 1 where all are the same.

    >>> float(median_distance([0.0], [2.0]))
    2.0
    """
    pooled = jnp.concatenate([_points("x", x), _points("y", y)])
    distances = jnp.sqrt(squared_distances(pooled, pooled))
    apart = distances > 0
    found = jnp.nanmedian(jnp.where(apart, distances, jnp.nan))
    return jnp.where(apart.any(), found, 1.0)


def _points(name: str, values: Any) -> Array:
    points = finite("mmd", name, floating(values))
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or not points.size:
        raise ArgumentError(
            f"mmd({name}): needs points, not shape {points.shape}", remedy="[points] or [points, features]"
        )
    return points


__all__ = ["PairMeans", "median_distance", "mmd", "root_of_square"]
