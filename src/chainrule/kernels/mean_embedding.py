"""Mean embedding: a distribution as the mean of its features, and the distance of two of them (MMD).

The maximum mean discrepancy of P and Q is `|mu_P - mu_Q|` in the space of the kernel, which is also the largest
difference `E_P f - E_Q f` over functions f of norm one; the function that attains it is the witness. Several estimates
of its *square* are in use, and which one is meant is said by name. A regulariser by the distance is another one than
that by its square: `mmd` is the distance, `squared_mmd` the square.

Reference: Gretton, Borgwardt, Rasch, Schölkopf and Smola, A kernel two-sample test, JMLR 13, 2012.
"""

from typing import Any, Literal, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.kernels.approximation import feature_map
from chainrule.kernels.functions import RBF
from chainrule.kernels.kernel import TILE, Kernel, a_kernel, points
from chainrule.probability.divergences.kernel_mean import PairMeans, median_distance, root_of_square

Estimate = Literal["biased", "unbiased", "linear", "features"]
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Widths of the sum of kernels, in units of the median distance."""
_COMPARED = 1000
"""Points of each sample whose distances are compared for the median."""


@final
class MeanEmbedding(eqx.Module):
    """The mean feature of a sample: as a function of points, the mean kernel with them.

    >>> mean = MeanEmbedding(RBF(1.0), [0.0, 1.0])
    >>> round(float(mean([0.0])[0]), 3), round(float(mean.norm), 3)
    (0.803, 0.896)
    """

    kernel: Kernel
    points: Float[Array, "rows features"]

    def __init__(self, kernel: Kernel, x: Any) -> None:
        self.kernel, self.points = a_kernel("MeanEmbedding", kernel), points("MeanEmbedding", "x", x)
        if not len(self.points):
            raise ArgumentError("MeanEmbedding(x): a sample of no points has no mean")

    def __call__(self, x: Any) -> Float[Array, " new"]:
        """The function at points; it is also the inner product with their features."""
        return row_means(self.kernel, points("MeanEmbedding", "x", x), self.points)

    def inner(self, other: "MeanEmbedding") -> Scalar:
        """The inner product with another mean: the mean kernel of all pairs."""
        return row_means(self.kernel, self.points, other.points).mean()

    @property
    def norm(self) -> Scalar:
        """The length of the mean."""
        return jnp.sqrt(jnp.maximum(self.inner(self), 0.0))

    def distance(self, other: "MeanEmbedding") -> Scalar:
        """The maximum mean discrepancy from another sample."""
        return mmd(self.points, other.points, self.kernel)


@final
class Witness(eqx.Module):
    """The function of norm one whose means over two samples differ most; the difference is their MMD."""

    first: MeanEmbedding
    second: MeanEmbedding
    distance: Scalar
    """The maximum mean discrepancy."""

    def __call__(self, x: Any) -> Float[Array, " new"]:
        """Positive where the first sample is denser, as the kernel sees it, negative where the second is."""
        return (self.first(x) - self.second(x)) / self.distance


def witness(x: Any, y: Any, kernel: Kernel | None = None) -> Witness:
    """The witness of two samples.

    >>> f = witness([0.0, 1.0], [1.0, 3.0], RBF(1.0))
    >>> round(float(f([0.0, 1.0]).mean() - f([1.0, 3.0]).mean() - f.distance), 6)
    0.0
    """
    first, second = samples("witness", x, y)
    kernel = kernel or median_kernel(first, second)
    distance = mmd(first, second, kernel)
    if not isinstance(distance, jax.core.Tracer) and not float(distance) > 0:
        raise ArgumentError(
            "witness: the samples have the same mean feature, so that nothing tells them apart"
        )
    return Witness(MeanEmbedding(kernel, first), MeanEmbedding(kernel, second), distance)


def mmd(x: Any, y: Any, kernel: Kernel | None = None) -> Scalar:
    """The maximum mean discrepancy of two samples: the distance of their mean features, never negative.

    Without a kernel it is RBF of the median distance of all points. It can be differentiated and compiled.

    >>> round(float(mmd([0.0, 1.0], [1.0, 3.0], RBF(1.0))) ** 2, 6)
    0.494446
    """
    return root_of_square(squared_mmd(x, y, kernel, "biased"))


def squared_mmd(
    x: Any,
    y: Any,
    kernel: Kernel | None = None,
    estimate: str = "unbiased",
    *,
    count: int = 1024,
    key: Key | None = None,
) -> Scalar:
    """An estimate of the squared maximum mean discrepancy.

    `biased` is that of the two samples themselves; `unbiased` leaves pairs of a point with itself out and may be
    negative; `linear` compares neighbouring rows only, in time that grows with their number, also unbiased; `features`
    takes `count` random features in place of the kernel.

    >>> round(float(squared_mmd([0.0, 1.0], [1.0, 3.0], RBF(1.0))), 6)
    -0.134622
    """
    first, second = samples("squared_mmd", x, y)
    kernel = median_kernel(first, second) if kernel is None else a_kernel("squared_mmd", kernel)
    check_choice("squared_mmd", "estimate", estimate, get_args(Estimate))
    if estimate == "linear":
        return linear_terms(kernel, first, second).mean()
    if estimate == "features":
        a, b = mean_features(kernel, first, second, count, key)
        return jnp.square(a.mean(axis=0) - b.mean(axis=0)).sum()
    means = _pair_means(kernel, first, second)
    if estimate == "biased":
        return means.biased
    for name, sample in (("x", first), ("y", second)):
        if len(sample) < 2:
            raise ArgumentError(
                f"squared_mmd({name}): an unbiased estimate needs two points or more",
                remedy='give more, or use estimate="biased"',
            )
    return means.unbiased((len(first), len(second)))


def median_kernel(x: Any, y: Any) -> RBF:
    """RBF with the median distance of all points of two samples, of a thousand of each at most, as its scale."""
    first, second = samples("median_kernel", x, y)
    return RBF(_median(first, second))


def multi_scale(x: Any, y: Any, factors: tuple[float, ...] = FACTORS) -> Kernel:
    """A sum of RBF kernels whose scales are these multiples of the median distance.

    >>> float(multi_scale([0.0], [2.0])(0.0, 0.0))
    5.0
    """
    first, second = samples("multi_scale", x, y)
    if not factors:
        raise ArgumentError("multi_scale(factors): give one factor or more")
    median = _median(first, second)
    found: Kernel = RBF(factors[0] * median)
    for factor in factors[1:]:
        found = found + RBF(factor * median)
    return found


def row_means(
    kernel: Kernel, x: Float[Array, "rows features"], y: Float[Array, "columns features"]
) -> Float[Array, " rows"]:
    """The mean kernel of each row with all of y, a tile of the Gram matrix at a time, derivatives included."""
    return _row_means(kernel, x, y, max(1, TILE // len(y)))


@eqx.filter_jit
def _row_means(kernel: Kernel, x: Array, y: Array, block: int) -> Array:
    if block >= len(x):
        return kernel.tile(x, y).mean(axis=1)
    count = -(-len(x) // block)
    filled = jnp.concatenate([x, jnp.broadcast_to(x[:1], (count * block - len(x), x.shape[1]))])
    part = jax.checkpoint(lambda rows: kernel.tile(rows, y).mean(axis=1))
    return jax.lax.map(part, filled.reshape(count, block, -1)).reshape(-1)[: len(x)]


@eqx.filter_jit
def linear_terms(
    kernel: Kernel, x: Float[Array, "rows features"], y: Float[Array, "others features"]
) -> Float[Array, " pairs"]:
    """Independent terms with the squared discrepancy as their mean, one for every two rows of each sample."""
    pairs = min(len(x), len(y)) // 2
    if not pairs:
        raise ArgumentError("squared_mmd: the linear-time estimate needs two points or more of each sample")
    x, y = x[: 2 * pairs], y[: 2 * pairs]
    value = jax.vmap(lambda a, b: kernel.tile(a[None], b[None])[0, 0])
    a, b, c, d = x[::2], x[1::2], y[::2], y[1::2]
    return value(a, b) + value(c, d) - value(a, d) - value(b, c)


def mean_features(
    kernel: Kernel, x: Array, y: Array, count: int, key: Key | None
) -> tuple[Float[Array, "rows count"], Float[Array, "others count"]]:
    """Random features of two samples that stand for the kernel."""
    drawn = random.key(0, "features") if key is None else key
    features = feature_map(kernel, jnp.concatenate([x, y]), "rff", count, drawn)
    return jnp.asarray(features(x)), jnp.asarray(features(y))


@eqx.filter_jit
def _pair_means(kernel: Kernel, x: Array, y: Array) -> PairMeans:
    return PairMeans(
        row_means(kernel, x, x).mean(),
        row_means(kernel, y, y).mean(),
        row_means(kernel, x, y).mean(),
        kernel.diagonal(x).mean(),
        kernel.diagonal(y).mean(),
    )


def _median(x: Array, y: Array) -> Scalar:
    return jax.lax.stop_gradient(median_distance(*(one[:: -(-len(one) // _COMPARED)] for one in (x, y))))


def samples(where: str, x: Any, y: Any) -> tuple[Array, Array]:
    """Two samples of one number of features, as points."""
    first, second = points(where, "x", x), points(where, "y", y)
    for name, sample in (("x", first), ("y", second)):
        if not len(sample):
            raise ArgumentError(f"{where}({name}): a sample of no points has no mean")
    if first.shape[1] != second.shape[1]:
        raise ArgumentError(f"{where}: x has {first.shape[1]} features and y has {second.shape[1]}")
    return first, second


__all__ = [
    "FACTORS",
    "Estimate",
    "MeanEmbedding",
    "Witness",
    "linear_terms",
    "mean_features",
    "median_kernel",
    "mmd",
    "multi_scale",
    "row_means",
    "samples",
    "squared_mmd",
    "witness",
]
